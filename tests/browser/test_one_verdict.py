"""All that people look at says the same of the same fleet: dashboard, terminal, HTTP and gauges show one picture."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.async_api import Browser, Page, expect

from lingua_scheduler.cli.main import main
from tests.support.browser import DESKTOP, page_of
from tests.support.instances import START_WITHIN_S
from tests.support.peers import Field, field
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

WITHIN_MS = 90_000
QUICK = ("--set", "watch.watched_interval_ms=200", "--set", "watch.interval_ms=200")
GAUGE = {None: 0, "notice": 1, "warning": 2, "critical": 3}
MARK = {None: "good", "notice": "good", "warning": "warning", "critical": "critical"}


async def test_dashboard_terminal_http_and_gauges_agree(server: RedisProcess, tmp_path: Path, opened: Browser) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url, *QUICK) as serving:
        await until(lambda: serving.port, START_WITHIN_S, "a scheduler")
        async with field(serving.port) as peers, page_of(opened, DESKTOP) as page:
            await page.goto(f"http://127.0.0.1:{peers.port}/dashboard")
            await all_say(peers, page, "critical", "nodes.none", "Translation is down")
            first, second = await peers.node(languages=("en", "zh")), await peers.node(languages=("en", "zh"))
            await all_say(peers, page, None, "ready", "All is well; there is no speech")
            await peers.post(f"/v1/nodes/{second.node_id}/drain")
            await all_say(peers, page, "notice", "ready", "All is well; there is no speech")
            await all_point_at(peers, page, server, second.node_id)
            await peers.node(languages=("en", "fr"))
            await peers.client(src_lang="zh", tgt_lang="en")
            await peers.post(f"/v1/nodes/{first.node_id}/evict")
            await first.socket.close()
            await all_say(peers, page, "critical", "pair.lost", "no node serves")


async def all_say(peers: Field, page: Page, level: str | None, code: str, sentence: str) -> None:
    async def is_judged() -> bool:
        told = await verdict_of(peers)
        return (told["level"], told["code"]) == (level, code)

    await until(is_judged, WITHIN_MS / 1000, f"the verdict {level} {code}, not {await verdict_of(peers)}")
    told = await verdict_of(peers)
    _, flat = await peers.get("/api/v1/metrics")
    assert flat["verdict"] == level
    await expect(page.locator(".verdict")).to_contain_text(sentence, timeout=WITHIN_MS)
    await expect(page.locator(".verdict")).to_have_attribute("data-level", MARK[level])
    _, metrics = await peers.get("/metrics")
    assert f"lingua_verdict {float(GAUGE[level])}\n" in metrics
    shown = await lingua("status", "--url", f"http://127.0.0.1:{peers.port}")
    assert shown.splitlines()[0] == told["text"]


async def all_point_at(peers: Field, page: Page, server: RedisProcess, node_id: str) -> None:
    """The one node that needs a look, and how bad it is."""
    _, picture = await peers.get("/v1/picture")
    assert picture["needs_look"]["nodes"] == [node_id]
    (look,) = [node for node in picture["nodes"] if node["node_id"] == node_id]
    _, about = await peers.get(f"/v1/nodes/{node_id}")
    listed = {node["node_id"]: node for node in (await peers.get("/v1/nodes"))[1]["nodes"]}
    assert look["level"] == about["level"] == listed[node_id]["level"] == "notice"
    assert listed[node_id]["state"] == about["state"] == "draining"
    sick = page.locator(".lines li", has=page.locator(f"a[href$='{node_id}']"))
    await expect(sick.locator(".mark").first).to_have_attribute("data-level", "notice", timeout=WITHIN_MS)
    shown = await lingua("status", "--url", f"http://127.0.0.1:{peers.port}")
    assert any(node_id in line and "draining" in line for line in shown.splitlines())
    assert f'"node_id": "{node_id}", "state": "draining"' in await lingua("nodes", "--json", "--redis-url", server.url)


async def verdict_of(peers: Field) -> dict[str, Any]:
    _, picture = await peers.get("/v1/picture")
    verdict: dict[str, Any] = picture["verdict"]
    return verdict


async def lingua(*arguments: str) -> str:
    runner = CliRunner(env={"COLUMNS": "200", "LINES": "60"})
    shown = await asyncio.to_thread(runner.invoke, main, list(arguments))
    assert shown.exit_code == 0, shown.output
    return str(shown.stdout)
