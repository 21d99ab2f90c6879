"""The store's tests run on every server we promise to work on."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.support.clocks import Clock
from tests.support.servers import RedisProcess, binaries

from lingua_scheduler.store.store import Store


@pytest.fixture(scope="session", params=list(binaries()))
def any_server(request: pytest.FixtureRequest) -> Iterator[RedisProcess]:
    binary = binaries()[request.param]
    if binary is None:
        pytest.skip(f"{request.param} is not on this machine")
    server = RedisProcess(binary)
    yield server
    server.stop()


@pytest.fixture
def server(any_server: RedisProcess) -> RedisProcess:
    any_server.flush()
    return any_server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(server: RedisProcess, clock: Clock) -> AsyncIterator[Store]:
    """A store whose scripts see the time of the test's own clock."""
    opened = Store(server.url, key_prefix="test:v1", clock=clock)
    await opened.open()
    yield opened
    await opened.close()
