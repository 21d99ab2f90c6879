"""The talk page open in a browser, and a node that keeps what it hears."""

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from playwright.async_api import Browser, Locator, Page, ViewportSize

from lingua_sdk.node import Abilities, JobOutput, Node
from lingua_sdk.protocol.node import JobAssign
from tests.support.waiting import PATIENCE_S

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
    if (name === "lingua-capture") this.port.addEventListener("message", ({ data }) => captured.push(...data.samples));
  }
};
"""

PHONE: ViewportSize = {"width": 390, "height": 844}
DESKTOP: ViewportSize = {"width": 1280, "height": 800}


class Recorder:
    """An engine that keeps what it hears, and answers with `speech` of one format after the other."""

    name = "recorder"

    def __init__(self, speech: bytes = b"", speech_format: str = "pcm16") -> None:
        self.jobs: list[JobAssign] = []
        self.speech = speech
        self.speech_format = speech_format
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    @property
    def audio(self) -> bytes:
        return b"".join(job.audio for job in self.jobs)

    async def translate(self, job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        self.jobs.append(job)
        number = len(self.jobs)
        partial(f"heard a part of {number}")
        await self.may_answer.wait()
        return JobOutput(f"heard {number}", f"<b>said</b> {number} in {job.tgt_lang}", self.speech, self.speech_format)


@asynccontextmanager
async def recording_node(port: int, engine: Recorder, *languages: str, token: str = "") -> AsyncIterator[None]:
    abilities = Abilities(languages, languages, languages)
    node = Node(f"127.0.0.1:{port}", engine, abilities, heartbeat_interval_s=0.5, token=token)
    running = asyncio.create_task(node.run())
    try:
        yield
    finally:
        await node.stop()
        await running


class TalkPage:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)

    def half(self, side: str) -> Locator:
        return self.page.locator(f".half[data-side={side}]")

    def speak(self, side: str) -> Locator:
        return self.half(side).locator(".speak")

    async def open(self, port: int) -> None:
        await self.page.goto(f"http://127.0.0.1:{port}/talk")
        await self.page.wait_for_selector("html[data-state=open]")

    async def press(self, side: str = "a") -> None:
        """And wait until the microphone is on."""
        await self.page.wait_for_selector(f".half[data-side={side}] .speak:enabled")
        box = await self.speak(side).bounding_box()
        assert box is not None
        await self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        await self.page.mouse.down()
        await self.page.wait_for_selector(f".half[data-side={side}][data-phase=listening]")

    async def release(self) -> None:
        await self.page.mouse.up()

    async def talk(self, side: str = "a", seconds: float = 1.0) -> None:
        await self.press(side)
        await asyncio.sleep(seconds)  # the time it takes to say it
        await self.release()

    async def texts(self, side: str, name: str = "translated") -> list[str]:
        return await self.half(side).locator(f"li.done .{name}").all_text_contents()

    async def played(self) -> tuple[float, float]:
        """Seconds that were not silent, and the loudest sample, of what reached the loudspeaker."""
        kept: dict[str, Any] = await self.page.locator("#loudness").evaluate("e => ({...e.dataset})")
        return float(kept.get("playedSeconds", 0)), float(kept.get("loudest", 0))

    async def has_played(self, seconds: float) -> bool:
        return (await self.played())[0] >= seconds

    async def is_quiet(self) -> bool:
        """Nothing is being played, and nothing waits to be."""
        peak = await self.page.locator("#loudness").get_attribute("data-peak")
        return peak == "0.0000" and await self.page.locator("li.playing").count() == 0

    async def shows(self, count: int) -> bool:
        """So many translations, and no more."""
        return len(await self.texts("b")) == count

    async def is_without(self, selector: str) -> bool:
        return await self.page.locator(selector).count() == 0

    async def captured(self) -> "array[int]":
        """Every sample that was taken; needs UNTOUCHED."""
        return array("h", await self.page.evaluate("captured"))

    async def fits(self) -> bool:
        return bool(await self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


async def is_served(port: int, pair: str) -> bool:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/v1/pools") as response:
        return pair in (await response.json())["pairs"]


@asynccontextmanager
async def talk_page(browser: Browser, size: ViewportSize = PHONE, **more: Any) -> AsyncIterator[TalkPage]:
    """In a context of its own, which remembers nothing."""
    context = await browser.new_context(viewport=size, **more)
    context.set_default_timeout(PATIENCE_S * 1000)
    try:
        yield TalkPage(await context.new_page())
    finally:
        await context.close()
