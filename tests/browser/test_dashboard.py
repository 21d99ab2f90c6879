"""The dashboard in a real browser, on a real scheduler: what the person on call sees and does."""

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.support.browser import DESKTOP, PHONE, page_of
from tests.support.instances import START_WITHIN_S
from tests.support.peers import FakeClient, FakeNode, Field, Frame, answer, field, result_of
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

# A shared machine may be slow, and a picture comes once in 200 ms at best.
WITHIN_MS = 90_000
QUICK = ("--set", "watch.watched_interval_ms=200", "--set", "watch.interval_ms=500")
# A job that runs while a page is opened and clicked must not reach its timeout before it is looked at.
PATIENT = ("--set", "job.timeout_max_ms=600000", "--set", "job.timeout_base_ms=600000")


async def fail(node: FakeNode, job: Frame) -> None:
    error = {"code": "UNSUPPORTED_FEATURE", "message": "<b>no</b> such voice"}
    await node.socket.send(result_of(job, node.node_id, success=False, error=error))


async def talk(client: FakeClient, first: int, count: int) -> None:
    for index in range(first, first + count):
        await client.utterance(index)
        await client.outcome()


async def test_the_person_on_call_sees_and_steers_a_living_scheduler(
    server: RedisProcess, tmp_path: Path, opened: Browser
) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url, *QUICK, *PATIENT) as serving:
        await until(lambda: serving.port, START_WITHIN_S, "a scheduler")
        async with field(serving.port) as peers:
            await people_are_translated(peers, opened)
            await a_node_is_drained(peers, opened)
            await a_failed_job_is_explained(peers, opened)
            await a_killed_node_raises_an_alarm(peers, opened)


async def test_a_lost_redis_and_a_lost_scheduler_are_told_apart(tmp_path: Path, opened: Browser) -> None:
    redis = RedisProcess(str(binaries()["valkey"]))
    try:
        async with page_of(opened, DESKTOP) as page:
            async with serve_process(tmp_path, "--redis-url", redis.url, *QUICK) as serving:
                await until(lambda: serving.port, START_WITHIN_S, "a scheduler")
                async with field(serving.port) as peers:
                    await peers.node()
                    await page.goto(f"http://127.0.0.1:{peers.port}/dashboard#/nodes")
                    await expect(page.locator(".vbody .vrow")).to_have_count(1, timeout=WITHIN_MS)
                    redis.stop()
                    await expect(page.locator(".verdict")).to_contain_text("Redis is unavailable", timeout=WITHIN_MS)
                    await expect(page.locator(".vbody .vrow")).to_have_count(1)
            await expect(page.locator(".verdict")).to_contain_text("The scheduler does not answer", timeout=WITHIN_MS)
            await expect(page.locator(".connection")).to_contain_text("no connection")
    finally:
        redis.stop()


async def people_are_translated(peers: Field, opened: Browser) -> None:
    async with page_of(opened, DESKTOP) as page:
        await page.goto(f"http://127.0.0.1:{peers.port}/dashboard")
        await expect(page.locator(".verdict")).to_contain_text("Translation is down", timeout=WITHIN_MS)
        await expect(page.locator(".overview .command")).to_contain_text("lingua node")
        await peers.node(languages=("en", "zh"), max_concurrent_jobs=4)
        client = await peers.client()
        await expect(page.locator(".verdict")).to_contain_text("eople are being translated", timeout=WITHIN_MS)
        await expect(page.locator(".verdict")).to_contain_text("1 session")
        done = page.locator(".outcomes strong").first
        before = int(await done.inner_text())
        await talk(client, 0, 5)
        await expect(done).to_have_text(str(before + 5), timeout=WITHIN_MS)
        await expect(page.locator(".chart").first.locator("path.chart-line.series-0").last).to_have_attribute(
            "d", re.compile("^M")
        )


async def a_node_is_drained(peers: Field, opened: Browser) -> None:
    """With a job on it that ends while somebody looks, on a phone."""
    go_on = asyncio.Event()

    async def wait_then_answer(node: FakeNode, job: Frame) -> None:
        await go_on.wait()
        await answer(node, job)

    node = await peers.node(wait_then_answer, languages=("de", "fr"))
    client = await peers.client(src_lang="de", tgt_lang="fr")
    await client.utterance(0, src_lang="de", tgt_lang="fr")
    await until(lambda: node.jobs)
    async with page_of(opened, PHONE) as page:
        await page.goto(f"http://127.0.0.1:{peers.port}/dashboard#/nodes?q=de:fr")
        await page.get_by_role("link", name=node.node_id).click(timeout=WITHIN_MS)
        await expect(page.get_by_role("heading", level=1)).to_have_text(node.node_id)
        await expect(page.get_by_role("heading", level=1)).to_be_focused()
        await page.get_by_role("button", name="Drain").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("Without it no node translates")
        await expect(dialog).to_contain_text("German → French")
        await dialog.get_by_role("button", name="Drain").click()
        progress = page.locator(".drain")
        await expect(progress).to_contain_text("1 job of 1 still runs", timeout=WITHIN_MS)
        go_on.set()
        await expect(progress).to_contain_text("Drained: no job is running", timeout=WITHIN_MS)
        await page.get_by_role("button", name="Resume").click()
        await page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        await expect(progress).to_be_hidden(timeout=WITHIN_MS)
        await expect(page.locator(".facts .state")).to_have_text("ready")
        history = page.locator(".events")
        await expect(history).to_contain_text("ready → draining")
        await expect(history).to_contain_text("draining → ready")


async def a_failed_job_is_explained(peers: Field, opened: Browser) -> None:
    await peers.node(fail, languages=("ja", "ko"))
    client = await peers.client(src_lang="ja", tgt_lang="ko")
    await client.utterance(0, src_lang="ja", tgt_lang="ko")
    await client.outcome()
    async with page_of(opened, DESKTOP, theme="dark") as page:
        await page.goto(f"http://127.0.0.1:{peers.port}/dashboard#/jobs")
        row = page.get_by_role("row", name="Japanese → Korean").first
        await expect(row).to_contain_text("UNSUPPORTED_FEATURE", timeout=WITHIN_MS)
        await row.get_by_role("link").first.click()
        await expect(page.locator(".why h2")).to_have_text("failed", timeout=WITHIN_MS)
        await expect(page.locator(".why .lead")).not_to_be_empty()
        await expect(page.locator(".timeline li").last).to_contain_text("UNSUPPORTED_FEATURE")
        assert await page.locator("main b").count() == 0
        await expect(page.locator(".timeline li").first).not_to_contain_text("attempt 0")
        said = await page.locator("main p[lang=en]").all_inner_texts()
        assert len(said) == len(set(said)), said
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")


async def a_killed_node_raises_an_alarm(peers: Field, opened: Browser) -> None:
    """And it is said in the other language, in the other theme, on both sizes."""
    node = await peers.node(languages=("it", "es"))
    # The pair is wanted.
    await peers.client(src_lang="it", tgt_lang="es")
    async with page_of(opened, DESKTOP) as large, page_of(opened, PHONE, theme="dark") as small:
        for page in (large, small):
            await page.goto(f"http://127.0.0.1:{peers.port}/dashboard#/nodes/{node.node_id}")
            await expect(page.locator(".facts .state")).to_have_text("ready", timeout=WITHIN_MS)
        node.socket.drop()
        for page in (large, small):
            await sees_the_loss(page, node.node_id)


async def sees_the_loss(page: Page, node_id: str) -> None:
    await expect(page.locator(".empty-title")).to_contain_text("not connected", timeout=WITHIN_MS)
    await expect(page.locator("#alert")).to_contain_text("no node translates this", timeout=WITHIN_MS)
    await page.keyboard.press("g")
    await page.keyboard.press("o")
    await expect(page.locator(".alarms").first).to_contain_text("Italian → Spanish: no node translates this")
    await expect(page.locator(".alarms").first).to_contain_text("Start one with: lingua node --languages it,es")
    await expect(page.locator(".events")).to_contain_text(f"{node_id} left")
    theme = await page.locator("html").get_attribute("data-theme")
    await page.locator("#theme").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "light" if theme == "dark" else "dark")
    await page.locator("#language").select_option("zh")
    await expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    await expect(page.locator(".alarms").first).to_contain_text("意大利语 → 西班牙语：没有节点可以翻译")
    await page.reload()
    await expect(page.locator(".alarms").first).to_contain_text("没有节点可以翻译", timeout=WITHIN_MS)
    await expect(page.locator("html")).to_have_attribute("data-theme", "light" if theme == "dark" else "dark")
