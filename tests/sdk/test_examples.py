"""The examples are real: files and pages alike run against a scheduler of their own."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk import wav
from lingua_sdk.client import Client
from lingua_sdk.loading import load_engine
from lingua_sdk.pipeline import Pipeline
from lingua_sdk.processes import die_with_parent, stop
from lingua_sdk.self_test import pairs_of, try_pair
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.tones import tone
from tests.support.waiting import until
from tools.docs import ROOT

PAGE = (ROOT / "docs" / "sdk.md").read_text("utf-8")
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = {name: (ROOT / "examples" / name).read_text("utf-8") for name in ("node.py", "client.py", "captions.py")}
ADDRESS = "ws://127.0.0.1:5010"


class Script:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8")


@asynccontextmanager
async def script(folder: Path, code: str, *arguments: str) -> AsyncIterator[Script]:
    """Typed into a file from the page, as it were."""
    path = folder / f"script-{len(list(folder.iterdir()))}.py"
    path.write_text(code, "utf-8")
    log = path.with_suffix(".log")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", str(path), *arguments),
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(ROOT / "lingua-sdk" / "src")},
            preexec_fn=die_with_parent,
        )
    try:
        yield Script(process, log)
    finally:
        await stop(process, 15.0)


@asynccontextmanager
async def example_node(folder: Path, port: int) -> AsyncIterator[Script]:
    async with script(folder, EXAMPLES["node.py"], f"ws://127.0.0.1:{port}") as node:
        await until(lambda: "registered" in node.said, 30)
        yield node


async def test_the_example_node_serves_the_example_client(server: RedisProcess, tmp_path: Path) -> None:
    recording = tmp_path / "speech.wav"
    wav.write(recording, tone(440, 16_000, 1.0).tobytes())
    async with serve_process(tmp_path, "--redis-url", server.url) as serving:
        await until(lambda: serving.port, 60)
        async with example_node(tmp_path, serving.port) as node:
            arguments = (str(recording), "en", "pt", f"ws://127.0.0.1:{serving.port}")
            async with script(tmp_path, EXAMPLES["client.py"], *arguments) as client:
                async with asyncio.timeout(90):
                    assert await client.process.wait() == 0, client.said
            heard = "1.0 seconds of speech -> 1.0 segundos de fala (32000 bytes of speech)"
            assert heard in client.said.splitlines()
            node.process.terminate()
            async with asyncio.timeout(90):
                assert await node.process.wait() == 0


SAMPLE = str(ROOT / "src" / "lingua_scheduler" / "cli" / "assets" / "sample-en.wav")
NO_SCHEDULER = f"ws://127.0.0.1:{free_port()}"
USAGE = "usage: python client.py speech.wav en pt [ws://127.0.0.1:5010]"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("client.py", (), USAGE),
        ("client.py", ("speech.wav", "en"), USAGE),
        ("client.py", ("nowhere.wav", "en", "pt"), "nowhere.wav cannot be opened: No such file or directory"),
        ("client.py", (SAMPLE, "en", "pt", "ftp://x"), "'ftp://x' is not an address"),
        ("client.py", (SAMPLE, "en", "pt", NO_SCHEDULER), "start one with: lingua serve"),
        ("captions.py", (), "usage: python captions.py 483920 pt"),
        ("captions.py", ("483920", "pt", "ftp://x"), "'ftp://x' is not an address"),
        ("captions.py", ("483920", "pt", NO_SCHEDULER), "start one with: lingua serve"),
        ("node.py", ("ftp://x",), "'ftp://x' is not an address"),
    ],
)
async def test_an_example_that_cannot_begin_says_what_to_do(
    tmp_path: Path, name: str, arguments: tuple[str, ...], said: str
) -> None:
    async with script(tmp_path, EXAMPLES[name], *arguments) as running:
        async with asyncio.timeout(90):
            assert await running.process.wait() == 1
    assert said in running.said
    assert "Traceback" not in running.said


async def test_the_caption_screen_shows_a_room_until_it_ends(server: RedisProcess, tmp_path: Path) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url) as serving:
        await until(lambda: serving.port, 60)
        address = f"ws://127.0.0.1:{serving.port}"
        async with script(tmp_path, EXAMPLES["captions.py"], "999999", "pt", address) as refused:
            async with asyncio.timeout(90):
                assert await refused.process.wait() == 1
            assert refused.said.startswith("ROOM_NOT_FOUND: ")
        async with Client(address, "en", "pt") as client:
            room = await client.create_room(name="Ann")
            async with script(tmp_path, EXAMPLES["captions.py"], room.code, "pt", address) as screen:
                await until(lambda: "here: Ann" in screen.said, 60)
                await room.close()
                async with asyncio.timeout(90):
                    assert await screen.process.wait() == 0, screen.said
                assert "the host closed the room" in screen.said


async def test_a_refused_session_is_told_in_words(server: RedisProcess, tmp_path: Path) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url) as serving:
        await until(lambda: serving.port, 60)
        arguments = (SAMPLE, "e!n", "pt", f"ws://127.0.0.1:{serving.port}")
        async with script(tmp_path, EXAMPLES["client.py"], *arguments) as client, asyncio.timeout(90):
            assert await client.process.wait() == 1
    assert client.said.startswith("the scheduler did not open a session")


def test_the_page_shows_the_examples_as_they_are() -> None:
    assert [name for name, code in EXAMPLES.items() if code not in BLOCKS] == []


def test_the_example_node_has_twenty_lines() -> None:
    lines = EXAMPLES["node.py"].splitlines()
    assert len([line for line in lines if line.strip()]) <= 20


ENGINES = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "engines.md").read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("number", range(len(ENGINES)))
async def test_the_engines_that_need_care_work_as_the_page_shows_them(tmp_path: Path, number: int) -> None:
    path = tmp_path / "my_engines.py"
    path.write_text(ENGINES[number], "utf-8")
    engine, given = load_engine(path)
    assert given is None
    assert isinstance(engine, Pipeline)
    await engine.load()
    able = engine.abilities()
    for pair in pairs_of(able):
        found = await try_pair(engine, pair, able, bytes(32_000 * 6))
        assert (found.problem, found.heard) == ("", True)
    assert pairs_of(able)


def test_each_kind_of_care_has_an_example() -> None:
    """Spelled as the SDK reads it: an attribute with another name would be ignored without a word."""
    kinds = ("concurrency = 1", "def translate_batch(", "def load(", "more_time(30)")
    assert [kind for kind, block in zip(kinds, ENGINES, strict=True) if f" {kind}" not in block] == []


NEEDS_A_MICROPHONE = "sdk.microphone"
others = [block for block in BLOCKS if block not in EXAMPLES.values() and NEEDS_A_MICROPHONE not in block]


@pytest.mark.parametrize("number", range(len(others)))
async def test_what_the_page_shows_runs(server: RedisProcess, tmp_path: Path, number: int) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url) as serving:
        await until(lambda: serving.port, 60)
        async with example_node(tmp_path, serving.port):
            assert ADDRESS in others[number]
            here = others[number].replace(ADDRESS, f"ws://127.0.0.1:{serving.port}")
            async with script(tmp_path, here) as running:
                async with asyncio.timeout(90):
                    assert await running.process.wait() == 0, running.said
            assert running.said
            assert "Traceback" not in running.said


def test_what_the_page_cannot_run_can_be_read() -> None:
    for block in BLOCKS:
        compile(block, "docs/sdk.md", "exec")
