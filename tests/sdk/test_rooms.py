"""A client in rooms of a real scheduler."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lingua_sdk import rooms
from lingua_sdk.client import Client, Room, RoomFailed, RoomRefused, SessionFailed
from lingua_sdk.room_events import Caption, Ended, MembersChanged, RoomEvent, RoomReading, TextMessage
from lingua_sdk.rooms import MAX_UNREAD
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import PATIENCE_S, until


def client_of(peers: Field) -> Client:
    return Client(f"127.0.0.1:{peers.port}", "en", "zh")


async def next_of(room: Room, kind: type[RoomEvent]) -> RoomEvent:
    async with asyncio.timeout(PATIENCE_S):
        async for event in room:
            if isinstance(event, kind):
                return event
    raise AssertionError(f"the room ended without {kind.__name__}")


async def seen(room: Room, *names: str) -> None:
    """Until exactly these are listed."""
    async with asyncio.timeout(PATIENCE_S):
        while [one.name for one in room.members] != list(names):
            await next_of(room, MembersChanged)


@asynccontextmanager
async def two_in_a_room(peers: Field) -> AsyncIterator[tuple[Room, Room, Client]]:
    async with client_of(peers) as ann, client_of(peers) as bob:
        first = await ann.create_room(name="Ann", language="pt")
        second = await bob.join_room(first.code, name="Bob")
        await seen(first, "Ann", "Bob")
        await seen(second, "Ann", "Bob")
        yield first, second, bob


async def test_one_creates_a_room_and_another_joins_with_its_code(peers: Field) -> None:
    async with two_in_a_room(peers) as (first, second, bob):
        assert first.code == second.code
        assert first.room_id == second.room_id
        ann, other = second.members
        assert (ann.name, ann.language, ann.role, ann.speaks) == ("Ann", "pt", "host", "en")
        assert (other.session_id, other.language, other.role) == (bob.session_id, "zh", "")


async def test_what_is_refused_is_raised_with_code_and_sentence(peers: Field) -> None:
    async with client_of(peers) as client:
        with pytest.raises(RoomRefused) as refused:
            await client.join_room("999999")
        assert (refused.value.code, str(refused.value)) == ("ROOM_NOT_FOUND", "ROOM_NOT_FOUND: there is no such room")
        with pytest.raises(RoomRefused, match="six digits"):
            await client.join_room("abc")
        # The session goes on.
        room = await client.create_room()
        with pytest.raises(RoomRefused, match="ALREADY_IN_ROOM"):
            await client.join_room(room.code)
    async with two_in_a_room(peers) as (_, second, _):
        for verb in (second.lock, second.close):
            with pytest.raises(RoomRefused) as refused:
                await verb()
            assert refused.value.code == "PERMISSION_DENIED"


async def test_the_host_locks_removes_and_closes(peers: Field) -> None:
    async with two_in_a_room(peers) as (first, second, bob):
        await first.lock()
        async with client_of(peers) as eve:
            with pytest.raises(RoomRefused, match="ROOM_LOCKED"):
                await eve.join_room(first.code)
        await first.lock(locked=False)
        await first.remove(bob.session_id)
        ended = await next_of(second, Ended)
        assert isinstance(ended, Ended)
        assert "removed" in ended.text
        with pytest.raises(StopAsyncIteration):
            await anext(second)
        with pytest.raises(RoomFailed, match="has ended"):
            await second.lock()
        await first.close()
        assert isinstance(await next_of(first, Ended), Ended)
        assert first.is_over


async def test_who_leaves_can_create_another_and_a_second_room_ends_the_first(peers: Field) -> None:
    async with two_in_a_room(peers) as (first, second, bob):
        await second.leave()
        await second.leave()
        await seen(first, "Ann")
        third = await bob.create_room(name="Bob")
        assert third.code != first.code
        fourth = await bob.create_room(name="Bob")
        assert third.is_over
        await seen(fourth, "Bob")


async def test_a_client_that_ends_leaves_its_room(server: RedisProcess) -> None:
    # So long that the end of a session is not what is seen.
    async with scheduler_on(server.url, sessions__grace_ms=3_600_000) as (scheduler, _), field(scheduler.port) as peers:
        async with client_of(peers) as ann:
            first = await ann.create_room(name="Ann")
            async with client_of(peers) as bob:
                await bob.join_room(first.code, name="Bob")
                await seen(first, "Ann", "Bob")
            await seen(first, "Ann")

            async def stay() -> None:
                async with client_of(peers) as cleo:
                    await cleo.join_room(first.code, name="Cleo")
                    await asyncio.Event().wait()

            staying = asyncio.create_task(stay())
            await seen(first, "Ann", "Cleo")
            # As Ctrl-C does.
            staying.cancel()
            await seen(first, "Ann")


async def test_a_member_that_comes_back_is_still_in_its_room(peers: Field) -> None:
    async with two_in_a_room(peers) as (first, second, bob):
        socket = bob._line.socket
        assert socket is not None
        socket.abort()
        await until(lambda: bob.times_resumed == 1, PATIENCE_S)
        assert [one.name for one in first.members] == ["Ann", "Bob"]
        await first.lock()
        async with asyncio.timeout(PATIENCE_S):
            while not (await next_of(second, MembersChanged)).is_locked:  # type: ignore[union-attr]
                pass


async def test_speech_alone_in_a_room_is_heard_by_the_speaker(peers: Field) -> None:
    await peers.node()
    async with client_of(peers) as client:
        room = await client.create_room(name="Ann")
        assert await room.say(b"\x00\x01" * 3200) == 0
        async with asyncio.timeout(PATIENCE_S):
            async for event in room:
                if getattr(event, "is_own", False):
                    break
        await client.finish()
        with pytest.raises(SessionFailed):
            await client.create_room()


async def test_the_end_of_the_session_ends_the_room(peers: Field) -> None:
    async with client_of(peers) as client:
        room = await client.create_room()
        await client.finish()
        async with asyncio.timeout(PATIENCE_S):
            events = [event async for event in room]
        assert all(isinstance(event, MembersChanged) for event in events)
        assert room.is_over


# Without a scheduler


async def ignore(_: object) -> None:
    """What is posted."""


def bare_room(speech: rooms.Speech | None = None) -> Room:
    return Room("483920", "id", RoomReading("own"), speech, ignore)


def numbered(count: int) -> list[TextMessage]:
    return [TextMessage("a", "", str(number), number) for number in range(count)]


async def test_when_it_is_full_captions_are_dropped_the_list_is_replaced_and_others_wait() -> None:
    room = bare_room()
    await room.hear(MembersChanged(()))
    for event in numbered(MAX_UNREAD - 1):
        await room.hear(event)
    await room.hear(Caption("a", "", "x", "en", is_final=False))
    await room.hear(MembersChanged((), is_locked=True))
    waiting = asyncio.create_task(room.hear(TextMessage("a", "", "last", 1)))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert await anext(room) == MembersChanged((), is_locked=True)
    await waiting
    texts = [event.text for event in [await anext(room) for _ in range(MAX_UNREAD)] if isinstance(event, TextMessage)]
    assert texts == [*(event.text for event in numbered(MAX_UNREAD - 1)), "last"]


async def test_one_that_waits_for_a_place_is_let_go_by_the_end() -> None:
    room = bare_room()
    for event in numbered(MAX_UNREAD):
        await room.hear(event)
    waiting = asyncio.create_task(room.hear(TextMessage("a", "", "last", 1)))
    await asyncio.sleep(0)
    await room.end(SessionFailed("gone"))
    await waiting
    assert len([await anext(room) for _ in range(MAX_UNREAD)]) == MAX_UNREAD
    with pytest.raises(SessionFailed, match="gone"):
        await anext(room)


async def test_a_guest_does_not_speak_and_texts_have_a_limit() -> None:
    room = bare_room()
    with pytest.raises(RoomFailed, match="listens only"):
        await room.say(b"\x00\x01")
    for text in ("", "  ", "x" * 2001):
        with pytest.raises(RoomFailed, match="1 to 2000"):
            await room.write(text)


async def test_an_answer_that_does_not_come_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "ANSWER_S", 0.01)
    with pytest.raises(RoomFailed, match="did not answer"):
        await bare_room().lock()
