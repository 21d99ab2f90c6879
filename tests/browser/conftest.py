"""One browser of each kind for all tests here: it takes longer to start than most of them."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.support.browser import browser, microphone
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.talking import Recorder, recording_node
from tests.support.tones import tone, write_wav

# A page that is drawn on a busy machine takes its time.
expect.set_options(timeout=90_000)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def opened() -> AsyncIterator[Browser]:
    async with browser() as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def humming(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """A browser whose microphone hears a steady tone."""
    wav = write_wav(tmp_path_factory.mktemp("wav") / "hum.wav", tone(440, 48_000, 20), 48_000)
    async with browser(*microphone(wav)) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def recorder() -> Recorder:
    return Recorder(tone(330, 16_000, 1.0).tobytes())


@pytest_asyncio.fixture(loop_scope="session")
async def port(server: RedisProcess, recorder: Recorder) -> AsyncIterator[int]:
    """Of a scheduler with one node for English and Chinese."""
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "zh"):
        yield scheduler.port
