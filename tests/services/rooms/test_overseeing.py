"""Operators find rooms on every instance, and close them; what is over is not shown."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, RoomState
from lingua_scheduler.services.rooms import overseeing
from lingua_scheduler.services.rooms.overseeing import RoomOverseer, languages_of
from tests.support.field_room import RoomPage
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until


@pytest.fixture
async def schedulers(server: RedisProcess) -> AsyncIterator[list[Scheduler]]:
    async with scheduler_on(server.url) as (one, _), scheduler_on(server.url) as (other, _):
        yield [one, other]


@pytest.fixture
async def pages(schedulers: list[Scheduler]) -> AsyncIterator[list[RoomPage]]:
    """Two at each."""
    async with aiohttp.ClientSession() as http:
        found = [await RoomPage(http, schedulers[number % 2].port).ready() for number in range(4)]
        yield found
        for page in found:
            await page.close()


async def noted(schedulers: list[Scheduler]) -> list[RoomOverseer]:
    for scheduler in schedulers:
        await scheduler._rooms.overseer.note()
    return [scheduler._rooms.overseer for scheduler in schedulers]


async def ids(overseer: RoomOverseer, tenant: str | None = None) -> list[str]:
    return [room.state.room_id for room in (await overseer.page(tenant, 0, 10)).rooms]


async def test_every_instance_lists_the_rooms_of_all_and_finds_each(
    schedulers: list[Scheduler], pages: list[RoomPage]
) -> None:
    for page in pages[:3]:
        await page.create()
    await pages[3].enter(pages[0].code)
    one, other = await noted(schedulers)
    mine = [page.of("room_create_ack")[0]["room_id"] for page in pages]
    assert mine[0] == mine[3]
    assert sorted(await ids(one)) == sorted(await ids(other)) == sorted(mine[:3])
    found = await other.find(mine[0], None)
    assert found is not None
    assert [member.session_id for member in found.state.members] == [pages[0].session_id, pages[3].session_id]
    assert found.opened_ms == found.state.members[0].joined_us // 1000
    assert await one.find("none", None) is None


async def test_a_room_that_is_over_is_not_shown_although_it_is_still_listed(
    schedulers: list[Scheduler], pages: list[RoomPage]
) -> None:
    await pages[0].create()
    (room_id,) = await ids((await noted(schedulers))[0])
    overseer = schedulers[1]._rooms.overseer
    await pages[0].leave()

    async def is_over() -> bool:
        return await ids(overseer) == []

    await until(is_over)
    assert await overseer.find(room_id, None) is None
    assert await overseer.close(room_id, None) is False


async def test_a_room_is_closed_from_an_instance_that_has_none_of_it(
    schedulers: list[Scheduler], pages: list[RoomPage]
) -> None:
    code = await pages[0].create()
    await pages[2].enter(code)
    (room_id,) = await ids((await noted(schedulers))[1])
    assert await schedulers[1]._rooms.overseer.close(room_id, None) is True
    await until(lambda: pages[0].of("room_expired") and pages[2].of("room_expired"))
    for page in (pages[0], pages[2]):
        assert "operator" in page.of("room_expired")[0]["message"]
    assert await schedulers[0]._rooms.overseer.close(room_id, None) is False


async def test_members_at_the_instance_that_closes_it_are_told(
    schedulers: list[Scheduler], pages: list[RoomPage]
) -> None:
    await pages[0].create()
    (room_id,) = await ids((await noted(schedulers))[0])
    assert await schedulers[0]._rooms.overseer.close(room_id, None) is True
    await until(lambda: pages[0].of("room_expired"))
    assert len(schedulers[0]._rooms.overseer._here) == 0


async def test_a_tenant_has_its_own_rooms_alone_also_behind_many_of_others(
    schedulers: list[Scheduler], pages: list[RoomPage], monkeypatch: pytest.MonkeyPatch
) -> None:
    await pages[0].create()
    await pages[1].create()
    (one, _) = await noted(schedulers)
    assert await ids(one, "default") == await ids(one)
    assert await ids(one, "acme") == []
    (room_id, _) = await ids(one)
    assert await one.find(room_id, "acme") is None
    assert await one.close(room_id, "acme") is False
    monkeypatch.setattr(overseeing, "MOST_LOOKED_AT", 1)
    page = await one.page("acme", 0, 1)
    assert page.rooms == []
    assert page.next_before_ms > 0


def test_languages_are_counted_by_member() -> None:
    members = [Participant(str(n), "", AboutMember(language=tag), 0) for n, tag in enumerate(("ja", "en", "ja", ""))]
    room = RoomState(RoomName("default", "483920"), "id", "r", 1, 0, False, tuple(members))
    assert languages_of(room) == {"en": 1, "ja": 2}
