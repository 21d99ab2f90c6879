"""The talk page offers every pair of a node with 99 languages."""

import pytest
from playwright.async_api import Browser, expect

from bench.languages import CODES
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.talking import talk_page

pytestmark = [pytest.mark.asyncio(loop_scope="session")]


async def test_any_two_languages_of_a_wide_node_can_be_chosen(opened: Browser, server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers, talk_page(opened) as page:
        lists = dict.fromkeys(("asr_languages", "tts_languages", "semantic_languages"), CODES)
        await peers.node(language_capabilities=lists)
        await page.open(scheduler.port)
        for side, code in (("a", "sw"), ("b", "yo")):
            select = page.half(side).locator("select")
            await expect(select.locator("option")).to_have_count(99)
            await select.select_option(code)
        await page.page.wait_for_selector("html[data-state=open]")
        await expect(page.speak("a")).to_be_enabled()
        await expect(page.speak("b")).to_be_enabled()
        assert page.errors == []
