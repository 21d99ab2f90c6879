"""Fixtures for everybody: a private Redis, flushed before each test."""

import gc
import os
from collections.abc import AsyncIterator, Generator, Iterator
from functools import cache
from importlib.metadata import version
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import pytest
import redis.utils
import uvloop
from hypothesis import HealthCheck, settings

from lingua_scheduler import app
from lingua_scheduler.store import rights, scripts
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from lingua_scheduler.telemetry.garbage import Tidier
from tests.support.clusters import Cluster, Sentinels
from tests.support.leaks import LEAKS
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries
from tests.support.surprises import SURPRISES, watching

# Speed is for benchmarks: the examples of a property have no time limit of their own.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# No test trusts a public authority, and to read all of them is a tenth of the start of every process.
os.environ.setdefault("SSL_CERT_FILE", os.devnull)

# Asked for by every connection and every scheduler, which would read the metadata of an installed package anew.
redis.utils.get_lib_version = cache(redis.utils.get_lib_version)
app.version = cache(version)  # type: ignore[attr-defined]


class _TestTidier(Tidier):
    """Freezes nothing: a scheduler that is gone would stay, and to collect it is to look at all tests again."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


app.Tidier = _TestTidier  # type: ignore[attr-defined]

# Directories of tests that start processes and wait for them, or take many steps.
LONG = frozenset({"e2e", "browser", "chaos", "security", "bench", "cluster", "models"})

# Directories of tests after each of which all that was written is searched for credentials.
SEARCHED = frozenset({"e2e", "security"})


def _fillers(workers: int) -> int:
    """How many workers begin with quick tests: they use the CPU while the long tests of the others wait."""
    return workers // 3


def pytest_configure() -> None:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    if place >= workers - _fillers(workers):
        # Long tests have people who speak at real pace: what is computed beside them must not hold them up.
        os.nice(10)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, dealt out by files: the workers take equal stretches of this list, in its order,
    and one that is done helps the others with the quick tests at its end. The fillers get quick tests alone."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    hands: list[list[pytest.Item]] = [[] for _ in range(workers)]
    dealt = hands[: workers - _fillers(workers)]
    quick = [item for item in items if not _is_long(item)]
    for place, (_, some) in enumerate(groupby(filter(_is_long, items), key=attrgetter("path"))):
        dealt[place % len(dealt)] += some
    share = -(-len(items) // workers)
    for hand in hands:
        room = max(0, share - len(hand))
        hand.extend(quick[:room])
        quick = quick[room:]
    items[:] = [*chain.from_iterable(hands), *quick]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nearly all that is made while tests are collected stays: to look through it again and again finds nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What was collected stays to the end, and is not scanned again at the start of every scheduler.

    What scripts say is read anew: `make mutants` breaks the reader after this."""
    scripts.shipped.cache_clear()
    rights.said_in.cache_clear()
    gc.collect()
    gc.freeze()


def _is_long(item: pytest.Item) -> bool:
    return bool(LONG.intersection(item.path.parts)) or item.get_closest_marker("slow") is not None


def pytest_asyncio_loop_factories() -> dict[str, object]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def no_surprises(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test in which a task died or an error was logged, unless it is marked `expects_surprise(event, …)`."""
    with watching():
        yield
    marks = request.node.iter_markers("expects_surprise")
    expected = {event for mark in marks for event in mark.args}
    seen = [(event, about) for event, about in SURPRISES.take() if event not in expected]
    assert not seen, "not expected (see the marker expects_surprise):\n" + "\n".join(map(": ".join, seen))


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test after which a credential is found where none may be."""
    if SEARCHED.isdisjoint(request.path.parts):
        yield
        return
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    with LEAKS.watching():
        yield
        for server in list(RedisProcess.running):
            server.show()
        LEAKS.wrote("metrics", "\n".join(_label_values()))
        if folder is not None:
            LEAKS.wrote_files(folder)
        found = LEAKS.take()
    assert not found, f"secrets were written (see tests/support/leaks.py): {found}"


def _label_values() -> set[str]:
    """All that a page of metrics says but numbers and what stands in the source."""
    samples = chain.from_iterable(metric.samples for metric in metrics.REGISTRY.collect())
    return {value for sample in samples for value in sample.labels.values()}


@pytest.fixture(scope="session")
def shipped_server() -> Iterator[RedisProcess]:
    """REDIS=cluster or REDIS=sentinel in the environment: three masters with replicas, or one behind Sentinels.

    REDIS_SERVER is the program of another server than the one that is shipped."""
    binary = os.environ.get("REDIS_SERVER") or str(binaries()["valkey"])
    match os.environ.get("REDIS", "standalone"):
        case "cluster":
            server: Any = Cluster(binary, masters=3, replicas=3)
        case "sentinel":
            server = Sentinels(binary, down_after_ms=10_000)
        case _:
            server = RedisProcess(binary)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[Cluster]:
    started = Cluster(str(binaries()["valkey"]), masters=3)
    yield started
    started.stop()


@pytest.fixture
def server(request: pytest.FixtureRequest, shipped_server: RedisProcess) -> RedisProcess:
    """Of tests that are marked ALSO_ON_A_CLUSTER: a Cluster the second time."""
    is_cluster = getattr(request, "param", "") == "cluster"
    server: RedisProcess = request.getfixturevalue("redis_cluster") if is_cluster else shipped_server
    server.flush()
    return server


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
