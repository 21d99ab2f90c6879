"""examples/react: its types are checked, it is built with Vite, and the built app runs in Chromium."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, WebSocket, expect

from tests.support.breaking import Proxy
from tests.support.browser import page_of
from tests.support.example_pages import serving
from tests.support.js_client import ROOT
from tests.support.npm import installed
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.talking import Recorder, recording_node
from tests.support.waiting import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


@pytest.fixture(scope="module")
def made(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the app, built for production and, in `strict`, so that React's strict mode is on."""
    folder = installed(ROOT / "examples" / "react", built, tmp_path_factory.mktemp("react") / "react")
    build("npm", "run", "build", folder=folder)
    build(
        "npx", "vite", "build", "--outDir", "dist/strict", "--base", "/strict/", folder=folder, NODE_ENV="development"
    )
    return folder / "dist"


def build(*command: str, folder: Path, **variables: str) -> None:
    run = subprocess.run(
        command,
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | variables,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def app(made: Path) -> AsyncIterator[str]:
    """The address of the built app."""
    async with serving(made) as origin:
        yield origin


@pytest.mark.parametrize("place", ["", "strict/"])
async def test_the_hook_translates_over_a_broken_connection(
    server: RedisProcess, app: str, speaking: Browser, recorder: Recorder, place: str
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt", "es"):
        async with Proxy(scheduler.port) as proxy, page_of(speaking) as page:
            sockets: list[WebSocket] = []
            page.on("websocket", lambda socket: sockets.append(socket))
            status = page.get_by_role("status")
            await page.goto(f"{app}/{place}index.html#scheduler=ws://127.0.0.1:{proxy.port}")
            await expect(status).to_have_text("open")
            await page.get_by_label("They read").select_option("es")
            await expect(status).to_have_text("open")
            recorder.may_answer.clear()
            await page.get_by_role("button", name="Speak").click()
            await until(lambda: recorder.jobs, what="what is heard reaches a node")
            proxy.is_cut = True
            await expect(status).to_have_text("away")
            recorder.may_answer.set()
            proxy.is_cut = False
            await expect(page.locator("li")).to_have_text("heard 1 → <b>said</b> 1 in es")
            await page.get_by_role("button", name="Done").click()
            await expect(page.get_by_role("button", name="Speak")).to_be_enabled()
            # Those of the other language, and of what strict mode begins twice, are closed.
            await until(lambda: [socket.is_closed() for socket in sockets].count(False) == 1, what="one is left")
    assert [(job.src_lang, job.tgt_lang) for job in recorder.jobs] == [("en", "es")]


async def test_the_hook_says_what_is_wrong_and_connects_again_when_asked(
    server: RedisProcess, app: str, opened: Browser
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), Proxy(scheduler.port) as proxy, page_of(opened) as page:
        proxy.is_cut = True
        status = page.get_by_role("status")
        await page.goto(f"{app}/index.html#scheduler=ws://127.0.0.1:{proxy.port}")
        await expect(status).to_have_text(f"no scheduler answers at ws://127.0.0.1:{proxy.port}")
        proxy.is_cut = False
        await page.get_by_role("button", name="Connect again").click()
        # No node is connected.
        await expect(status).to_contain_text("no node")
        await page.get_by_role("button", name="Speak").click()
        await expect(status).to_contain_text("there is no microphone")
