"""The wiring of access: a change reaches the other instances at once, and only the leader cleans up."""

from collections.abc import AsyncIterator

import pytest

from lingua_scheduler.app import Scheduler
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.credentials import key
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

DAY_MS = 86_400_000
AWAY = key("away", kind=KeyKind.NODE, node_id="away", is_ephemeral=True)


@pytest.fixture
async def scheduler(server: RedisProcess) -> AsyncIterator[Scheduler]:
    async with scheduler_on(server.url) as (found, _):
        yield found


async def test_a_change_is_heard_of_without_looking(server: RedisProcess) -> None:
    known = key("known")
    async with (
        scheduler_on(server.url, auth__refresh_ms=DAY_MS) as (one, _),
        scheduler_on(server.url, auth__refresh_ms=DAY_MS) as (other, store),
    ):
        await store.signals.listening.wait()
        await one.credentials.add(known)
        await until(lambda: other.credentials.find(known.id) is not None)


async def test_a_change_reaches_those_who_let_callers_in(scheduler: Scheduler) -> None:
    access = scheduler._access
    assert access.live.look_at_all in access.credentials.on_changed
    assert access.live.look_at_all in access.logins.on_ended
    assert access.doorkeeper.on_denied == access.auditor.denied
    assert scheduler._teller.expiring == access.expiring


async def test_only_the_leader_watches_nodes_that_stay_away(scheduler: Scheduler) -> None:
    access = scheduler._access
    await access.credentials.add(AWAY)
    await access._end_absent()
    assert list(access.absences._since_ms) == [AWAY.id]
    await access._replace(is_leading=lambda: False)._end_absent()
    assert not access.absences._since_ms
