"""The JavaScript client in a process of Node.js, steered by a test; and where its tools are."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lingua_sdk.processes import die_with_parent, stop
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "clients" / "js"
TOOLS = ROOT / "tools" / "js"
DRIVER = ROOT / "tests" / "clients" / "driver.mjs"
OLDEST_NODE = 20


def _missing(what: str) -> NoReturn:
    """CI has all of it, and must not pass without."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


def node() -> str:
    """Skips the test if there is none."""
    found = shutil.which("node")
    if found is None:
        _missing("there is no Node.js on this machine")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    if int(version.lstrip("v").split(".")[0]) < OLDEST_NODE:
        _missing(f"Node.js {OLDEST_NODE} or newer is needed; this is {version.strip()}")
    return found


def build(folder: Path) -> Path:
    """The package, built into a folder. Skips the test if that needs what is not here."""
    program = node()
    for name in ("tsc", "esbuild"):
        if not (TOOLS / "node_modules/.bin" / name).exists():
            _missing(f"{name} is not installed: make check-js does it")
    # Scripts of Node.js are ES modules where a package.json says so.
    shutil.copy(PACKAGE / "package.json", folder)
    command = [program, str(PACKAGE / "build.mjs"), str(folder / "dist")]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder / "dist"


class JsClient:
    """What it tells is kept; `did` waits until something was told."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []
        self._news = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    def do(self, **verbs: Any) -> None:
        """Calls methods of the session, without waiting for them."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(verbs).encode() + b"\n")

    async def until(self, is_so: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(is_so)

    async def next(self, name: str, count: int = 1) -> Any:
        """The value that was told under this name for the so-manieth time."""
        await self.until(lambda: len(self.of(name)) >= count)
        return self.of(name)[count - 1]

    def of(self, name: str) -> list[Any]:
        return [one[name] for one in self.told if name in one]

    async def over(self) -> dict[str, Any]:
        """How what is heard has ended."""
        await self.until(lambda: self.of("over") or self.of("failed"))
        return next(one for one in self.told if "over" in one or "failed" in one)

    @property
    def outcomes(self) -> list[int]:
        """The numbers of what was heard, as it came."""
        return [one["index"] for one in self.of("heard") if one["kind"] != "partial"]

    @property
    def texts(self) -> list[str]:
        return [one.get("translated", one.get("reason")) for one in self.of("heard")]

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._news:
                self.told.append(json.loads(line))
                self._news.notify_all()

    async def close(self) -> None:
        await stop(self.process, 15.0)
        await self._reader


@asynccontextmanager
async def js_client(built: Path, port: int, **options: Any) -> AsyncIterator[JsClient]:
    options = {"url": f"ws://127.0.0.1:{port}", "source": "en", "target": "zh"} | options
    process = await asyncio.create_subprocess_exec(
        *(node(), str(DRIVER), str(built), str(TOOLS), json.dumps(options)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    client = JsClient(process)
    try:
        yield client
    finally:
        await client.close()
