"""The failure history and a sick node on the dashboard, from a real scheduler: found, explained, released, evicted."""

import time
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from lingua_scheduler.domain.watching.tallies import TallySums
from tests.domain.watching.test_failures import failure
from tests.support.browser import page_of
from tests.support.peers import FakeNode, field, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

WITHIN_MS = 90_000
HOUR_MS = 3_600_000
QUICK = {"watch__interval_ms": 200, "watch__watched_interval_ms": 200}


async def refuse(node: FakeNode, job: dict[str, Any]) -> None:
    error = {"code": "PROCESSING_ERROR", "message": "the person said something"}
    await node.socket.send(result_of(job, node.node_id, success=False, error=error, text_asr=None))


async def test_a_failed_job_is_found_in_the_history_and_its_node_is_released_and_evicted(
    server: RedisProcess, opened: Browser
) -> None:
    async with scheduler_on(server.url, nodes__quarantine_consecutive=1, **QUICK) as (scheduler, store):
        async with field(scheduler.port) as peers, page_of(opened) as page:
            sick = await peers.node(refuse, node_id="node-sick")
            client = await peers.client()
            await client.utterance(3)
            assert (await client.outcome())["reason"] == "job_failed"
            dashboard = f"http://127.0.0.1:{scheduler.port}/dashboard"
            await until(lambda: peers_failed(peers))

            await page.goto(f"{dashboard}#/overview")
            line = page.locator("section", has=page.get_by_role("heading", name="Nodes that need attention"))
            await expect(line).to_contain_text("node-sick no jobs for", timeout=WITHIN_MS)

            older = failure(at_ms=int(time.time() * 1000) - 3 * HOUR_MS, job_id="job-0-old", tenant_id="acme")
            await store.failures.add([older], 100, 24 * HOUR_MS)
            await page.goto(f"{dashboard}#/jobs")
            await page.get_by_role("link", name="Failure history").click(timeout=WITHIN_MS)
            await expect(page.locator("h1")).to_have_text("Failure history")
            row = page.locator("tbody tr")
            await expect(row).to_have_count(1)
            await expect(row).to_contain_text("English → Chinese")
            await expect(row).to_contain_text("node-sick")
            await expect(row).not_to_contain_text("the person said")
            await page.get_by_role("searchbox").fill("nobody")
            await expect(page.get_by_text("No job failed in this time")).to_be_visible()
            # The last two hours, unless all of it is wanted; found by anything that is known of it.
            await page.get_by_label("How far back").select_option("")
            for words in ("job-0-old", "acme", "en:de", "JOB_TIMEOUT", "n1", "s-01234567"):
                await page.get_by_role("searchbox").fill(words)
                await expect(row).to_have_count(1)
                await expect(row).to_contain_text("job-0-old")
            await page.get_by_role("searchbox").fill("node-sick")
            await row.locator("th a").click()
            await expect(page.locator(".why")).to_contain_text("failed")

            await page.goto(f"{dashboard}#/nodes/node-sick")
            health = page.locator("section", has=page.get_by_role("heading", name="The last hour"))
            await expect(health).to_contain_text("PROCESSING_ERROR", timeout=WITHIN_MS)
            await expect(health).to_contain_text("100 %")
            sums = TallySums(done=3, took_ms=900, slowest_ms=600, audio_ms=2_000, audio_took_ms=500)
            await store.tallies.add(0, "node-sick", sums, [])
            await page.reload()
            await expect(health).to_contain_text("25 %", timeout=WITHIN_MS)
            for named, figure in (("Mean time", "300 ms"), ("Slowest", "600 ms"), ("Real-time factor", "0.25")):
                await expect(health).to_contain_text(f"{named}{figure}")
            await page.locator("#main").get_by_role("button", name="Release").click()
            await page.get_by_role("dialog").get_by_role("button", name="Release").click()
            await expect(page.locator("#main").get_by_role("button", name="Release")).to_be_hidden()

            await page.locator("#main").get_by_role("button", name="Evict").click()
            dialog = page.get_by_role("dialog")
            await expect(dialog).to_contain_text("It may connect again")
            await dialog.get_by_role("button", name="Cancel").click()
            assert not sick.socket.socket.closed
            await page.locator("#main").get_by_role("button", name="Evict").click()
            await dialog.get_by_role("button", name="Evict").click()
            await expect(page.get_by_text("This node is not connected")).to_be_visible()
            assert await sick.socket.closed() == 1012


async def peers_failed(peers: Any) -> bool:
    _, told = await peers.get("/v1/failures")
    _, node = await peers.get("/v1/nodes/node-sick")
    return bool(told["failures"] and node["lately"]["failed"])


async def test_the_page_of_a_node_lists_the_jobs_that_it_has(server: RedisProcess, opened: Browser) -> None:
    async with (
        scheduler_on(server.url, **QUICK) as (scheduler, _),
        field(scheduler.port) as peers,
        page_of(opened) as page,
    ):
        node = await peers.node(stay_silent, node_id="node-busy")
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: node.jobs)
        await page.goto(f"http://127.0.0.1:{scheduler.port}/dashboard#/nodes/node-busy")
        # Not among its last errors, where it will be named if it is given up.
        card = page.locator("section", has=page.get_by_role("heading", name="Its jobs", exact=True))
        job = card.get_by_role("link", name=node.jobs[0]["job_id"])
        await expect(job).to_be_visible(timeout=WITHIN_MS)
