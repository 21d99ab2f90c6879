"""The wiring of rooms: what happens to sessions, speech and letters reaches the parts of rooms."""

from collections.abc import AsyncIterator

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.protocol import bus
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess


@pytest.fixture
async def scheduler(server: RedisProcess) -> AsyncIterator[Scheduler]:
    async with scheduler_on(server.url) as (found, _):
        yield found


async def test_every_letter_about_rooms_has_a_handler(scheduler: Scheduler) -> None:
    letters = {kind for kind in vars(bus).values() if isinstance(kind, type) and issubclass(kind, bus.BusMessage)}
    about_rooms = {kind for kind in letters if kind.__name__.startswith("Room")}
    assert about_rooms
    assert about_rooms <= set(scheduler.mailroom._desk._handlers)


async def test_a_session_that_ends_or_comes_back_reaches_its_room(scheduler: Scheduler) -> None:
    rooms, openings = scheduler._rooms, scheduler._intake.openings
    assert (openings.on_dropped, openings.on_taken) == (rooms.members.dropped, rooms.members.taken)
    assert rooms.histories.resumed in rooms.members.on_resumed
    assert rooms.members.catch_up == rooms.hearing.catch_up


async def test_speech_reaches_captions_and_the_history(scheduler: Scheduler) -> None:
    rooms = scheduler._rooms
    assert rooms.hearing.on_said == rooms.histories.add
    assert rooms.speaking.restore == rooms.keeper.restore
    assert scheduler._rooms.captions._here is rooms.here
