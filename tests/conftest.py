"""Fixtures for everybody: a private Redis, flushed before each test."""

from collections.abc import AsyncIterator, Iterator

import pytest
import uvloop

from lingua_scheduler.store.store import Store
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries


def pytest_asyncio_loop_factories() -> dict[str, object]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def shipped_server() -> Iterator[RedisProcess]:
    server = RedisProcess(str(binaries()["valkey"]))
    yield server
    server.stop()


@pytest.fixture
def server(shipped_server: RedisProcess) -> RedisProcess:
    shipped_server.flush()
    return shipped_server


@pytest.fixture
async def store(server: RedisProcess) -> AsyncIterator[Store]:
    opened = Store(server.url, key_prefix="lingua:v1")
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def peers(server: RedisProcess) -> AsyncIterator[Field]:
    """Peers of a scheduler with default settings."""
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as found:
        yield found
