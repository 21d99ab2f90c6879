"""Handling alarms: what is known, and what the operator's own list forbids."""

import pytest

from lingua_scheduler.domain.watching.handling import AlarmAction, HandleOutcome
from lingua_scheduler.services.watching.alarm_handling import AlarmDesk, ListedPair
from tests.support.schedulers import scheduler_on, settings_with
from tests.support.servers import RedisProcess


async def test_a_pair_that_is_forgotten_is_not_wanted_any_more(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store):
        desk = AlarmDesk(store, scheduler.snapshots, settings_with(pools__wanted=["de:en"]).pools)
        forget = AlarmAction.FORGET
        await store.demand.note([], ["en:ko:speech"])
        assert await desk.handle("pair.lost/en:ko", forget, 0, "") is HandleOutcome.HANDLED
        assert (await store.demand.note([], [])).missed == {}
        assert await desk.handle("pair.lost/en:ko", forget, 0, "") is HandleOutcome.GONE
        assert await desk.handle("moon.fell", AlarmAction.SILENCE, 1_000, "") is HandleOutcome.GONE
        with pytest.raises(ListedPair):
            await desk.handle("pair.lost/de:en", forget, 0, "")
        assert await desk.handle("pair.lost/de:en", AlarmAction.SILENCE, 1_000, "") is HandleOutcome.HANDLED
