"""What keeps people from talking is said on the talk page, with what to do about it."""

import pytest
from playwright.async_api import Browser

from tests.support.browser import browser
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.talking import PHONE, Recorder, TalkPage, recording_node, talk_page
from tests.support.waiting import until

KEEP_STREAMS = """
window.streams = [];
const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (wishes) => {
  const stream = await open(wishes);
  streams.push(stream);
  return stream;
};
"""

# One loop for all, because it is one browser: what takes longest is to start it.
pytestmark = [pytest.mark.asyncio(loop_scope="session")]


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


async def test_a_microphone_that_is_unplugged_ends_the_sentence_and_is_told(port: int, humming: Browser) -> None:
    async with talk_page(humming) as talk:
        await talk.page.add_init_script(KEEP_STREAMS)
        await talk.open(port)
        await talk.page.wait_for_selector(".half[data-side=a] .speak:enabled")
        await talk.speak("a").click()
        await talk.page.wait_for_selector(".half[data-side=a][data-phase^=listening]")
        await talk.page.evaluate("streams.at(-1).getAudioTracks()[0].dispatchEvent(new Event('ended'))")
        await talk.page.wait_for_selector(".half[data-side=a] .speak[aria-pressed=false]")
        notice = talk.half("a").locator(".notice")
        await until(notice.is_visible, what="a notice")
        assert "Connect one, then press again" in (await notice.text_content() or "")


async def test_a_pair_that_nobody_serves_is_shown_as_such(server: RedisProcess, humming: Browser) -> None:
    async with scheduler_on(server.url) as (scheduler, _), talk_page(humming) as talk:
        await talk.page.goto(f"http://127.0.0.1:{scheduler.port}/talk")
        notice = talk.half("a").locator(".notice")
        await until(lambda: notice.is_visible(), 10, "a notice")
        command = f"lingua node --url ws://127.0.0.1:{scheduler.port}"
        assert f"Start one on this machine: {command} (" in (await notice.text_content() or "")
        assert await talk.speak("a").is_disabled()
        hint = talk.half("a").locator(".hint")
        assert await hint.text_content() == "You cannot talk right now"
        # The command is for who set the page up, not for the person on the other side.
        assert await talk.half("b").locator(".notice").is_hidden()
        assert await talk.half("b").locator(".hint").text_content() == "You cannot talk right now"
        how = talk.half("a").locator("[data-word=empty_hint]")
        assert await how.is_hidden(), "how to talk, while one cannot"
        assert await talk.page.locator("#state").text_content() == "No languages yet"
        async with recording_node(scheduler.port, Recorder(), "en", "zh"):
            await talk.page.wait_for_selector(".half[data-side=a] .speak:enabled")
            assert await notice.is_hidden()
            assert await how.is_visible()
            assert await hint.text_content() == "Hold to talk, or click"
            await until(lambda: talk.page.locator("html[data-state=open]").count(), 10, "a session")
            assert await talk.page.locator("#state").text_content() == "Connected"


async def test_a_page_from_another_host_without_https_is_told_why(server: RedisProcess, recorder: Recorder) -> None:
    # Under another name than those of this computer, callers would need a key.
    named = {"server__allowed_hosts": ["elsewhere.example"], "auth__mode": "off"}
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


ONE_WAY = {
    "asr_languages": ["en"],
    "semantic_languages": ["en"],
    "semantic_core_ready": True,
    "tts_languages": ["pt"],
    "nmt_capabilities": [{"src_lang": "en", "tgt_lang": "pt"}],
}


async def test_the_half_that_cannot_talk_says_so_calmly_in_its_own_language(
    server: RedisProcess, humming: Browser
) -> None:
    async with (
        scheduler_on(server.url) as (scheduler, _),
        field(scheduler.port) as peers,
        talk_page(humming) as talk,
    ):
        await peers.node(language_capabilities=ONE_WAY)
        await talk.page.goto(f"http://127.0.0.1:{scheduler.port}/talk")
        # At first sight, without any choice, the pair is the one that is served.
        await talk.page.wait_for_selector(".half[data-side=a] .speak:enabled")
        assert [await talk.half(side).locator("select").input_value() for side in ("a", "b")] == ["en", "pt"]
        notice = talk.half("b").locator(".notice")
        await until(notice.is_visible, 10, "a notice")
        assert (await notice.text_content() or "").startswith("Por enquanto você pode ler e ouvir aqui.")
        assert await notice.get_attribute("role") == "status"
        assert "is-calm" in (await notice.get_attribute("class") or "")
        assert await talk.half("b").locator(".hint").text_content() == "Leia e ouça aqui"
        assert await talk.half("b").locator("[data-word=empty]").text_content() == (
            "O que a outra pessoa disser aparece aqui no seu idioma."
        )
        assert await talk.half("b").locator("[data-word=to]").text_content() == "Eu leio"
        # A screen reader has to know too.
        assert [await talk.half(side).get_attribute("lang") for side in ("a", "b")] == ["en", "pt"]
        assert await talk.speak("b").is_disabled()
        assert await talk.half("a").locator(".notice").is_hidden()
        # Sentences need the room, and the hint beside the button still says it.
        await talk.page.evaluate("document.documentElement.classList.remove('is-empty')")
        assert await notice.is_hidden()
        assert await talk.half("b").locator(".hint").is_visible()


async def test_hints_fit_the_device(server: RedisProcess, humming: Browser) -> None:
    async with (
        scheduler_on(server.url) as (scheduler, _),
        recording_node(scheduler.port, Recorder(), "en", "zh"),
    ):
        for touches, has_keys in ((True, False), (False, True)):
            context = await humming.new_context(viewport=PHONE, has_touch=touches, is_mobile=touches)
            page = await context.new_page()
            await page.goto(f"http://127.0.0.1:{scheduler.port}/talk")
            hint = page.locator(".half[data-side=a] [data-word=empty_hint]")
            await until(hint.text_content, 10, "a hint")
            assert ("space bar" in (await hint.text_content() or "")) is has_keys
            await page.wait_for_selector(".half[data-side=a] .speak:enabled")
            below = await page.locator(".half[data-side=a] .hint").text_content()
            assert below == ("Hold to talk, or click" if has_keys else "Hold to talk, or tap")
            await context.close()
