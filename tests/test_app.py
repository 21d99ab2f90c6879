"""The wiring: what happens to Redis reaches the parts that react to it."""

from collections.abc import AsyncIterator
from typing import get_args

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.protocol.signals import Signal
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess


@pytest.fixture
async def scheduler(server: RedisProcess) -> AsyncIterator[Scheduler]:
    async with scheduler_on(server.url) as (found, _):
        yield found


async def test_every_signal_has_a_handler(scheduler: Scheduler) -> None:
    assert set(scheduler._handlers()) == set(get_args(Signal))


async def test_a_loss_and_an_outage_reach_what_reacts_to_them(scheduler: Scheduler) -> None:
    placer, loss, outages = scheduler._dispatcher._placer, scheduler._data_loss, scheduler._outages
    assert (placer.recall, scheduler.presence.on_lost) == (loss.recall, loss.restore)
    assert placer.settled is outages.settled
    assert scheduler.sweeper.on_jump == outages.clock_jumped
    assert outages.on_change == scheduler.snapshots.build_soon
    assert scheduler._store.line.on_up == outages.ended
