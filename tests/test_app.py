"""What the wiring does once, however many ask for it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.protocol.signals import DataLost
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

POOLS = ("en:zh:speech",)


@pytest.fixture
async def scheduler(server: RedisProcess) -> AsyncIterator[Scheduler]:
    async with scheduler_on(server.url) as (found, _):
        yield found


async def test_a_loss_that_many_utterances_meet_is_told_to_others_once(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share one look at the nodes; the next look that finds a loss tells of it again."""
    told: list[object] = []
    look: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    asked: list[tuple[str, ...]] = []

    async def recall(pools: tuple[str, ...]) -> bool:
        asked.append(pools)
        return await asyncio.shield(look)

    monkeypatch.setattr(scheduler._registry, "recall", recall)
    monkeypatch.setattr(scheduler._store.signals, "publish", told.append)
    waiting = [asyncio.create_task(scheduler._recall(POOLS)) for _ in range(20)]
    await until(lambda: len(asked) == 20)
    look.set_result(True)
    assert await asyncio.gather(*waiting) == [True] * 20
    assert [signal for signal in told if isinstance(signal, DataLost)] == [DataLost(scheduler.instance)]
    assert await scheduler._recall(POOLS)
    assert sum(isinstance(signal, DataLost) for signal in told) == 2


async def test_signals_of_a_loss_that_come_while_nodes_are_written_again_cause_one_more_look(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = 0
    go_on = asyncio.Event()

    async def reassert() -> None:
        nonlocal begun
        begun += 1
        await go_on.wait()

    monkeypatch.setattr(scheduler._registry, "reassert", reassert)
    scheduler._data_lost(DataLost(scheduler.instance))  # our own
    for _ in range(20):
        scheduler._data_lost(DataLost("another"))
        await asyncio.sleep(0)
    assert begun == 1
    go_on.set()
    await until(lambda: begun == 2)
    await until(lambda: scheduler._looking is not None and scheduler._looking.done())
    assert begun == 2
    scheduler._data_lost(DataLost("another"))
    await until(lambda: begun == 3)
