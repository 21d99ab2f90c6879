"""examples/pages in Chromium: the page with a microphone, and push to talk as on a phone."""

import asyncio

import pytest
from playwright.async_api import Browser, Page, expect

from tests.support.browser import PHONE, page_of, serious_violations
from tests.support.example_pages import address_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.talking import Recorder, recording_node
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Every source of sound that is started, as the loudspeaker gets it.
COUNT_PLAYED = """
window.played = 0;
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...when) { window.played += 1; return start.apply(this, when); };
"""


async def test_the_page_with_a_microphone_shows_and_plays_translations(
    server: RedisProcess, pages: str, speaking: Browser, recorder: Recorder
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt"):
        async with page_of(speaking) as page:
            await page.add_init_script(COUNT_PLAYED)
            await page.goto(address_of(pages, "microphone.html", scheduler.port))
            await page.get_by_role("button", name="Speak").click()
            await expect(page.locator("#state")).to_have_text("listening")
            # What nodes say is text, and never markup.
            await expect(page.locator("#lines li")).to_have_text("heard 1 → <b>said</b> 1 in pt")
            await until(lambda: page.evaluate("played"), what="the translation is played")
            await page.get_by_role("button", name="Done").click()
            await expect(page.get_by_role("button", name="Speak")).to_be_enabled()
    assert [(job.src_lang, job.tgt_lang) for job in recorder.jobs] == [("en", "pt")]


async def test_a_page_that_cannot_begin_says_why(server: RedisProcess, pages: str, opened: Browser) -> None:
    """No scheduler, no node, and no microphone."""
    async with scheduler_on(server.url) as (scheduler, _), page_of(opened) as page:
        await page.goto(address_of(pages, "microphone.html", 9))
        await page.get_by_role("button", name="Speak").click()
        await expect(page.locator("#state")).to_have_text("no scheduler answers at ws://127.0.0.1:9")
        await page.goto(address_of(pages, "microphone.html", scheduler.port))
        await page.reload()
        await page.get_by_role("button", name="Speak").click()
        await expect(page.locator("#state")).to_contain_text("there is no microphone")
        await expect(page.get_by_role("button", name="Speak")).to_be_enabled()


async def middle_of(page: Page, selector: str) -> tuple[float, float]:
    box = await page.locator(selector).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


async def hold(page: Page, recorder: Recorder, count: int) -> None:
    """The button, until a node has what was said."""
    await page.mouse.move(*await middle_of(page, "#talk"))
    await page.mouse.down()
    await expect(page.locator("#state")).to_have_text("Speak …")
    await asyncio.sleep(1.0)  # the time it takes to say it
    await page.mouse.up()
    await until(lambda: len(recorder.jobs) == count, what="the sentence ends with the touch")


async def test_push_to_talk_translates_what_is_said_while_the_button_is_held(
    server: RedisProcess, pages: str, humming: Browser, recorder: Recorder
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt"):
        async with page_of(humming, PHONE) as page:
            await page.add_init_script(COUNT_PLAYED)
            await page.goto(address_of(pages, "push-to-talk.html", scheduler.port))
            await hold(page, recorder, 1)
            await expect(page.locator("#lines li")).to_have_text("heard 1<b>said</b> 1 in pt")
            await until(lambda: page.evaluate("played"), what="the translation is played")
            # And into the other language, with the keyboard.
            await page.get_by_role("button", name="Swap the languages").click()
            await expect(page.locator("#from")).to_have_text("português")
            await page.keyboard.down("Space")
            await expect(page.locator("#state")).to_have_text("Speak …")
            await asyncio.sleep(0.5)
            await page.keyboard.up("Space")
            await expect(page.locator("#lines b").last).to_have_text("<b>said</b> 2 in en")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert await serious_violations(page) == []
    assert [(job.src_lang, job.tgt_lang) for job in recorder.jobs] == [("en", "pt"), ("pt", "en")]


async def test_a_short_touch_says_nothing(
    server: RedisProcess, pages: str, humming: Browser, recorder: Recorder
) -> None:
    """The first touch is that at which the browser asks for the microphone: the finger is gone when it has it."""
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt"):
        async with page_of(humming, PHONE) as page:
            await page.goto(address_of(pages, "push-to-talk.html", scheduler.port))
            await page.mouse.click(*await middle_of(page, "#talk"))
            await expect(page.locator("#state")).to_have_text("Ready: hold the button and speak.")
            await hold(page, recorder, 1)
    assert len(recorder.jobs) == 1
