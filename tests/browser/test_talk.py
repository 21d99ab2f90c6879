"""The talk page in a real browser whose microphone plays a file: what is said arrives, and is heard translated."""

import asyncio
import json
import os
import re
import sys
import wave
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from statistics import median
from typing import NamedTuple

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, WebSocketRoute

from lingua_scheduler.processes import die_with_parent, stop
from tests.support.browser import browser, microphone, serious_violations
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.talking import DESKTOP, PHONE, Recorder, TalkPage, recording_node, talk_page
from tests.support.tones import pitches_hz, samples_of, silence, tone, write_wav
from tests.support.waiting import until

RATE = 16_000
CAPTURE_RATE = 48_000
# Samples as they are, without what a browser does for people's ears, and a copy of every one that was taken.
UNTOUCHED = """
const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = (wishes) => {
  window.wishes = wishes.audio;
  return ask({ audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false } });
};
window.captured = [];
window.AudioWorkletNode = class extends AudioWorkletNode {
  constructor(context, name, options) {
    super(context, name, options);
    if (name === "microphone") this.port.addEventListener("message", ({ data }) => captured.push(...data.samples));
  }
};
"""
HUM = tone(330, RATE, 1.0).tobytes()

# One loop and one browser for all: what takes longest is to start it.
pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def humming(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """A browser whose microphone hears a steady tone."""
    wav = write_wav(tmp_path_factory.mktemp("wav") / "hum.wav", tone(440, CAPTURE_RATE, 20), CAPTURE_RATE)
    async with browser(*microphone(wav)) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def recorder() -> Recorder:
    return Recorder(HUM)


@pytest_asyncio.fixture(loop_scope="module")
async def port(server: RedisProcess, recorder: Recorder) -> AsyncIterator[int]:
    """Of a scheduler with one node for English and Chinese."""
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "zh"):
        yield scheduler.port


@asynccontextmanager
async def node_process(port: int, *arguments: str) -> AsyncIterator[None]:
    """`lingua node`, started as a person would."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "lingua_scheduler", "node", "--url", f"127.0.0.1:{port}", *arguments),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(os.environ),
        preexec_fn=die_with_parent,
    )
    try:
        yield
    finally:
        await stop(process, 15.0)


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
    return Spoken(wav, 1.2, node, "zh", r"\(simulated\) I heard 1\.\d seconds", r"（模拟）我听到了 1\.\d 秒")


async def real(_: Path) -> Spoken:
    """The sample sentence, understood and said in Portuguese by real engines, where they can be had."""
    listing = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lingua_scheduler", "node", "--list", "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, complaint = await listing.communicate()
    pairs = json.loads(output)["pairs"] if output.startswith(b"{") else []
    if not any((pair["from"], pair["to"]) == ("en", "pt") for pair in pairs):
        pytest.skip(f"no engines for English to Portuguese: {complaint.decode().strip().splitlines()[-1]}")
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
        await until(lambda: serving.port, 30, "the scheduler is ready")
        async with node_process(serving.port, *spoken.node):
            await until(lambda: _is_served(serving.port, f"en:{spoken.target}"), 60, "the node is there")
            await talk.open(serving.port)
            await talk.half("b").locator("select").select_option(spoken.target)
            await talk.page.wait_for_selector("html[data-state=open]")
            await talk.talk("a", spoken.seconds)
            await until(lambda: talk.texts("b"), 30, "a translation")
            heard, translated = (await talk.texts("b", "heard"))[0], (await talk.texts("b"))[0]
            assert re.match(spoken.heard, heard)
            assert re.match(spoken.translated, translated)
            assert await talk.texts("a") == [translated]
            await until(lambda: _heard_at_least(talk, 1.0), 20, "the translation is played")
            await until(lambda: _settled(talk), 20, "the loudspeaker is quiet")
            seconds, loudest = await talk.played()
            if speak is simulated:
                # It hums for as long as it heard.
                assert seconds == pytest.approx(float(heard.split()[3]), abs=0.12)
                assert loudest == pytest.approx(4_000 / 32_768, rel=0.05)
            assert loudest > 0.05
            assert talk.errors == []


async def _settled(talk: TalkPage) -> bool:
    """Nothing is being played, and nothing waits to be."""
    is_quiet = await talk.page.locator("#loudness").get_attribute("data-peak") == "0.0000"
    return is_quiet and await talk.page.locator("li.playing").count() == 0


async def test_the_node_gets_the_sound_the_microphone_heard(port: int, recorder: Recorder, humming: Browser) -> None:
    async with talk_page(humming) as talk:
        await talk.page.add_init_script(UNTOUCHED)
        await talk.open(port)
        await talk.talk("a", seconds=2.0)
        await until(lambda: talk.texts("b"), 20, "a translation")
        assert await talk.page.evaluate("window.wishes.echoCancellation && window.wishes.noiseSuppression")
    (job,) = recorder.jobs
    assert (job.src_lang, job.tgt_lang, job.audio_format, job.sample_rate) == ("en", "zh", "pcm16", RATE)
    assert job.is_manual_cut
    samples = samples_of(job.audio)
    assert len(samples) / RATE == pytest.approx(2.0, abs=0.4)
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


async def test_speech_in_other_formats_is_heard(
    port: int, recorder: Recorder, humming: Browser, tmp_path: Path
) -> None:
    as_wav = write_wav(tmp_path / "answer.wav", tone(330, 22_050, 1.0), 22_050).read_bytes()
    async with talk_page(humming) as talk:
        await talk.open(port)
        heard_s = 0.0
        for recorder.speech_format, recorder.speech in (("wav", as_wav), ("opus", _framed_opus(HUM))):
            await talk.talk("a", seconds=0.5)
            await until(partial(_heard_at_least, talk, heard_s + 0.9), 20, recorder.speech_format)
            await until(lambda: _settled(talk), 10, "the loudspeaker is quiet")
            so_far_s, loudest = await talk.played()
            assert so_far_s - heard_s == pytest.approx(1.0, abs=0.12)
            assert loudest == pytest.approx(9_000 / 32_768, rel=0.2)
            heard_s = so_far_s
        assert talk.errors == []


async def _heard_at_least(talk: TalkPage, seconds: float) -> bool:
    return (await talk.played())[0] >= seconds


def _framed_opus(pcm: bytes) -> bytes:
    codec = pytest.importorskip("opuslib_next", reason="there is no Opus codec here: pip install opuslib-next-bundled")
    encoder = codec.Encoder(RATE, 1, codec.APPLICATION_VOIP)
    packets = [encoder.encode(pcm[at : at + 640], 320) for at in range(0, len(pcm), 640)]
    return b"".join(len(packet).to_bytes(2, "little") + packet for packet in packets)


# Broken connections


async def test_a_killed_scheduler_loses_no_speech_and_hears_none_twice(
    server: RedisProcess, recorder: Recorder, humming: Browser, tmp_path: Path
) -> None:
    (tmp_path / "again").mkdir()
    async with talk_page(humming) as talk:
        await talk.page.add_init_script(UNTOUCHED)
        async with serve_process(tmp_path, "--redis-url", server.url) as first:
            await until(lambda: first.port, 30, "the scheduler is ready")
            port = first.port
            async with recording_node(port, recorder, "en", "zh"):
                await talk.open(port)
                await talk.press("a")
                await asyncio.sleep(1.0)
                first.process.kill()
                await talk.page.wait_for_selector("html[data-state=away]")
                async with serve_process(tmp_path / "again", "--redis-url", server.url, "--port", str(port)):
                    await talk.page.wait_for_selector("html[data-state=open]:not([data-times-resumed='0'])")
                    await asyncio.sleep(1.0)
                    await until(lambda: _is_served(port, "en:zh"), 30, "the node is back")
                    await talk.release()
                    await until(lambda: talk.texts("b"), 30, "a translation")
                    await until(lambda: _heard_at_least(talk, 0.9), 20, "the translation was played")
                    assert len(await talk.texts("b")) == len(recorder.jobs)
                    said = await _captured(talk)
    assert len(said) > 2 * RATE
    assert samples_of(recorder.audio) == said


async def test_a_result_that_was_lost_with_the_connection_comes_once(
    port: int, recorder: Recorder, humming: Browser
) -> None:
    async with Proxy(port) as proxy, talk_page(humming) as talk:
        await talk.open(proxy.port)
        recorder.may_answer.clear()
        await talk.talk("a", seconds=0.6)
        await until(lambda: recorder.jobs, 10, "the job is under way")
        # Nothing breaks, nothing arrives: the page has to find out by itself.
        proxy.freeze()
        recorder.may_answer.set()
        await talk.page.wait_for_selector("html:not([data-times-resumed='0'])")
        await until(lambda: _heard_at_least(talk, 0.9), 20, "the first was played")
        await talk.talk("a", seconds=0.6)
        await until(lambda: _count(talk, 2), 20, "the next translation")
        assert await talk.texts("b") == ["<b>said</b> 1 in zh", "<b>said</b> 2 in zh"]
        await until(lambda: _heard_at_least(talk, 1.9), 20, "both were played")
        await until(lambda: _settled(talk), 10, "the loudspeaker is quiet")
        assert (await talk.played())[0] == pytest.approx(2.0, abs=0.25)


async def test_a_session_that_is_forgotten_is_begun_anew_with_what_was_not_answered(
    server: RedisProcess, recorder: Recorder, humming: Browser
) -> None:
    async with scheduler_on(server.url, sessions__grace_ms=200) as (scheduler, _), Proxy(scheduler.port) as proxy:
        async with recording_node(scheduler.port, recorder, "en", "zh"), talk_page(humming) as talk:
            await talk.page.add_init_script(UNTOUCHED)
            await talk.open(proxy.port)
            await talk.press("a")
            await asyncio.sleep(0.8)
            proxy.is_cut = True
            await talk.page.wait_for_selector("html[data-state=away]")
            await asyncio.sleep(0.6)
            proxy.is_cut = False
            await talk.page.wait_for_selector("html[data-state=open]")
            await talk.release()
            await until(lambda: talk.texts("b"), 20, "a translation")
            assert await talk.texts("b") == ["<b>said</b> 1 in zh"]
            assert await talk.page.locator(".half[data-side=a] li").count() == 1
            said = await _captured(talk)
    assert len(said) > RATE
    assert samples_of(recorder.audio) == said


async def _is_served(port: int, pair: str) -> bool:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/v1/pools") as response:
        return pair in (await response.json())["pairs"]


async def _captured(talk: TalkPage) -> "array[int]":
    return array("h", await talk.page.evaluate("captured"))


async def _count(talk: TalkPage, count: int) -> bool:
    return len(await talk.texts("b")) == count


class Proxy:
    """Between the browser and the scheduler; while it `is_cut`, connections break and none are made."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._frozen: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    @is_cut.setter
    def is_cut(self, cut: bool) -> None:
        self._is_cut = cut
        if cut:
            for writer in self._writers:
                writer.transport.abort()

    def freeze(self) -> None:
        """What is open stays open, and carries nothing any more."""
        self._frozen = set(self._writers)

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        there, here = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, here}
        await asyncio.gather(self._pump(reader, here), self._pump(there, writer))
        self._writers -= {writer, here}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65_536):
                if writer not in self._frozen:
                    writer.write(piece)
                    await writer.drain()
        except ConnectionError:
            pass
        writer.close()


async def test_a_pause_is_obeyed_and_nothing_is_lost_by_it(port: int, recorder: Recorder, humming: Browser) -> None:
    sent: list[tuple[float, int]] = []
    asked: list[float] = []
    clock = asyncio.get_running_loop().time

    async with talk_page(humming) as talk:

        def between(socket: WebSocketRoute) -> None:
            there = socket.connect_to_server()

            def forward(frame: str | bytes) -> None:
                if isinstance(frame, bytes):
                    sent.append((clock(), int.from_bytes(frame[2:6], "little")))
                    if len(sent) == 3:
                        asked.append(clock())
                        socket.send('{"type":"backpressure","action":"PAUSE","resume_after_ms":800,"message":""}')
                there.send(frame)

            socket.on_message(forward)

        await talk.page.add_init_script(UNTOUCHED)
        await talk.page.route_web_socket("**/ws/session", between)
        await talk.open(port)
        await talk.talk("a", seconds=1.6)
        await until(lambda: talk.texts("b"), 20, "a translation")
        said = await _captured(talk)
    meanwhile = [at for at, _ in sent if asked[0] + 0.15 < at < asked[0] + 0.75]
    assert meanwhile == []
    assert [seq for _, seq in sent] == list(range(len(sent)))
    assert samples_of(recorder.audio) == said


# Two people


async def test_two_people_face_to_face_share_one_conversation(port: int, recorder: Recorder, humming: Browser) -> None:
    async with talk_page(humming, {"width": 360, "height": 740}) as talk:
        await talk.open(port)
        await talk.talk("a", seconds=0.5)
        await until(lambda: _count(talk, 1), 20, "the first translation")
        await talk.talk("b", seconds=0.5)
        await until(lambda: _count(talk, 2), 20, "the second translation")
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
        assert await talk.half("b").locator(".hint").text_content() == "按住说话，或点一下"
        assert await talk.half("a").locator(".hint").text_content() == "Hold to talk, or tap"
        assert await _fits(talk)
        assert await serious_violations(talk.page) == []
        assert talk.errors == []


async def _fits(talk: TalkPage) -> bool:
    return bool(await talk.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


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
        assert await _fits(talk)


# What keeps people from talking


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
        assert "lingua node" in (await notice.text_content() or "")
        assert await talk.speak("a").is_disabled()
        async with recording_node(scheduler.port, Recorder(), "en", "zh"):
            await talk.page.wait_for_selector(".half[data-side=a] .speak:enabled")
            assert await notice.is_hidden()


async def test_a_page_from_another_host_without_https_is_told_why(port: int) -> None:
    async with browser(f"--host-resolver-rules=MAP elsewhere.example 127.0.0.1:{port}") as opened:
        talk = TalkPage(await opened.new_page(viewport=PHONE))
        await talk.page.goto("http://elsewhere.example/talk")
        await talk.page.wait_for_selector("html[data-state=open]")
        assert "https" in (await talk.half("a").locator(".notice").text_content() or "")
        assert await talk.speak("a").is_disabled()
