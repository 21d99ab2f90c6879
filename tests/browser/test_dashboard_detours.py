"""Pairs that no node serves alone, on the dashboard of a real scheduler: marked, with the way that they take."""

import aiohttp
import pytest
from playwright.async_api import Browser, expect

from tests.support.access_pages import shoot
from tests.support.browser import DESKTOP, PHONE, page_of, serious_violations
from tests.support.peers import Field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.text_nodes import able, do

pytestmark = pytest.mark.asyncio(loop_scope="session")

CHANGES = {"watch__interval_ms": 200, "watch__watched_interval_ms": 100, "pools__pivot_langs": ("en",)}


@pytest.mark.parametrize(
    ("size", "language", "shape", "told"),
    [
        (DESKTOP, "en-GB", "matrix", "Chinese → Japanese, by way of English"),
        (PHONE, "zh-CN", "list", "经英语转译"),
    ],
)
async def test_a_pair_that_is_served_by_a_third_language_is_marked(
    opened: Browser, server: RedisProcess, size: tuple[int, int], language: str, shape: str, told: str
) -> None:
    async with scheduler_on(server.url, **CHANGES) as (scheduler, _), aiohttp.ClientSession() as http:
        field = Field(http, scheduler.port)
        await field.node(do, node_id="hears", **able(asr=["zh"], nmt=["zh-en"]))
        await field.node(do, node_id="speaks", **able(nmt=["en-ja"], tts=["ja"]))
        async with page_of(opened, size, language=language) as page:
            await page.goto(f"http://127.0.0.1:{scheduler.port}/dashboard#/pairs?as={shape}")
            marked = page.locator("[data-level=detour]").filter(has_text="↷").last
            await expect(marked).to_be_visible()
            await expect(page.locator("table")).to_contain_text(told)
            assert await serious_violations(page) == []
            await shoot(page, f"pairs-{shape}")
            await page.goto(f"http://127.0.0.1:{scheduler.port}/dashboard#/pairs/zh:ja")
            await expect(page.locator("main .lead")).to_contain_text(told)
        await field.close()
