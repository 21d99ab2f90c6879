"""Fixtures for everybody: a private Redis, flushed before each test."""

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, settings

from lingua_scheduler.store.store import Store
from tests.support.clusters import Cluster, Sentinels
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries

# Speed is for benchmarks: the examples of a property have no time limit of their own.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_asyncio_loop_factories() -> dict[str, object]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def shipped_server() -> Iterator[RedisProcess]:
    """REDIS=cluster or REDIS=sentinel in the environment: three masters with replicas, or one behind Sentinels."""
    binary = str(binaries()["valkey"])
    match os.environ.get("REDIS", "standalone"):
        case "cluster":
            server: Any = Cluster(binary, masters=3, replicas=3)
        case "sentinel":
            server = Sentinels(binary, down_after_ms=10_000)
        case _:
            server = RedisProcess(binary)
    yield server
    server.stop()


@pytest.fixture
def server(shipped_server: RedisProcess) -> RedisProcess:
    shipped_server.flush()
    return shipped_server


@pytest.fixture
async def store(server: RedisProcess) -> AsyncIterator[Store]:
    # A server that hangs is the affair of other tests; this one may be busy.
    opened = Store(server.url, key_prefix="lingua:v1", timeout_ms=30_000)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def peers(server: RedisProcess) -> AsyncIterator[Field]:
    """Peers of a scheduler with default settings."""
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as found:
        yield found
