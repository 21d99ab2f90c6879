"""Every view of the dashboard with made-up pictures: bad news, no news, hostile names, a thousand nodes."""

import json
import re
import statistics
from typing import Any

import msgspec
import pytest
from playwright.async_api import Page, expect

from lingua_scheduler.domain.picture import Level
from tests.support import pictures
from tests.support.browser import DESKTOP, PHONE, axe, browser, page_of
from tests.support.watched import Watched, watched

WITHIN_MS = 15_000
JOB = "job-0-i-1-7"
ROUTES = (
    *("overview", "pairs?as=matrix", "pairs?as=list", "pairs/fr:de", "nodes", "nodes/gpu-1", "nodes/gone", "jobs"),
    *(f"jobs/{JOB}", "jobs/gone", "instances", "nowhere"),
)


def a_bad_day(**more: Any) -> Watched:
    """Something of every kind is wrong."""
    nodes = [
        pictures.node("gpu-1", ("en", "zh", "de"), state="draining", free=None, held=2),
        pictures.node("gpu-2", ("en", "zh"), state="quarantined", free=None),
        pictures.node("gpu-3", ("en", "zh"), held=4, free=0),
        pictures.node("gpu-4", ("en", "es"), cpu=None),
    ]
    alarms = [
        pictures.alarm("pair.lost", Level.CRITICAL, "fr:de", src="fr", tgt="de"),
        pictures.alarm("pair.full", subject="en:zh", src="en", tgt="zh", jobs=7, slots=4),
        pictures.alarm("node.quarantined", subject="gpu-2", node_id="gpu-2", until_ms=0),
        pictures.alarm("letters.dead", letters=2),
        *(pictures.alarm("pair.thin", Level.NOTICE, pair, src=pair[:2], tgt=pair[3:], node_id="gpu-4") for pair in ("en:es", "es:en")),
    ]
    shown = pictures.picture(
        nodes,
        alarms=alarms,
        dead_letters=2,
        failures=[pictures.job(serial, node_id="gpu-2") for serial in range(4)],
        slow=[pictures.job(9, state="DONE", reason="")],
        instances=[pictures.instance("i-1", is_leader=True), pictures.instance("i-2", is_alive=False, inbox_pending=2)],
        **more,
    )
    events = [
        pictures.event("node.state_changed", "gpu-1", node_id="gpu-1", **{"from": "ready", "to": "draining"}),
        pictures.event("alarm.raised", "fr:de", level=Level.CRITICAL, code="pair.lost", src="fr", tgt="de"),
    ]
    made = Watched(shown, pictures.history(shown.at_ms), events)
    made.pages = pages()
    return made


def pages() -> dict[str, Any]:
    step = {"state": "RUNNING", "at_ms": 1_700_000_000_000, "attempt": 1, "node_id": "gpu-2", "reason": ""}
    look = {
        "headline": "no node for en→zh can take it",
        "looked_at_ms": 1_700_000_000_000,
        "counts": {"excluded": 1},
        "candidates": [{"node_id": "gpu-2", "verdict": "excluded", "detail": "this job was tried there already"}],
    }
    fields = {"job_id": JOB, "state": "FAILED", "attempt": 1, "node_id": "gpu-2", "src_lang": "en", "tgt_lang": "zh"}
    more = {"pools": [], "session_id": "s-1", "utterance_index": 3, "owner": "i-1", "shard": 0, "reason": "NMT_TIMEOUT"}
    letter = {"letter_id": "1-1", "instance_id": "i-2", "kind": "attempt_lost", "sender": "i-1", "subject": JOB}
    fate = {"body_bytes": 9, "deliveries": 5, "reason": "the handler failed", "buried_at_ms": 1_700_000_000_000}
    return {
        f"/v1/jobs/{JOB}": fields | more | {"detail": "gave up", "times_ms": {}, "history": [step]},
        f"/v1/jobs/{JOB}/explain": {"job_id": JOB, "state": "FAILED", "headline": "all were tried", "then": look, "now": None},
        "/v1/dead-letters": {"total": 1, "dead_letters": [letter | fate]},
        "/v1/nodes/gpu-1": {"jobs": [{"job_id": JOB, "attempt_id": 1, "state": "RUNNING", "deadline_ms": 0}]},
        "/v1/pools/fr/de": {"missing": {"speech": "no node takes work for fr→de"}},
        "/v1/events": {"events": []},
    }


async def open_at(page: Page, shown: Watched, route: str) -> None:
    await page.goto(f"{shown.url}#/{route}")
    await expect(page.locator("h1")).to_be_visible(timeout=WITHIN_MS)


# For everybody


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.timeout(120)
async def test_no_view_keeps_anybody_out(theme: str) -> None:
    """axe-core finds nothing serious, and nothing is wider than a phone."""
    checker = axe()
    async with watched(a_bad_day()) as shown, browser() as opened:
        async with page_of(opened, DESKTOP, theme=theme) as large, page_of(opened, PHONE, theme=theme) as small:
            for page in (large, small):
                await page.goto(shown.url)
                await page.evaluate(checker)
            for route in ROUTES:
                for page in (large, small):
                    await page.evaluate(f"location.hash = {json.dumps('#/' + route)}")
                    await expect(page.locator("h1")).to_be_visible(timeout=WITHIN_MS)
                    await expect(page.locator("[aria-busy]")).to_have_count(0)
                    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), route
                    assert await serious(page) == [], route
            await large.keyboard.press("?")
            assert await serious(large) == []


async def serious(page: Page) -> list[str]:
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {[node['html'] for node in one['nodes']][:3]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


# What peers say


HOSTILE = """<img src=x onerror="alert('node')"><script>alert(1)</script>"""


async def test_what_peers_say_is_shown_and_never_run() -> None:
    node = pictures.node(
        HOSTILE, ("en", "zh"), services=[HOSTILE], version=HOSTILE, platform=HOSTILE, unavailable=[HOSTILE], state=HOSTILE
    )
    odd = msgspec.structs.replace(pictures.pairs_of([node])[0], src=HOSTILE, hangs_on=HOSTILE)
    nobody = {"code": HOSTILE, "level": Level.CRITICAL, "subject": HOSTILE, "text": HOSTILE, "node_id": HOSTILE}
    shown = pictures.picture(
        [node],
        pairs=[odd],
        failures=[pictures.job(1, job_id=HOSTILE, node_id=HOSTILE, reason=HOSTILE, src=HOSTILE)],
        instances=[pictures.instance(HOSTILE, address=HOSTILE, version=HOSTILE)],
        leader=HOSTILE,
        alarms=[pictures.alarm(**nobody), pictures.alarm("node.quarantined", subject=HOSTILE, node_id=HOSTILE)],
        session_languages={HOSTILE: 1},
    )
    events = [pictures.event("node.joined", HOSTILE, node_id=HOSTILE, slots=1), pictures.event(HOSTILE, HOSTILE)]
    async with watched(shown, events=events) as made, browser() as opened, page_of(opened) as page:
        asked: list[str] = []
        page.on("dialog", lambda dialog: asked.append(dialog.message))
        for route in ("overview", "pairs?as=matrix", "pairs?as=list", "nodes", "jobs", "instances"):
            await open_at(page, made, route)
            await expect(page.locator("main")).to_contain_text(HOSTILE)
            assert await page.locator("img[src=x], main script").count() == 0
        await open_at(page, made, "nodes")
        await page.locator(".vbody a").click()
        await expect(page.locator("h1")).to_have_text(HOSTILE)
        await page.get_by_role("button", name="Drain").click()
        await expect(page.get_by_role("dialog")).to_contain_text(HOSTILE)
        made.pages[made_path(HOSTILE)] = {"error": "NO", "detail": HOSTILE}
        await page.get_by_role("dialog").get_by_role("button", name="Drain").click()
        await expect(page.locator(".problem")).to_have_text(HOSTILE)
        assert not asked
        assert made.posted == [made_path(HOSTILE)]


def made_path(node_id: str) -> str:
    return f"/v1/nodes/{node_id}/drain"


# Keys, addresses


async def test_everything_can_be_reached_with_the_keyboard() -> None:
    async with watched(pictures.picture(pictures.many_nodes(60))) as shown, browser() as opened, page_of(opened) as page:
        await open_at(page, shown, "overview")
        await page.keyboard.press("/")
        await expect(page.locator("[data-filter]")).to_be_focused()
        await page.keyboard.type("node-004")
        await expect(page.locator(".vbody .vrow")).to_have_count(10)
        assert page.url.endswith("#/nodes?q=node-004")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        await page.keyboard.press("j")
        await expect(page.get_by_role("link", name="node-0041")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_have_text("node-0041")
        await page.keyboard.press("Escape")
        await expect(page.locator("h1")).to_have_text("Nodes")
        await page.keyboard.press("g")
        await page.keyboard.press("p")
        await expect(page.locator("h1")).to_have_text("Pairs")
        await page.keyboard.press("j")
        first = await page.evaluate("document.activeElement.title")
        await page.keyboard.press("ArrowRight")
        assert await page.evaluate("document.activeElement.title") != first
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_contain_text("Next row")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_an_address_says_what_was_chosen() -> None:
    async with watched(pictures.picture(pictures.many_nodes(200))) as shown, browser() as opened, page_of(opened) as page:
        await open_at(page, shown, "nodes?state=quarantined&sort=node.reversed")
        await expect(page.locator(".vbody .vrow .state")).to_have_text(["quarantined", "quarantined"])
        await expect(page.locator(".vbody .vrow a").first).to_have_text("node-0110")
        await page.get_by_role("button", name="Load").click()
        assert page.url.endswith("#/nodes?state=quarantined&sort=load")
        await expect(page.get_by_role("columnheader", name="Load")).to_have_attribute("aria-sort", "ascending")
        await open_at(page, shown, "jobs?q=nothing-like-this")
        await expect(page.get_by_role("searchbox")).to_have_value("nothing-like-this")


async def test_curves_tell_their_values_to_the_keyboard() -> None:
    async with watched(a_bad_day()) as shown, browser() as opened, page_of(opened) as page:
        await open_at(page, shown, "overview")
        curve = page.get_by_role("slider", name="From the end of speech")
        await expect(curve).to_have_attribute("aria-valuetext", re.compile("p95 [0-9]"))
        await curve.focus()
        await page.keyboard.press("Home")
        first = await curve.get_attribute("aria-valuetext")
        await page.keyboard.press("End")
        assert await curve.get_attribute("aria-valuetext") != first
        await expect(page.locator(".chart .unseen").nth(1)).to_contain_text("between")


# When things are away


async def test_old_news_is_marked_as_old() -> None:
    async with watched(pictures.picture(pictures.many_nodes(3))) as shown, browser() as opened, page_of(opened) as page:
        await open_at(page, shown, "overview")
        await expect(page.locator(".connection")).to_have_text("live")
        shown.change(is_stale=True, alarms=[pictures.alarm("redis.away", Level.CRITICAL)])
        await expect(page.locator(".verdict")).to_contain_text("Redis is away")
        await expect(page.locator(".connection")).to_contain_text("old: Redis is away")
        await expect(page.locator("#alert")).to_contain_text("Redis does not answer")
        shown.change(is_stale=False, alarms=[])
        await expect(page.locator(".verdict")).to_contain_text("People are being translated")


async def test_a_broken_stream_is_said_and_opened_again() -> None:
    async with watched(pictures.picture(pictures.many_nodes(3))) as shown, browser() as opened, page_of(opened) as page:
        await open_at(page, shown, "nodes")
        shown.is_away = True
        shown.cut()
        await expect(page.locator(".verdict")).to_contain_text("The scheduler does not answer", timeout=WITHIN_MS)
        await expect(page.locator(".connection")).to_contain_text("no connection")
        shown.is_away = False
        shown.picture = pictures.picture(pictures.many_nodes(4))
        await expect(page.locator(".connection")).to_have_text("live", timeout=WITHIN_MS)
        await expect(page.locator(".vbody .vrow")).to_have_count(4)


async def test_after_a_gap_the_page_asks_for_everything_again() -> None:
    async with watched(pictures.picture(pictures.many_nodes(3))) as shown, browser() as opened, page_of(opened) as page:
        await open_at(page, shown, "nodes")
        await expect(page.locator(".vbody .vrow")).to_have_count(3)
        shown.picture = pictures.picture(pictures.many_nodes(5), serial=7)
        shown.change()
        await expect(page.locator(".vbody .vrow")).to_have_count(5, timeout=WITHIN_MS)


# A thousand nodes


class Cost:
    """What the browser's main thread spent, as the browser itself counts it."""

    OBSERVE = """() => {
      window.spent = {"dashboard.change": [], "dashboard.draw": [], longtask: []};
      const observe = (list) => list.getEntries().forEach((one) => spent[one.entryType === "longtask" ? "longtask" : one.name]?.push(one.duration));
      new PerformanceObserver(observe).observe({entryTypes: ["measure", "longtask"]});
    }"""

    @staticmethod
    async def of(page: Page) -> dict[str, list[float]]:
        found: dict[str, list[float]] = await page.evaluate("spent")
        return found


@pytest.mark.parametrize("route", ["overview", "nodes?sort=load", "pairs?as=matrix", "pairs?as=list"])
async def test_a_thousand_nodes_stay_smooth(route: str, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = pictures.many_nodes(1000)
    shown = pictures.picture(nodes)
    async with watched(shown, history=pictures.history(shown.at_ms)) as made, browser() as opened, page_of(opened) as page:
        await open_at(page, made, route)
        await page.evaluate(Cost.OBSERVE)
        for turn in range(30):
            # Everybody's load changes, as it does in a busy second.
            nodes = [
                msgspec.structs.replace(
                    node, held=(node.held + turn) % 5, free=None if node.free is None else 4 - (node.held + turn) % 5
                )
                for node in nodes
            ]
            made.change(nodes=nodes, pairs=pictures.pairs_of(nodes))
            await page.wait_for_function(f"spent['dashboard.change'].length > {turn}", timeout=WITHIN_MS)
        cost = await Cost.of(page)
        assert await page.locator("main *").count() < 4_000
    with capsys.disabled():
        drawn = cost["dashboard.draw"]
        print(
            f"\n1000 nodes, {route}: change {statistics.median(cost['dashboard.change']):.1f} ms,"
            f" draw {statistics.median(drawn):.1f} ms (worst {max(drawn):.1f}),"
            f" long tasks {[round(task) for task in cost['longtask']]}"
        )
    # A slow machine is no reason to fail; half the changes in long tasks would be.
    assert statistics.median(drawn) < 50
    assert len(cost["longtask"]) < 15

