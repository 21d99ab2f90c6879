"""What Redis lost is written again, by every instance, and each loss is signalled once."""

import asyncio
from typing import Any, cast

import pytest

from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.protocol.signals import DataLost
from lingua_scheduler.services.attempts.reports import LostAttempt
from lingua_scheduler.services.recovery import data_loss
from lingua_scheduler.services.recovery.data_loss import DataLoss
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.losses import Loss
from tests.support.connected import registered
from tests.support.fleet import POOL, dispatch, entry, join, ledger, order
from tests.support.recovering import Parts
from tests.support.speech import work
from tests.support.waiting import until


class Told:
    """The channel of signals; keeps what is said."""

    def __init__(self) -> None:
        self.signals: list[object] = []

    def publish(self, signal: object) -> None:
        self.signals.append(signal)


@pytest.fixture
def parts(store: Store) -> Parts:
    return Parts(store)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def loss(parts: Parts, told: Told) -> DataLoss:
    signals = cast("Any", told)
    return DataLoss("i-here", signals, parts.connected.reassertion, parts.records, parts.endings)


async def test_lost_nodes_are_written_again_when_their_pair_is_asked_for_and_others_are_told(
    store: Store, parts: Parts, loss: DataLoss, told: Told
) -> None:
    await registered(parts.connected)
    assert not await loss.recall((POOL,))
    assert not await loss.recall(("sw:de:speech",))
    assert told.signals == []
    parts.connected.reassertion._nothing_lost_until.clear()
    await store.line.call("FLUSHALL")
    assert await loss.recall((POOL,))
    assert await ledger(store, "n1") == (0, 4, 0)
    assert told.signals == [DataLost("i-here")]


async def test_a_loss_that_many_utterances_meet_is_told_to_others_once(
    parts: Parts, loss: DataLoss, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share one look at the nodes; the next look that finds a loss tells of it again."""
    look: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    asked: list[tuple[str, ...]] = []

    async def recall(pools: tuple[str, ...]) -> bool:
        asked.append(pools)
        return await asyncio.shield(look)

    monkeypatch.setattr(parts.connected.reassertion, "recall", recall)
    waiting = [asyncio.create_task(loss.recall((POOL,))) for _ in range(20)]
    await until(lambda: len(asked) == 20)
    look.set_result(True)
    assert await asyncio.gather(*waiting) == [True] * 20
    assert told.signals == [DataLost("i-here")]
    assert await loss.recall((POOL,))
    assert told.signals == [DataLost("i-here")] * 2


async def test_signals_of_a_loss_that_come_while_nodes_are_written_again_cause_one_more_look(
    parts: Parts, loss: DataLoss, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = 0
    go_on = asyncio.Event()

    async def reassert() -> None:
        nonlocal begun
        begun += 1
        await go_on.wait()

    monkeypatch.setattr(parts.connected.reassertion, "reassert", reassert)
    monkeypatch.setattr(data_loss, "REST_S", 0)
    loss.heard(DataLost("i-here"))  # our own
    assert len(loss.tasks) == 0
    for _ in range(20):
        loss.heard(DataLost("another"))
        await asyncio.sleep(0)
    assert (begun, len(loss.tasks)) == (1, 1)
    go_on.set()
    await until(lambda: not len(loss.tasks))
    assert begun == 2
    loss.heard(DataLost("another"))
    await until(lambda: not len(loss.tasks))
    assert begun == 3


async def test_signals_without_end_do_not_make_us_write_our_nodes_without_pause(
    parts: Parts, loss: DataLoss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when each run is over before the next signal comes."""
    begun = 0

    async def reassert() -> None:
        nonlocal begun
        begun += 1

    monkeypatch.setattr(parts.connected.reassertion, "reassert", reassert)
    monkeypatch.setattr(data_loss, "REST_S", 3_600)
    for _ in range(50):
        loss.heard(DataLost("another"))
        await asyncio.sleep(0)
    assert (begun, len(loss.tasks)) == (1, 1)
    await loss.tasks.close()


async def test_restoring_writes_nodes_again_and_makes_sessions_due(store: Store, parts: Parts, loss: DataLoss) -> None:
    await registered(parts.connected)
    session = await parts.session()
    await store.line.call("FLUSHALL")
    await loss.restore()
    assert await ledger(store, "n1") == (0, 4, 0)
    # Sessions follow in batches (`renew`).
    assert parts.records._doubted_s >= session.noted_at_s


async def test_restoring_finds_results_that_were_lost_on_the_way(store: Store, parts: Parts, loss: DataLoss) -> None:
    joined = await join(store, entry("n1", max_jobs=2))
    over, running = [
        parts.assignments.open((await dispatch(store, order(serial)))[0], work(), "elsewhere") for serial in range(2)
    ]
    await store.jobs.end(over.attempt, joined.epoch, JobEvent.FINISH)
    await loss.restore()
    assert (over.report, running.report) == (LostAttempt(Loss.RESULT_LOST), None)
