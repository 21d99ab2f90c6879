"""The store's tests run on every server we promise to work on, and on a Cluster."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.clusters import Cluster, Sentinels
from tests.support.servers import RedisProcess, binaries

AnyServer = RedisProcess | Cluster | Sentinels


def _patient(binary: str) -> Sentinels:
    """A busy machine is no reason for a failover."""
    return Sentinels(binary, down_after_ms=10_000)


BEHIND_MANY: dict[str, Callable[[str], AnyServer]] = {"cluster": Cluster, "sentinel": _patient}


@pytest.fixture(scope="session")
def server_named() -> Iterator[Callable[[str], AnyServer]]:
    """Servers by name, started when first asked for and flushed each time."""
    started: dict[str, AnyServer] = {}

    def get(name: str) -> AnyServer:
        if name not in started:
            binary = binaries()["valkey" if name in BEHIND_MANY else name]
            if binary is None:
                pytest.skip(f"{name} is not on this machine")
            started[name] = BEHIND_MANY.get(name, RedisProcess)(binary)
        started[name].flush()
        return started[name]

    yield get
    for server in started.values():
        server.stop()


@pytest.fixture(params=[*binaries(), *BEHIND_MANY])
def server(request: pytest.FixtureRequest, server_named: Callable[[str], AnyServer]) -> AnyServer:
    return server_named(request.param)


@pytest.fixture
def cluster(server_named: Callable[[str], Cluster]) -> Cluster:
    """The Cluster alone; its masters live on, so a test gives back what it moves."""
    return server_named("cluster")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(server: AnyServer, clock: Clock) -> AsyncIterator[Store]:
    """A store whose scripts see the time of the test's own clock."""
    # A server that hangs is the affair of other tests; this one may be busy.
    opened = Store(server.url, key_prefix="test:v1", clock=clock, timeout_ms=30_000)
    await opened.open(wait=True)
    yield opened
    await opened.close()
