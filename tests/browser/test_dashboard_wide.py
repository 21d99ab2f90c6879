"""Pairs of nodes with 99 languages: told as a group, found by searching, never drawn all at once."""

from typing import Any

import msgspec
import pytest
from playwright.async_api import Browser, Page, expect

from bench.languages import CODES
from lingua_scheduler.domain.watching.picture import NodeLook, PairLook, WideLook
from tests.support import scenes
from tests.support.browser import PHONE, page_of
from tests.support.dashboards import Watched, watched

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAME = "*:0123456789abcdef:text"
CELLS = ".matrix td a:not([hidden])"


def wide(**more: Any) -> WideLook:
    codes = sorted(CODES)
    figures = {"pairs": 9_801, "nodes": 50, "slots": 200, "free": 180, "text_nodes": 50}
    return WideLook(name=NAME, sources=codes, text=codes, speech=codes, **(figures | more))


def node(number: int) -> NodeLook:
    return scenes.node(number, (), wide=NAME, wide_pairs=9_801)


def asked(src: str, tgt: str) -> PairLook:
    return PairLook(src=src, tgt=tgt, nodes=50, slots=200, free=180, text_nodes=50)


def wide_fleet(pairs: list[PairLook] | None = None, **more: Any) -> Watched:
    nodes = [node(number) for number in range(50)]
    shown = msgspec.structs.replace(scenes.picture(nodes), pairs=pairs or [], wide=[wide(**more)])
    return Watched(shown, scenes.history(shown.at_ms))


async def open_pairs(page: Page, shown: Watched, query: str = "as=matrix") -> None:
    await page.goto(f"{shown.url}#/pairs?{query}")
    await expect(page.locator(".wide-group summary")).to_be_visible(timeout=30_000)


async def search(page: Page, text: str) -> None:
    await page.locator("[data-filter]").fill(text)


async def test_thousands_of_pairs_are_one_group_and_a_search_field(opened: Browser) -> None:
    async with watched(wide_fleet([asked("en", "zh")])) as shown, page_of(opened) as page:
        await open_pairs(page, shown)
        summary = page.locator(".wide-group summary")
        await expect(summary).to_contain_text("Any of 99 languages → any of 99 · 50 nodes, 180 of 200 free")
        # One is listed, and people ask for some: all are served.
        await expect(page.locator(CELLS)).to_have_count(3)
        await expect(page.locator(".matrix td[data-level=wide]")).to_have_count(3)
        await expect(page.locator(".heading")).to_contain_text("9,801 pairs")
        shown.change(wide=[wide(free=150)])
        await expect(summary).to_contain_text("150 of 200 free")


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("zh en", {"zh:en", "en:zh"}),
        ("zh→en", {"zh:en"}),
        ("zh -> en", {"zh:en"}),
        ("sw:yo", {"sw:yo"}),
        ("swahili yoruba", {"sw:yo", "yo:sw"}),
        ("swahili→yo", {"sw:yo"}),
    ],
)
async def test_any_pair_is_found(opened: Browser, text: str, pairs: set[str]) -> None:
    async with watched(wide_fleet([asked("en", "zh")])) as shown, page_of(opened) as page:
        await open_pairs(page, shown)
        await search(page, text)
        await expect(page.locator(CELLS)).to_have_count(len(pairs))
        links = await page.locator(CELLS).evaluate_all("all => all.map((one) => one.getAttribute('href'))")
        assert {link.split("/")[-1].replace("%3A", ":") for link in links} == pairs


async def test_a_language_shows_its_pairs_and_no_search_draws_too_much(opened: Browser) -> None:
    async with watched(wide_fleet()) as shown, page_of(opened) as page:
        await open_pairs(page, shown)
        await page.locator(".wide-group summary").click()
        await page.get_by_role("button", name="Yoruba").click()
        await expect(page.locator("[data-filter]")).to_have_value("yo")
        # A cross of 99 by 99 is shown as a list.
        await expect(page.locator("tbody tr")).to_have_count(196)
        for text in ("a", "e i"):
            await search(page, text)
            await expect(page.locator(".heading")).to_contain_text("pairs")
            assert 0 < await page.locator(".matrix td, tbody tr").count() <= 400
        await expect(page.locator("text=more pairs are not shown")).to_be_visible()
        await search(page, "klingon")
        await expect(page.locator("text=Nothing matches the filter")).to_be_visible()


async def test_a_pair_that_is_not_listed_has_a_page_with_its_nodes(opened: Browser) -> None:
    async with watched(wide_fleet()) as shown, page_of(opened) as page:
        await page.goto(f"{shown.url}#/pairs/sw:yo")
        await expect(page.locator(".lead")).to_contain_text("180 of 200 free", timeout=30_000)
        await expect(page.locator("tbody tr")).to_have_count(50)
        await page.goto(f"{shown.url}#/nodes/node-0007")
        await expect(page.locator("main")).to_contain_text("9,801 as speech, 9,801 as text")


async def test_the_list_is_searched_too_and_fits_a_phone(opened: Browser) -> None:
    async with watched(wide_fleet()) as shown, page_of(opened, PHONE) as page:
        await open_pairs(page, shown, "as=list")
        await search(page, "sw")
        await expect(page.locator("tbody tr").first).to_be_visible()
        assert await page.locator("tbody tr").count() <= 300
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
