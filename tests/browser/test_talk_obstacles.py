"""What keeps people from talking is said on the talk page, with what to do about it."""

import pytest
from playwright.async_api import Browser

from tests.support.browser import browser
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.talking import PHONE, Recorder, TalkPage, recording_node, talk_page
from tests.support.waiting import until

# One loop for all, because it is one browser: what takes longest is to start it.
pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]


async def test_a_microphone_that_is_not_allowed_is_explained(port: int) -> None:
    async with browser("--use-fake-device-for-media-stream", "--deny-permission-prompts") as opened:
        talk = TalkPage(await opened.new_page(viewport=PHONE))
        await talk.open(port)
        await talk.page.wait_for_selector(".half[data-side=a] .speak:enabled")
        await talk.speak("a").click()
        notice = talk.half("a").locator(".notice")
        await until(notice.is_visible, 10, "a notice")
        assert "Allow it for this page" in (await notice.text_content() or "")
        assert await talk.speak("a").get_attribute("aria-pressed") == "false"


async def test_a_pair_that_nobody_serves_is_shown_as_such(server: RedisProcess, humming: Browser) -> None:
    async with scheduler_on(server.url) as (scheduler, _), talk_page(humming) as talk:
        await talk.page.goto(f"http://127.0.0.1:{scheduler.port}/talk")
        notice = talk.half("a").locator(".notice")
        await until(lambda: notice.is_visible(), 10, "a notice")
        assert "Start one on this machine: lingua node (" in (await notice.text_content() or "")
        assert await talk.speak("a").is_disabled()
        hint = talk.half("a").locator(".hint")
        assert await hint.text_content() == "You cannot talk right now"
        assert await talk.page.locator("#state").text_content() == "No languages yet"
        async with recording_node(scheduler.port, Recorder(), "en", "zh"):
            await talk.page.wait_for_selector(".half[data-side=a] .speak:enabled")
            assert await notice.is_hidden()
            assert await hint.text_content() == "Hold to talk, or tap"
            await until(lambda: talk.page.locator("html[data-state=open]").count(), 10, "a session")
            assert await talk.page.locator("#state").text_content() == "Connected"


async def test_a_page_from_another_host_without_https_is_told_why(server: RedisProcess, recorder: Recorder) -> None:
    named = {"server__allowed_hosts": ["elsewhere.example"]}
    async with (
        scheduler_on(server.url, **named) as (scheduler, _),
        recording_node(scheduler.port, recorder, "en", "zh"),
        browser(f"--host-resolver-rules=MAP elsewhere.example 127.0.0.1:{scheduler.port}") as opened,
    ):
        talk = TalkPage(await opened.new_page(viewport=PHONE))
        await talk.page.goto("http://elsewhere.example/talk")
        await talk.page.wait_for_selector("html[data-state=open]")
        assert "https" in (await talk.half("a").locator(".notice").text_content() or "")
        assert await talk.speak("a").is_disabled()
