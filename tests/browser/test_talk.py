"""The talk page in a real browser whose microphone plays a file: what is said arrives, and is heard translated."""

import asyncio
import re
import wave
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import resources
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple

import pytest
from playwright.async_api import Browser

from tests.support.browser import browser, microphone, serious_violations
from tests.support.node_processes import node_process, skip_without_engines
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.talking import DESKTOP, UNTOUCHED, Recorder, is_served, talk_page
from tests.support.tones import pitches_hz, samples_of, silence, tone, write_wav
from tests.support.waiting import until

RATE = 16_000
CAPTURE_RATE = 48_000

# One loop for all, because it is one browser: what takes longest is to start it.
pytestmark = [pytest.mark.asyncio(loop_scope="session")]


# Talking


class Spoken(NamedTuple):
    """What the microphone hears, for how long, and what must come of it."""

    wav: Path
    seconds: float
    node: tuple[str, ...]
    target: str
    heard: str
    translated: str


async def simulated(folder: Path) -> Spoken:
    """The simulated node says how much it heard."""
    wav = write_wav(folder / "hum.wav", tone(440, CAPTURE_RATE, 20), CAPTURE_RATE)
    node = ("--engine", "sim", "--languages", "en,zh")
    return Spoken(wav, 1.2, node, "zh", r"\(simulated\) I heard [\d.]+ seconds", r"（模拟）我听到了 [\d.]+ 秒")


async def real(_: Path) -> Spoken:
    """The sample sentence, understood and said in Portuguese by real engines, where they can be had."""
    await skip_without_engines()
    wav = Path(str(resources.files("lingua_scheduler.cli") / "assets" / "sample-en.wav"))
    with wave.open(str(wav)) as file:
        seconds = file.getnframes() / file.getframerate()
    return Spoken(wav, seconds + 0.3, (), "pt", r"(\w+\W+){4}", r"(\w+\W+){3}")


@pytest.mark.parametrize("speak", [simulated, real])
async def test_what_is_said_is_translated_and_heard(
    server: RedisProcess, tmp_path: Path, speak: Callable[[Path], Awaitable[Spoken]]
) -> None:
    spoken = await speak(tmp_path)
    async with (
        serve_process(tmp_path, "--redis-url", server.url) as serving,
        browser(*microphone(spoken.wav)) as opened,
        talk_page(opened) as talk,
    ):
        await until(lambda: serving.port, 60, "the scheduler is ready")
        async with node_process(serving.port, *spoken.node):
            await until(lambda: is_served(serving.port, f"en:{spoken.target}"), 60, "the node is there")
            await talk.open(serving.port)
            await talk.half("b").locator("select").select_option(spoken.target)
            await talk.page.wait_for_selector("html[data-state=open]")
            began_s = monotonic()
            await talk.talk("a", spoken.seconds)
            # On a busy machine the button is released later than it was meant to be.
            held_s = monotonic() - began_s
            await until(lambda: talk.texts("b"), 30, "a translation")
            heard, translated = (await talk.texts("b", "heard"))[0], (await talk.texts("b"))[0]
            assert re.match(spoken.heard, heard)
            assert re.match(spoken.translated, translated)
            assert await talk.texts("a") == [translated]
            await until(lambda: talk.has_played(1.0), 20, "the translation is played")
            await until(lambda: talk.is_quiet(), 20, "the loudspeaker is quiet")
            seconds, loudest = await talk.played()
            if speak is simulated:
                heard_s = float(heard.split()[3])
                assert 1.0 <= heard_s < held_s + 0.4
                assert translated.split()[1] == heard.split()[3]
                # It hums for as long as it heard.
                assert seconds == pytest.approx(heard_s, abs=0.12)
                assert loudest == pytest.approx(4_000 / 32_768, rel=0.05)
            assert loudest > 0.05
            assert talk.errors == []


async def test_the_node_gets_the_sound_the_microphone_heard(port: int, recorder: Recorder, humming: Browser) -> None:
    async with talk_page(humming) as talk:
        await talk.page.add_init_script(UNTOUCHED)
        await talk.open(port)
        began_s = monotonic()
        await talk.talk("a", seconds=2.0)
        # On a busy machine the button is released later than it was meant to be.
        held_s = monotonic() - began_s
        await until(lambda: talk.texts("b"), 20, "a translation")
        assert await talk.page.evaluate("window.wishes.echoCancellation && window.wishes.noiseSuppression")
    (job,) = recorder.jobs
    assert (job.src_lang, job.tgt_lang, job.audio_format, job.sample_rate) == ("en", "zh", "pcm16", RATE)
    assert job.is_manual_cut
    samples = samples_of(job.audio)
    assert 1.6 < len(samples) / RATE < held_s + 0.4
    steady = samples[RATE // 10 : -RATE // 10]
    assert max(steady) == pytest.approx(9_000, rel=0.1)
    # A browser that gets no time may skip a little of what it hears, but not change its pitch.
    assert median(pitches_hz(steady, RATE)) == pytest.approx(440, rel=0.005)


async def test_a_tap_starts_and_a_pause_ends_the_sentence(port: int, recorder: Recorder, tmp_path: Path) -> None:
    once = tone(440, CAPTURE_RATE, 1.2) + silence(CAPTURE_RATE, 1.5)
    wav = write_wav(tmp_path / "sentences.wav", once + once, CAPTURE_RATE)
    async with browser(*microphone(wav)) as opened, talk_page(opened, DESKTOP) as talk:
        await talk.page.add_init_script(UNTOUCHED)
        await talk.open(port)
        await talk.page.wait_for_selector(".half[data-side=a] .speak:enabled")
        await talk.speak("a").click()
        await talk.page.wait_for_selector(".half[data-side=a][data-phase=listening_tap]")
        await until(lambda: len(recorder.jobs) >= 2, 20, "two sentences")
        await talk.speak("a").click()
        await talk.page.wait_for_selector(".half[data-side=a][data-phase=idle]")
    assert all(0.9 < len(job.audio) / 2 / RATE < 2.6 for job in recorder.jobs[:2])


async def test_a_tap_without_any_speech_is_told_so(port: int, recorder: Recorder, tmp_path: Path) -> None:
    wav = write_wav(tmp_path / "silence.wav", silence(CAPTURE_RATE, 5.0), CAPTURE_RATE)
    async with browser(*microphone(wav)) as opened, talk_page(opened, DESKTOP) as talk:
        await talk.open(port)
        await talk.page.wait_for_selector(".half[data-side=a] .speak:enabled")
        await talk.speak("a").click()
        await talk.page.wait_for_selector(".half[data-side=a][data-phase=listening_tap]")
        await talk.speak("a").click()
        notice = talk.half("a").locator(".notice")
        await until(notice.is_visible, 20, "a notice")
        assert (await notice.text_content() or "").startswith("No speech was recognised.")
    assert recorder.jobs == []


async def test_silence_while_the_button_is_held_is_told_so(port: int, recorder: Recorder, tmp_path: Path) -> None:
    wav = write_wav(tmp_path / "silence.wav", silence(CAPTURE_RATE, 5.0), CAPTURE_RATE)
    async with browser(*microphone(wav)) as opened, talk_page(opened, DESKTOP) as talk:
        await talk.open(port)
        await talk.talk("a", seconds=1.0)
        told = talk.half("a").get_by_text("No speech was recognised.")
        await until(lambda: told.first.is_visible(), 60, "the reason")
    assert recorder.jobs == []


async def test_speech_in_other_formats_is_heard(
    port: int, recorder: Recorder, humming: Browser, tmp_path: Path
) -> None:
    as_wav = write_wav(tmp_path / "answer.wav", tone(330, 22_050, 1.0), 22_050).read_bytes()
    as_opus = _framed_opus(recorder.speech)
    async with talk_page(humming) as talk:
        await talk.open(port)
        heard_s = 0.0
        for recorder.speech_format, recorder.speech in (("wav", as_wav), ("opus", as_opus)):
            await talk.talk("a", seconds=0.5)
            await until(partial(talk.has_played, heard_s + 0.9), 20, recorder.speech_format)
            await until(lambda: talk.is_quiet(), 10, "the loudspeaker is quiet")
            so_far_s, loudest = await talk.played()
            assert so_far_s - heard_s == pytest.approx(1.0, abs=0.12)
            assert loudest == pytest.approx(9_000 / 32_768, rel=0.2)
            heard_s = so_far_s
        assert talk.errors == []


def _framed_opus(pcm: bytes) -> bytes:
    codec = pytest.importorskip("opuslib_next", reason="there is no Opus codec here: pip install opuslib-next-bundled")
    encoder = codec.Encoder(RATE, 1, codec.APPLICATION_VOIP)
    packets = [encoder.encode(pcm[at : at + 640], 320) for at in range(0, len(pcm), 640)]
    return b"".join(len(packet).to_bytes(2, "little") + packet for packet in packets)


# Two people


async def test_partial_text_is_shown_before_the_translation(port: int, recorder: Recorder, humming: Browser) -> None:
    recorder.may_answer.clear()
    async with talk_page(humming) as talk:
        await talk.open(port)
        await talk.talk("a", seconds=0.5)
        for side in ("a", "b"):
            partial_text = talk.half(side).locator("li.partial .heard")
            await until(partial_text.count, 20, "partial text")
            assert await partial_text.text_content() == "heard a part of 1"
        recorder.may_answer.set()
        await until(lambda: talk.shows(1), 20, "the translation")
        assert await talk.texts("a", "heard") == ["heard 1"]


async def test_two_people_face_to_face_share_one_conversation(port: int, recorder: Recorder, humming: Browser) -> None:
    async with talk_page(humming, {"width": 360, "height": 740}) as talk:
        await talk.open(port)
        await talk.talk("a", seconds=0.5)
        await until(lambda: talk.shows(1), 20, "the first translation")
        await talk.talk("b", seconds=0.5)
        await until(lambda: talk.shows(2), 20, "the second translation")
        assert [(job.src_lang, job.tgt_lang) for job in recorder.jobs] == [("en", "zh"), ("zh", "en")]
        # What comes from outside is text.
        assert await talk.texts("a") == ["<b>said</b> 1 in zh", "<b>said</b> 2 in en"]
        assert await talk.texts("b") == await talk.texts("a")
        top, bottom = await talk.half("b").bounding_box(), await talk.half("a").bounding_box()
        assert top is not None
        assert bottom is not None
        assert top["y"] + top["height"] <= bottom["y"]
        turned = await talk.half("b").evaluate("e => new DOMMatrix(getComputedStyle(e).transform).a")
        assert turned == pytest.approx(-1)
        # Who sits across reads Chinese.
        assert await talk.half("b").locator(".hint").text_content() == "按住说话，或点击"
        assert await talk.half("a").locator(".hint").text_content() == "Hold to talk, or click"
        assert await talk.fits()
        assert await serious_violations(talk.page) == []
        assert talk.errors == []


async def test_one_person_has_one_column_in_their_language_and_a_space_bar(
    port: int, recorder: Recorder, humming: Browser
) -> None:
    async with talk_page(humming, DESKTOP, locale="zh-CN", color_scheme="dark") as talk:
        await talk.open(port)
        assert await talk.page.title() == "对话翻译 · Lingua Scheduler"
        assert await talk.page.locator("html").get_attribute("lang") == "zh-CN"
        assert await talk.speak("b").is_hidden()
        offered = await talk.half("a").locator("option").all_text_contents()
        assert sorted(offered) == sorted(["中文", "英语"])
        await talk.talk("a", seconds=0.5)
        await until(lambda: talk.texts("a"), 20, "a translation")
        await talk.page.click("#swap")
        await talk.page.wait_for_selector("html[data-state=open]")
        # Anywhere on the page; on a button the space bar would press that.
        await talk.page.evaluate("document.activeElement.blur()")
        await talk.page.keyboard.down(" ")
        await talk.page.wait_for_selector(".half[data-side=a][data-phase=listening]")
        await asyncio.sleep(0.6)
        await talk.page.keyboard.up(" ")
        await until(lambda: len(recorder.jobs) == 2, 20, "the second job")
        assert [(job.src_lang, job.tgt_lang) for job in recorder.jobs] == [("zh", "en"), ("en", "zh")]
        assert await serious_violations(talk.page) == []
        await talk.page.click("#interface")
        assert await talk.page.title() == "Talk · Lingua Scheduler"
        await talk.page.click("#theme")
        assert await serious_violations(talk.page) == []
        await talk.page.set_viewport_size({"width": 360, "height": 640})
        assert await talk.fits()
