"""Redis goes away, comes back without its data, or its clock jumps."""

import asyncio

import pytest

from lingua_scheduler.services.recovery.outages import Outages
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.connected import registered
from tests.support.fleet import ledger
from tests.support.recovering import Parts
from tests.support.waiting import until


@pytest.fixture
def parts(store: Store) -> Parts:
    return Parts(store)


@pytest.fixture
def outages(store: Store, parts: Parts) -> Outages:
    return Outages(store, parts.presence, parts.sweeper, parts.records, parts.connected)


@pytest.fixture
def changes(outages: Outages) -> list[bool]:
    """Whether Redis was available at each change that was announced."""
    announced: list[bool] = []
    outages.on_change = lambda: announced.append(is_up())
    return announced


def is_up() -> bool:
    return metrics.REGISTRY.get_sample_value("lingua_redis_up") == 1


class Held:
    """Stands for writing all nodes again, until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()

    async def reassert(self) -> None:
        self.begun += 1
        await self.go_on.wait()


@pytest.fixture
def held(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> Held:
    found = Held()
    monkeypatch.setattr(parts.connected.reassertion, "reassert", found.reassert)
    return found


async def test_an_outage_shows_while_it_lasts(outages: Outages, changes: list[bool]) -> None:
    outages.began("no answer")
    assert not is_up()
    assert outages.settled.is_set()  # what cannot be written is refused by the store itself
    outages.ended()
    assert is_up()
    assert changes == [False, True]
    await outages.settled.wait()


def test_an_outage_is_noticed_at_the_store(store: Store, outages: Outages) -> None:
    metrics.REDIS_UP.set(0)
    outages.watch()
    assert is_up()
    assert (store.line.on_down, store.line.on_up) == (outages.began, outages.ended)


async def test_no_job_is_placed_before_the_nodes_are_in_redis_again(store: Store, parts: Parts, held: Held) -> None:
    outages = Outages(store, parts.presence, parts.sweeper, parts.records, parts.connected)
    assert outages.settled.is_set()
    outages.ended()
    await until(lambda: held.begun)
    assert not outages.settled.is_set()
    held.go_on.set()
    await until(outages.settled.is_set)


async def test_nodes_and_sessions_that_redis_lost_are_written_again(
    store: Store, parts: Parts, outages: Outages
) -> None:
    await registered(parts.connected)
    session = await parts.session()
    await store.line.call("FLUSHALL")
    outages.ended()
    await outages.settled.wait()
    assert await ledger(store, "n1") == (0, 4, 0)
    assert parts.records._doubted_s >= session.noted_at_s


@pytest.mark.expects_surprise("task.failed")
async def test_jobs_are_placed_again_though_redis_went_away_meanwhile(
    parts: Parts, outages: Outages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store refuses them then, and the next end of an outage writes the nodes."""

    async def away() -> None:
        raise RedisAway("gone again")

    monkeypatch.setattr(parts.connected.reassertion, "reassert", away)
    outages.ended()
    assert not outages.settled.is_set()
    await until(outages.settled.is_set)


async def test_silence_proves_nothing_after_an_outage(parts: Parts, outages: Outages) -> None:
    before_s = parts.presence._clock()
    outages.ended()
    assert parts.presence._judge_from >= before_s + 6.0
    assert parts.sweeper._judge_nodes_from >= before_s + 5.0
    await outages.settled.wait()


async def test_a_jump_of_the_clock_that_every_shard_notices_writes_the_nodes_again_once(
    parts: Parts, outages: Outages, held: Held
) -> None:
    before_s = parts.presence._clock()
    for _ in range(3):
        outages.clock_jumped(60_000)
    await until(lambda: held.begun)
    assert parts.presence._judge_from >= before_s + 6.0
    # It has decided itself how long leases are not judged.
    assert parts.sweeper._judge_leases_from == 0.0
    assert outages.settled.is_set()
    held.go_on.set()
    await until(lambda: not len(outages.tasks))
    assert held.begun == 1
    outages.clock_jumped(-60_000)
    await until(lambda: held.begun == 2)
