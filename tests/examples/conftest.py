"""The examples that run in a browser, served as their READMEs say, and the browsers."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.support.browser import browser, microphone
from tests.support.example_pages import PAGES, serving, with_client
from tests.support.js_client import build
from tests.support.talking import Recorder
from tests.support.tones import silence, tone, write_wav

expect.set_options(timeout=90_000)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("client"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pages(built: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of examples/pages."""
    folder = tmp_path_factory.mktemp("examples") / "pages"
    shutil.copytree(PAGES, folder, ignore=shutil.ignore_patterns("node_modules"))
    async with serving(with_client(folder, built)) as origin:
        yield origin


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def speaking(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """A browser whose microphone hears one sentence: a tone with silence around it."""
    samples = silence(48_000, 2) + tone(440, 48_000, 3.0) + silence(48_000, 120)
    wav = write_wav(tmp_path_factory.mktemp("wav") / "sentence.wav", samples, 48_000)
    async with browser(*microphone(wav)) as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def humming(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """A browser whose microphone hears a steady tone."""
    wav = write_wav(tmp_path_factory.mktemp("wav") / "hum.wav", tone(440, 48_000, 60), 48_000)
    async with browser(*microphone(wav)) as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def opened() -> AsyncIterator[Browser]:
    async with browser() as found:
        yield found


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(tone(330, 16_000, 0.3).tobytes())
