"""Guests of rooms, who listen and are counted, on one instance and on two."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from lingua_scheduler.domain.rooms.guests import GuestCount
from lingua_scheduler.domain.rooms.rooms import RoomName, RoomState
from lingua_scheduler.services.rooms import keeping
from tests.support.clusters import ALSO_ON_A_CLUSTER
from tests.support.instances import instances
from tests.support.room_house import LISTENS, House, Open, RoomReader, opening
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

QUICK = {"sessions__grace_ms": 8000, "instances__beat_ms": 200, "instances__dead_ms": 1500}


@pytest.fixture(params=[1, 2], ids=["one", "two"])
async def open_house(request: pytest.FixtureRequest, server: RedisProcess) -> AsyncIterator[Open]:
    async with opening(server.url, request.param) as opened:
        yield opened


@pytest.fixture
async def house(open_house: Open) -> House:
    return await open_house()


async def looked(house: House, code: str) -> RoomState:
    room = (await house.store.rooms.look(RoomName("default", code))).room
    assert room is not None
    return room


async def counts(*readers: RoomReader, guests: int) -> None:
    await until(lambda: all(reader.guests == guests for reader in readers), what=f"all see {guests} guests")


@ALSO_ON_A_CLUSTER
async def test_a_guest_enters_and_is_counted_not_listed(house: House) -> None:
    a, b, guest = [await house.reader() for _ in range(3)]
    code = await a.create()
    await b.enter(code)
    await guest.enter(code, preferred_lang="PT", speech=False, **LISTENS)
    assert guest.sees(a, b)
    await counts(a, b, guest, guests=1)
    assert a.sees(a, b)
    assert a.members[0]["role"] == "host"
    kinds = [frame["type"] for frame in guest.heard]
    assert kinds.index("room_create_ack") < kinds.index("room_members")
    room = await looked(house, code)
    assert list(room.hearing.values()) == [{"pt": GuestCount(0, 1)}]
    # It hears of members as they do.
    await b.leave()
    await until(lambda: guest.sees(a))
    await guest.leave()
    await counts(a, guests=0)
    assert not (await looked(house, code)).guests
    assert not await house.store.rooms.stay(guest.session_id)


async def test_a_guest_neither_speaks_nor_hosts_nor_sends_voice(house: House) -> None:
    a, guest = await house.reader(), await house.reader()
    code = await a.create()
    await guest.enter(code, **LISTENS)
    audio = base64.b64encode(PACKET * 10).decode()
    await guest.send("audio_chunk", session_id=guest.session_id, seq=0, is_final=True, payload=audio)
    await until(lambda: guest.of("error"))
    assert guest.of("error")[0]["code"] == "PERMISSION_DENIED"
    await guest.send("room_close", room_code=code)
    await guest.send("room_lock", room_code=code, locked=True)
    await guest.say("may I?")
    await guest.send("webrtc_offer", room_code=code, to=a.session_id, sdp={})
    await until(lambda: len(guest.of("room_error")) == 3)
    assert {error["code"] for error in guest.of("room_error")} == {"PERMISSION_DENIED"}
    await a.heartbeat()
    assert not a.of("webrtc_offer")
    assert not a.texts
    # Elsewhere it may speak: it left the room for one of its own.
    await guest.create()
    await counts(a, guests=0)
    assert guest.members[0]["role"] == "host"


async def test_one_that_is_in_the_room_does_not_come_in_again_and_a_guest_may_become_a_member(house: House) -> None:
    a, guest = await house.reader(), await house.reader()
    code = await a.create()
    await a.join(code, **LISTENS)
    await guest.enter(code, **LISTENS)
    await guest.join(code, **LISTENS)
    await until(lambda: a.of("room_error") and guest.of("room_error"))
    for one in (a, guest):
        assert one.of("room_error")[0]["code"] == "ALREADY_IN_ROOM"
    await counts(a, guests=1)
    await guest.enter(code)
    await until(lambda: a.sees(a, guest) and guest.sees(a, guest))
    await counts(a, guests=0)


async def test_a_room_takes_so_many_guests_and_a_locked_one_none(open_house: Open) -> None:
    house = await open_house(rooms__max_guests=2)
    a, first, second, third = [await house.reader() for _ in range(4)]
    code = await a.create()
    await first.enter(code, **LISTENS)
    await second.enter(code, **LISTENS)
    await third.join(code, **LISTENS)
    await until(lambda: third.of("room_error"))
    assert third.of("room_error")[0]["code"] == "ROOM_FULL"
    await first.leave()
    await counts(a, second, guests=1)
    await a.send("room_lock", room_code=code, locked=True)
    await until(lambda: a.heard[-1].get("locked"))
    await third.join(code, **LISTENS)
    await until(lambda: len(third.of("room_error")) == 2)
    assert third.of("room_error")[1]["code"] == "ROOM_LOCKED"


async def test_what_guests_want_is_known_where_members_speak(house: House) -> None:
    a, guest, other = await house.reader(0), await house.reader(1), await house.reader(1)
    code = await a.create()
    await guest.enter(code, preferred_lang="pt", **LISTENS)
    await other.enter(code, preferred_lang="pt", **LISTENS)
    (here,) = house.schedulers[0][0]._rooms.keeper._here

    async def hears(**languages: tuple[int, int]) -> None:
        await until(lambda: list(here.state.hearing.values()) == [languages], what=f"it knows of {languages}")

    await hears(pt=(2, 0))
    before = len(guest.of("room_members"))
    await guest.update(preferred_lang="ja", speech=False)
    await until(lambda: len(guest.of("room_members")) > before)
    await hears(pt=(1, 0), ja=(0, 1))
    await other.send("session_close", session_id=other.session_id, reason="bye")
    await hears(ja=(0, 1))


async def test_a_guest_that_resumes_is_still_in_its_room(house: House) -> None:
    a, guest = await house.reader(0), await house.reader(1)
    code = await a.create()
    await guest.enter(code, preferred_lang="pt", speech=False, **LISTENS)
    await counts(a, guests=1)
    await a.send("room_lock", room_code=code, locked=True)
    guest.cut()
    again = RoomReader(house.http, house.schedulers[0][0].port)
    house.pages.append(again)
    again.code = code
    await again.ready(resume_token=guest.token)
    assert again.session_id == guest.session_id
    await until(lambda: again.sees(a))

    async def is_right() -> bool:
        await house.look()
        room = await looked(house, code)
        return room.guest_count == 1 and list(room.hearing.values()) == [{"pt": GuestCount(0, 1)}]

    await until(is_right)
    await counts(a, guests=1)


async def test_a_guest_without_a_socket_is_counted_for_the_grace_period(open_house: Open) -> None:
    house = await open_house(sessions__grace_ms=700)
    a, guest = await house.reader(), await house.reader()
    await guest.enter(await a.create(), **LISTENS)
    await counts(a, guests=1)
    guest.cut()
    await counts(a, guests=0)


async def test_guests_go_when_the_host_closes_or_the_last_member_leaves(house: House) -> None:
    a, guest = await house.reader(), await house.reader()
    await guest.enter(await a.create(), **LISTENS)
    await a.send("room_close", room_code=a.code)
    await until(lambda: guest.of("room_expired"))
    assert "主持人已关闭房间" in guest.alerts[0]
    await until(lambda: not a.code)
    await guest.enter(await a.create(), **LISTENS)
    await a.leave()
    await until(lambda: len(guest.of("room_expired")) == 2)
    for scheduler, _ in house.schedulers:
        assert not list(scheduler._rooms.keeper._here)


async def test_a_quiet_room_expires_for_guests_too(open_house: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "LOOK_S", 0.0)
    house = await open_house(rooms__expire_ms=4000)
    a, guest = await house.reader(), await house.reader()
    await guest.enter(await a.create(), **LISTENS)

    async def both_told() -> bool:
        await house.look()
        return bool(a.of("room_expired") and guest.of("room_expired"))

    await until(both_told)


@ALSO_ON_A_CLUSTER
async def test_guests_are_counted_again_when_redis_lost_its_data(house: House, server: RedisProcess) -> None:
    a, guest, other = [await house.reader() for _ in range(3)]
    code = await a.create()
    await guest.enter(code, **LISTENS)
    await other.enter(code, **LISTENS)
    await counts(a, guests=2)
    server.flush()

    async def are_counted() -> bool:
        await house.look()
        room = (await house.store.rooms.look(RoomName("default", code))).room
        return room is not None and room.guest_count == 2

    await until(are_counted)
    late = await house.reader()
    await late.enter(code)
    await until(lambda: guest.sees(a, late) and other.sees(a, late))
    await counts(a, guest, other, late, guests=2)
    assert not guest.alerts


async def test_many_guests_cost_one_list_each_and_few_broadcasts(house: House) -> None:
    """What a hundred guests make a member read does not grow with their number: it is told once a second."""
    a = await house.reader()
    code = await a.create()
    guests = [await house.reader() for _ in range(40)]
    for guest in guests:
        await guest.join(code, **LISTENS)
    await until(lambda: all(guest.members for guest in guests))
    await counts(a, *guests, guests=40)
    for guest in guests:
        assert all(len(told["members"]) == 1 for told in guest.of("room_members"))
    (here,) = [here for here in house.schedulers[0][0]._rooms.keeper._here if here.state.name.code == code]
    assert sum(here.guests_want.values()) == len(here.guests)
    (held,) = {len(scheduler._rooms.keeper._here) for scheduler, _ in house.schedulers}
    assert held == 1


async def test_guests_of_a_killed_instance_are_not_counted_any_more(tmp_path: Path, server: RedisProcess) -> None:
    async with instances(tmp_path, server.url, 2, **QUICK) as (here, there), aiohttp.ClientSession() as http:
        a, guest = await RoomReader(http, here.port).ready(), await RoomReader(http, there.port).ready()
        code = await a.create()
        await guest.enter(code, **LISTENS)
        await counts(a, guests=1)
        await there.kill()
        await counts(a, guests=0)
        again = RoomReader(http, here.port)
        again.code = code
        await again.ready(resume_token=guest.token)
        await until(lambda: again.sees(a))
        await counts(a, again, guests=1)
        for page in (a, again):
            await page.close()
