"""Attack A11: a page of somebody else shows ours in a frame and lets people click what they do not see."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from playwright.async_api import Browser, expect

from tests.support.browser import browser, page_of
from tests.support.peers import Field
from tests.support.waiting import until

PATHS = ("/dashboard", "/talk", "/room", "/docs", "/docs/messages", "/docs/browse")
FRAME = """<!doctype html><title>kittens</title><iframe src="{url}"></iframe>"""


@asynccontextmanager
async def framing(url: str) -> AsyncIterator[int]:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text=FRAME.format(url=url), content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("path", PATHS)
async def test_a11_every_page_says_that_nothing_may_frame_it(peers: Field, path: str) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{peers.port}{path}") as response:
        assert response.status == 200
        policy = [part.strip() for part in response.headers["Content-Security-Policy"].split(";")]
        assert "frame-ancestors 'none'" in policy


async def test_a11_a_browser_shows_nothing_in_the_frame(peers: Field) -> None:
    url = f"http://127.0.0.1:{peers.port}/dashboard"
    async with framing(url) as port, browser("--host-resolver-rules=MAP evil.example 127.0.0.1") as opened:
        # The page works where it is not framed.
        async with page_of(opened) as page:
            await page.goto(url)
            await expect(page.locator(".verdict")).to_be_visible(timeout=90_000)
        for host in ("evil.example", "127.0.0.1"):
            await shows_nothing(opened, f"http://{host}:{port}/")


async def shows_nothing(opened: Browser, url: str) -> None:
    context = await opened.new_context()
    page = await context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    await page.goto(url, wait_until="load")
    frame = page.frames[1]
    # The page may be loaded before the browser tells what became of its frame, and why.
    await until(lambda: frame.url not in ("", "about:blank"), what=url)
    assert frame.url.startswith("chrome-error://"), (url, frame.url)
    assert await frame.locator(".bar").count() == 0
    await until(lambda: any("frame-ancestors" in text for text in said), what=url)
    await context.close()
