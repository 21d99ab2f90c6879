"""As a new user would: npm pack, npm install into an empty folder, and the ten lines of the README."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path

import pytest
from aiohttp import web

from lingua_sdk import wav
from lingua_sdk.processes import die_with_parent, stop
from tests.support.browser import browser, page_of
from tests.support.js_client import PACKAGE, node
from tests.support.node_processes import node_process, skip_without_engines
from tests.support.peers import Field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.talking import is_served
from tests.support.tones import tone
from tests.support.waiting import PATIENCE_S, until

# From the registry, or from the cache of npm.
INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
INSTALL_WITHIN_S = 120
# What is heard, and its translation.
SIMULATED = (r"\(simulated\) I heard [\d.]+ seconds", r"[\d.]+")
REAL = (r"(\w+\W+){4}", r"(\w+\W+){3}")
BLOCK = re.compile(r"^```js\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder, but for the package that was packed from what was built, and `ws`."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("installed")
    for name in ("README.md", "package.json"):
        shutil.copy(PACKAGE / name, built.parent)
    pack = ["npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", str(folder)]
    subprocess.run(pack, cwd=built.parent, check=True, capture_output=True, timeout=INSTALL_WITHIN_S)
    (packed,) = folder.glob("*.tgz")
    try:
        subprocess.run(
            (*INSTALL, str(packed), "ws@8"), cwd=folder, check=True, capture_output=True, timeout=INSTALL_WITHIN_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install ws within {INSTALL_WITHIN_S} s")
    except subprocess.CalledProcessError as failed:
        pytest.skip(f"npm cannot install ws: {failed.stderr.decode(errors='replace')[-300:]}")
    return folder


async def run(program: Path) -> str:
    """What it prints."""
    process = await asyncio.create_subprocess_exec(
        *(node(), program.name),
        cwd=program.parent,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=die_with_parent,
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            printed, _ = await process.communicate()
    finally:
        await stop(process, 15.0)
    assert process.returncode == 0, printed.decode()
    return printed.decode()


async def test_the_ten_lines_of_the_readme_translate_a_file(installed: Path, peers: Field) -> None:
    node_of_fleet = await peers.node(languages=("en", "pt"))
    code, _ = BLOCK.findall((PACKAGE / "README.md").read_text("utf-8"))
    assert len([line for line in code.splitlines() if line]) <= 10
    wav.write(installed / "speech.wav", tone(440, 16_000, 1.0).tobytes())
    program = installed / "ten-lines.mjs"
    program.write_text(code.replace("ws://127.0.0.1:5010", f"ws://127.0.0.1:{peers.port}"), "utf-8")
    known_as = "heard {session_id} 0 -> said {session_id} 0\n"
    printed = await run(program)
    assert printed == known_as.format(session_id=node_of_fleet.jobs[0]["session_id"])


def test_the_packed_files_are_those_that_are_needed(installed: Path) -> None:
    package = installed / "node_modules" / "@lingua-scheduler" / "client"
    names = {path.name for path in package.iterdir()}
    assert names == {"README.md", "package.json", "dist"}


PAGE = """<!doctype html><title>ten lines</title><link rel="icon" href="data:,">
<script type="importmap">{{"imports": {imports}}}</script>
<script type="module">{code}</script><body></body>"""


@asynccontextmanager
async def served(folder: Path, page: str) -> AsyncIterator[str]:
    async def give(_: web.Request) -> web.Response:
        return web.Response(text=page, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", give)
    app.router.add_static("/", folder)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("is_real", [False, True], ids=["simulated", "real"])
async def test_the_ten_lines_of_a_page_translate_the_sample_in_chromium(
    installed: Path, server: RedisProcess, is_real: bool
) -> None:
    if is_real:
        await skip_without_engines()
    _, code = BLOCK.findall((PACKAGE / "README.md").read_text("utf-8"))
    assert len([line for line in code.splitlines() if line]) <= 10
    shutil.copy(
        Path(str(resources.files("lingua_scheduler.cli"))) / "assets" / "sample-en.wav", installed / "speech.wav"
    )
    engine = () if is_real else ("--engine", "sim", "--languages", "en,pt")
    async with scheduler_on(server.url, server__allowed_origins=["*"]) as (there, _), node_process(there.port, *engine):
        await until(lambda: is_served(there.port, "en:pt"), 60, "the node is there")
        at = "/node_modules/@lingua-scheduler/client/dist"
        imports = {"@lingua-scheduler/client": f"{at}/index.js", "@lingua-scheduler/client/files": f"{at}/files.js"}
        code = code.replace("ws://127.0.0.1:5010", f"ws://127.0.0.1:{there.port}")
        async with served(installed, PAGE.format(imports=json.dumps(imports), code=code)) as origin:
            async with browser() as opened, page_of(opened) as page:
                await page.goto(origin)
                await page.wait_for_function("document.body.textContent.includes(' -> ')")
                shown = await page.text_content("body") or ""
    heard, translated = shown.split(" -> ", 1)
    said = REAL if is_real else SIMULATED
    assert re.search(said[0], heard), shown
    assert re.search(said[1], translated), shown
