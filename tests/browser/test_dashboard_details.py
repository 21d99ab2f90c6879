"""What the dashboard says in small places: ages, counts, drained nodes, a phone's narrow tables."""

import msgspec
import pytest
from playwright.async_api import Browser, Page, expect

from lingua_scheduler.domain.watching.picture import Level
from tests.support import scenes
from tests.support.browser import PHONE, page_of
from tests.support.dashboards import Watched, watched

pytestmark = pytest.mark.asyncio(loop_scope="session")

WITHIN_MS = 90_000


async def open_at(page: Page, shown: Watched, route: str) -> None:
    await page.goto(f"{shown.url}#/{route}")
    await expect(page.locator("h1")).to_be_visible(timeout=WITHIN_MS)


# When Redis is away


async def test_how_old_it_is_does_not_depend_on_when_the_page_was_opened(opened: Browser) -> None:
    """Nor on the clock of whoever looks."""
    made_at_ms = scenes.picture([]).at_ms - 300_000
    alarms = [scenes.alarm("redis.away", Level.CRITICAL)]
    shown = scenes.picture(scenes.many_nodes(3), at_ms=made_at_ms, is_stale=True, alarms=alarms)
    async with watched(shown) as made, page_of(opened) as page:
        await page.add_init_script("Date.now = () => 0")
        await open_at(page, made, "overview")
        for serial in (1, 2):
            made.show(msgspec.structs.replace(shown, serial=serial))
            await expect(page.locator("body")).to_have_attribute("data-serial", str(serial))
            await expect(page.locator(".verdict")).to_contain_text("This data is from 5 min ago")
            await expect(page.locator(".alarm-since")).to_have_text("for 1 min")


async def test_a_picture_that_became_old_does_not_turn_the_clock_back(opened: Browser) -> None:
    async with watched(scenes.picture(scenes.many_nodes(3))) as made, page_of(opened) as page:
        await open_at(page, made, "overview")
        await expect(page.locator(".connection")).to_have_text("live")
        made.change(is_stale=True, at_ms=made.picture.at_ms - 300_000)
        await expect(page.locator(".verdict")).to_contain_text("This data is from 5 min ago")


async def test_old_news_stays_marked_however_long_nothing_comes(opened: Browser) -> None:
    """Also when the page asks again because of the silence: that is no fault of the scheduler."""
    async with watched(scenes.picture(scenes.many_nodes(3), is_stale=True)) as made, page_of(opened) as page:
        await page.clock.install()
        await open_at(page, made, "overview")
        mark = page.locator(".connection")
        for step_ms in (13_000, 13_000, 6_000):
            await page.clock.run_for(step_ms)
            await expect(mark).to_have_attribute("data-state", "stale")
            await expect(mark).to_contain_text("old data: Redis is unavailable")
            await expect(page.locator(".verdict")).to_contain_text("Redis is unavailable")


# Drained nodes, counts


async def test_a_drained_node_is_a_node_to_look_at(opened: Browser) -> None:
    nodes = [
        scenes.node("gpu-1", state="draining", free=None, held=0),
        scenes.node("gpu-2", state="draining", free=None, held=1),
        scenes.node("gpu-3"),
    ]
    async with watched(scenes.picture(nodes)) as made, page_of(opened) as page:
        await open_at(page, made, "overview")
        card = page.locator(".card", has=page.get_by_role("heading", name="Nodes that need attention"))
        await expect(card.locator("li")).to_have_count(1)
        await expect(card.locator("li")).to_contain_text("gpu-1 drained; can be resumed")
        await expect(card.get_by_text("All nodes are healthy")).to_be_hidden()
        made.change(nodes=nodes[:2], alarms=[scenes.alarm("nodes.none", Level.CRITICAL, nodes=2)])
        await expect(card.locator("li")).to_have_count(2)
        await expect(card.locator("li").last).to_contain_text("gpu-2 finishes 1 job; can be resumed")


async def test_chinese_says_how_many_more_not_how_many_in_all(opened: Browser) -> None:
    at_ms = scenes.picture([]).at_ms
    events = [
        msgspec.structs.replace(scenes.event("node.left", name, node_id=name), at_ms=at_ms)
        for name in ("gpu-1", "gpu-2")
    ]
    async with watched(scenes.picture([]), events=events) as made, page_of(opened, language="zh-CN") as page:
        await open_at(page, made, "overview")
        await expect(page.locator(".events li")).to_contain_text("另有 1 项")


async def test_one_of_a_thing_is_not_several(opened: Browser) -> None:
    full = scenes.alarm("pair.full", subject="en:zh", src="en", tgt="zh", jobs=1, slots=1)
    joined = scenes.event("node.joined", "gpu-1", node_id="gpu-1", slots=1)
    nodes = [scenes.node("gpu-1", held=0, max_jobs=1)]
    shown = scenes.picture(nodes, alarms=[full, scenes.alarm("letters.dead", letters=1)])
    async with watched(shown, events=[joined]) as made, page_of(opened) as page:
        await open_at(page, made, "overview")
        await expect(page.locator(".alarm-title").first).to_have_text(
            "English → Chinese: 1 slot, none free; 1 job waits"
        )
        await expect(page.locator(".alarms").first).to_contain_text("1 letter between instances")
        await expect(page.locator(".events")).to_contain_text("gpu-1 joined with 1 slot")
        await expect(page.locator(".events")).not_to_contain_text("slots")
        await expect(page.locator(".verdict")).to_contain_text("0 of 1 slot taken")
        made.change(alarms=[scenes.alarm("pair.full", subject="en:zh", src="en", tgt="zh", jobs=7, slots=4)])
        await expect(page.locator(".alarm-title").first).to_contain_text("4 slots, none free; 7 jobs wait")


# The question before a drain


async def test_the_question_names_what_is_lost_and_leaves_with_its_page(opened: Browser) -> None:
    node = scenes.node("gpu-1", ("en", "pt"), held=0)
    pairs = scenes.pairs_of([node])
    echo = msgspec.structs.replace(pairs[0], src="pt", tgt="pt")
    async with watched(scenes.picture([node], pairs=[echo, *pairs])) as made, page_of(opened) as page:
        await open_at(page, made, "nodes/gpu-1")
        await page.get_by_role("button", name="Drain").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("It has no running job now")
        await expect(dialog.locator("li")).to_have_text(["English → Portuguese", "Portuguese → English"])
        await page.evaluate("location.hash = '#/jobs'")
        await expect(page.locator("h1")).to_have_text("Jobs")
        await expect(dialog).to_have_count(0)


# What is drawn


async def test_a_sign_has_one_colour_in_the_legend_and_in_the_matrix(opened: Browser) -> None:
    async with watched(scenes.picture([scenes.node("gpu-1")])) as made, page_of(opened) as page:
        await open_at(page, made, "pairs?as=matrix")
        await expect(page.locator(".matrix a:not([hidden]) .hangs").first).to_be_visible()
        colours = "[...document.querySelectorAll('.hangs')].map((sign) => getComputedStyle(sign).color)"
        assert len(set(await page.evaluate(colours))) == 1


async def test_an_axis_has_no_figures_without_a_curve_and_none_twice(opened: Browser) -> None:
    nothing = {"p50_ms": None, "p95_ms": None, "p99_ms": None}
    shown = scenes.picture([scenes.node("gpu-1")])
    history = [scenes.moment(shown.at_ms - 5_000, **nothing)]
    async with watched(shown, history=history) as made, page_of(opened) as page:
        await open_at(page, made, "overview")
        chart = page.locator(".chart", has=page.get_by_role("heading", name="From the end of speech"))
        figures = chart.locator(".chart-grid text[text-anchor=end]")
        await expect(chart.locator(".chart-grid text").first).to_be_visible()
        await expect(figures).to_have_count(0)
        quick = {"p50_ms": 0.4, "p95_ms": 0.8, "p99_ms": 0.9}
        made.change(now=scenes.moment(shown.at_ms + 1_000, **quick))
        await expect(figures).to_have_text(["0 ms", "1 ms"])


# On a phone


async def test_a_phone_shows_all_of_an_instance_and_the_languages_of_a_node(opened: Browser) -> None:
    async with (
        watched(scenes.picture([scenes.node("gpu-1", ("en", "zh", "pt"))])) as made,
        page_of(opened, PHONE) as page,
    ):
        await open_at(page, made, "instances")
        row = page.locator(".cards tbody tr").first
        for cell in await row.locator("th, td").all():
            box = await cell.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE[0]
        name = "(cell) => getComputedStyle(cell, '::before').content"
        assert await row.locator("td").nth(1).evaluate(name) == '"Address"'
        await open_at(page, made, "nodes")
        await expect(page.locator(".vrow .codes")).to_be_visible()
        await expect(page.locator(".vrow .codes")).to_have_text("en pt zh")
