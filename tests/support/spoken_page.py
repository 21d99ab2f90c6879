"""A page of an application with the JavaScript client in it, and a person who talks into its microphone."""

from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from playwright.async_api import Page

# Every frame of the microphone is noted and sent; nothing is detected or left out.
BEGIN = """
async (url) => {
  const [{ connect }, { openMicrophone }] = await Promise.all(
    ["index", "microphone"].map((name) => import(`/client/${name}.js`)),
  );
  const session = await connect({ url, source: "en", target: "zh" });
  const heard = { results: [], told: [], captured: [], refused: 0 };
  Object.assign(window, { session, heard });
  session.on("result", ({ index, kind }) => heard.results.push([index, kind]));
  session.on("state", (state) => heard.told.push(`state ${state}`));
  for (const name of ["restarted", "resumed"]) session.on(name, () => heard.told.push(name));
  session.on("progress", ({ step }) => heard.told.push(step));
  window.microphone = await openMicrophone({
    constraints: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
  });
}
"""
TALK = """
() => microphone.start(({ samples, isLast }) => {
  heard.captured.push(...samples);
  if (!session.trySend(samples, isLast)) heard.refused += 1;
  if (isLast) heard.told.push("said");
})
"""


@asynccontextmanager
async def page_server(built: Path) -> AsyncIterator[str]:
    """The origin of an application's page with the client beside it."""
    app = web.Application()
    app.router.add_get("/", _page)
    app.router.add_static("/client", built)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _page(_: web.Request) -> web.Response:
    return web.Response(text='<!doctype html><link rel="icon" href="data:,">', content_type="text/html")


class SpokenPage:
    def __init__(self, page: Page) -> None:
        self.page = page

    async def begin(self, port: int) -> None:
        await self.page.evaluate(BEGIN, f"ws://127.0.0.1:{port}")

    async def speak(self) -> None:
        await self.page.evaluate(TALK)

    async def captured(self, samples: int) -> None:
        """Until so much more was said."""
        before = await self.page.evaluate("heard.captured.length")
        await self.page.wait_for_function(f"heard.captured.length >= {before + samples}")

    async def stop(self) -> None:
        await self.page.evaluate("microphone.stop()")
        await self.page.wait_for_function("heard.told.includes('said')")

    async def finish(self) -> None:
        """Until everything has its outcome."""
        await self.page.evaluate("session.finish()")
        await self.page.wait_for_function("heard.told.includes('state ended')")
        await self.page.evaluate("microphone.close()")

    async def told(self, word: str) -> None:
        await self.page.wait_for_function(f"heard.told.includes({word!r})")

    async def heard(self) -> tuple[list[Any], list[str], "array[int]"]:
        """The outcomes, what else was told, and every sample of the microphone; none was refused."""
        heard: Any = await self.page.evaluate("heard")
        assert heard["refused"] == 0
        return heard["results"], heard["told"], array("h", heard["captured"])
