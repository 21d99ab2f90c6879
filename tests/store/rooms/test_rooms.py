"""Rooms in Redis: every outcome, on every server."""

import asyncio

import pytest

from lingua_scheduler.domain.rooms.guests import GuestCount, GuestsAt
from lingua_scheduler.domain.rooms.rooms import (
    AboutMember,
    Participant,
    RoomName,
    RoomOutcome,
    RoomState,
    Stay,
)
from lingua_scheduler.store.rooms.rooms import ENDED_MS, MAX_SAID, RoomLimits, RoomReply
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock

NAME = RoomName("default", "483920")
LIMITS = RoomLimits(max_members=3, expire_ms=60_000)


def member(session_id: str, **about: object) -> Participant:
    return Participant(session_id, f"here 1-{session_id}", AboutMember(**about), 0)  # type: ignore[arg-type]


def room_of(reply: RoomReply) -> RoomState:
    assert reply.room is not None, reply
    return reply.room


def ids(reply: RoomReply) -> list[str]:
    return [one.session_id for one in room_of(reply).members]


async def created(store: Store, *others: str) -> RoomState:
    reply = await store.rooms.create(NAME, "id-1", "record-1", member("a", name="Ann"), LIMITS)
    for other in others:
        reply = await store.rooms.join(NAME, member(other), LIMITS)
    return room_of(reply)


async def left_in_redis(store: Store) -> list[str]:
    keys = store.keys.room_of(str(NAME)).values()
    return [key.rpartition(":")[2] for key in keys if await store.line.call("EXISTS", key)]


async def test_a_room_has_its_members_in_the_order_they_joined(store: Store) -> None:
    room = await created(store, "c", "b")
    assert [one.session_id for one in room.members] == ["a", "c", "b"]
    assert len({one.joined_us for one in room.members}) == 3
    assert room.members[0].about.name == "Ann"
    assert room.members[0].owner == "here 1-a"
    assert (room.room_id, room.record, room.version) == ("id-1", "record-1", 3)


async def test_a_code_in_use_is_taken_and_a_repeated_call_is_not(store: Store) -> None:
    await created(store)
    again = await store.rooms.create(NAME, "id-1", "record-1", member("a"), LIMITS)
    assert again.outcome is RoomOutcome.CREATED
    assert (await store.rooms.create(NAME, "id-2", "r", member("z"), LIMITS)).outcome is RoomOutcome.TAKEN
    elsewhere = await store.rooms.create(RoomName("acme", "483920"), "id-3", "r", member("z"), LIMITS)
    assert elsewhere.outcome is RoomOutcome.CREATED


async def test_of_many_who_create_at_once_one_gets_the_code(store: Store) -> None:
    replies = await asyncio.gather(
        *(store.rooms.create(NAME, f"id-{n}", "r", member(f"s{n}"), LIMITS) for n in range(20))
    )
    assert [reply.outcome for reply in replies].count(RoomOutcome.CREATED) == 1


async def test_a_room_is_joined_once_and_never_beyond_its_limit(store: Store) -> None:
    assert (await store.rooms.join(NAME, member("b"), LIMITS)).outcome is RoomOutcome.UNKNOWN
    await created(store)
    replies = await asyncio.gather(*(store.rooms.join(NAME, member(f"s{n}"), LIMITS) for n in range(10)))
    outcomes = [reply.outcome for reply in replies]
    assert outcomes.count(RoomOutcome.JOINED) == 2
    assert outcomes.count(RoomOutcome.FULL) == 8
    assert (await store.rooms.join(NAME, member("a"), LIMITS)).outcome is RoomOutcome.ALREADY


async def test_with_the_last_member_the_room_ends_and_its_code_rests(store: Store) -> None:
    await created(store, "b")
    left = await store.rooms.leave(NAME, "a", "here 1-a")
    assert left.outcome is RoomOutcome.LEFT
    assert ids(left) == ["b"]
    assert (await store.rooms.leave(NAME, "a", "here 1-a")).outcome is RoomOutcome.UNKNOWN
    assert (await store.rooms.leave(NAME, "b", "here 1-b")).outcome is RoomOutcome.ENDED
    assert await left_in_redis(store) == ["facts"]
    assert 0 < await store.line.call("PTTL", store.keys.room_of(str(NAME))["facts"]) <= ENDED_MS
    assert (await store.rooms.join(NAME, member("c"), LIMITS)).outcome is RoomOutcome.UNKNOWN
    assert (await store.rooms.create(NAME, "id-2", "r", member("c"), LIMITS)).outcome is RoomOutcome.TAKEN
    assert await store.rooms.look(NAME) == (RoomOutcome.ENDED, None, "left")


async def test_a_member_whose_session_moved_is_not_removed_by_its_former_owner(store: Store) -> None:
    room = await created(store, "b")
    moved = await store.rooms.move(Stay(NAME, room.room_id), "b", "there 2-7")
    assert room_of(moved).members[1].instance == "there"
    assert room_of(moved).version == room.version + 1
    assert (await store.rooms.leave(NAME, "b", "here 1-b")).outcome is RoomOutcome.MOVED
    again = await store.rooms.move(Stay(NAME, room.room_id), "b", "there 2-7")
    assert room_of(again).version == room.version + 1
    assert (await store.rooms.move(Stay(NAME, "another id"), "b", "x 1-1")).outcome is RoomOutcome.UNKNOWN
    assert (await store.rooms.move(Stay(NAME, room.room_id), "gone", "x 1-1")).outcome is RoomOutcome.UNKNOWN


async def test_wishes_are_kept_of_members_alone(store: Store) -> None:
    await created(store, "b", "c")
    await store.rooms.wish(NAME, "b", "a", wants_voice=False)
    noted = room_of(await store.rooms.wish(NAME, "b", "c", wants_voice=True))
    assert noted.members[1].wishes == {"a": False, "c": True}
    await store.rooms.leave(NAME, "c", "here 1-c")
    noted = room_of(await store.rooms.wish(NAME, "b", "a", wants_voice=True))
    assert noted.members[1].wishes == {"a": True}
    for listener, speaker in (("b", "c"), ("c", "b")):
        reply = await store.rooms.wish(NAME, listener, speaker, wants_voice=False)
        assert reply.outcome is RoomOutcome.UNKNOWN


async def test_the_host_locks_removes_and_closes(store: Store) -> None:
    await created(store, "b", "c")
    for host in ("stranger", "b"):
        assert (await store.rooms.host(NAME, host, "lock")).outcome is RoomOutcome.DENIED
    assert room_of(await store.rooms.host(NAME, "a", "lock")).is_locked
    assert ids(await store.rooms.host(NAME, "a", "remove", "b")) == ["a", "c"]
    assert (await store.rooms.join(NAME, member("b"), LIMITS)).outcome is RoomOutcome.LOCKED
    assert not room_of(await store.rooms.host(NAME, "a", "unlock")).is_locked
    await store.rooms.join(NAME, member("b"), LIMITS)
    await store.rooms.leave(NAME, "a", "here 1-a")
    assert (await store.rooms.host(NAME, "c", "remove", "nobody")).outcome is RoomOutcome.UNKNOWN
    assert (await store.rooms.host(NAME, "c", "close")).outcome is RoomOutcome.ENDED
    assert (await store.rooms.host(NAME, "c", "close")).outcome is RoomOutcome.UNKNOWN
    assert await left_in_redis(store) == ["facts"]


async def test_a_quiet_room_expires_and_speech_or_a_join_keeps_it(store: Store, clock: Clock) -> None:
    room = await created(store)
    clock.pass_ms(LIMITS.expire_ms - 1)
    assert (await store.rooms.hold(room, room.members, "f", LIMITS, has_spoken=False)).outcome is RoomOutcome.SAME
    room = room_of(await store.rooms.join(NAME, member("b"), LIMITS))
    clock.pass_ms(LIMITS.expire_ms - 1)
    assert (await store.rooms.hold(room, room.members, "f", LIMITS, has_spoken=True)).outcome is RoomOutcome.SAME
    clock.pass_ms(LIMITS.expire_ms)
    assert (await store.rooms.join(NAME, member("c"), LIMITS)).outcome is RoomOutcome.UNKNOWN
    expired = await store.rooms.hold(room, room.members, "f", LIMITS, has_spoken=False)
    assert expired.outcome is RoomOutcome.EXPIRED
    assert ids(expired) == ["a", "b"]
    assert await store.rooms.hold(room, room.members, "f", LIMITS, has_spoken=True) == (
        RoomOutcome.ENDED,
        None,
        "expired",
    )


async def test_a_room_that_redis_lost_is_written_again_by_all_that_have_members(store: Store) -> None:
    room = await created(store, "b", "c")
    room = room_of(await store.rooms.wish(NAME, "b", "a", wants_voice=False))
    for key in store.keys.room_of(str(NAME)).values():
        await store.line.call("DEL", key)
    first, second, third = room.members
    known = room._replace(members=(second, third))
    there = await store.rooms.hold(known, [second], "fresh-1", LIMITS, has_spoken=False)
    assert there.outcome is RoomOutcome.RESTORED
    assert ids(there) == ["b", "c"]
    await store.rooms.leave(NAME, "c", "here 1-c")
    here = await store.rooms.hold(room, [first], "fresh-2", LIMITS, has_spoken=False)
    assert here.outcome is RoomOutcome.RESTORED
    restored = room_of(here)
    assert restored.members == (first, second)
    assert restored.record == "fresh-1"
    assert restored.version > room.version
    # Under the record that is known, one that is missing was removed.
    held = await store.rooms.hold(restored, [first, third], "fresh-3", LIMITS, has_spoken=False)
    assert held.outcome is RoomOutcome.SAME
    assert ids(await store.rooms.look(NAME)) == ["a", "b"]
    changed = await store.rooms.hold(room_of(there), [second], "fresh-4", LIMITS, has_spoken=False)
    assert changed.outcome is RoomOutcome.OPEN
    assert ids(changed) == ["a", "b"]


@pytest.mark.parametrize("lost", ["facts", "members", "joined", "holders"])
async def test_a_room_of_which_redis_lost_one_key_is_written_again_by_all_that_have_members(
    store: Store, lost: str
) -> None:
    """What is left of it is no room: who looked at it would take its members for removed."""
    room = await created(store, "b", "c")
    await store.line.call("DEL", store.keys.room_of(str(NAME))[lost])
    assert (await store.rooms.look(NAME)).outcome is RoomOutcome.UNKNOWN
    assert (await store.rooms.move(Stay(NAME, "id-1"), "b", "there 1-b")).outcome is RoomOutcome.UNKNOWN
    first, second, third = room.members
    here = await store.rooms.hold(room._replace(members=(first, second)), [first], "fresh-1", LIMITS, has_spoken=False)
    assert here.outcome is RoomOutcome.RESTORED
    # Without its facts the others are still told apart.
    assert room_of(here).members == (room.members if lost == "facts" else (first, second))
    there = await store.rooms.hold(room, [third], "fresh-2", LIMITS, has_spoken=False)
    assert there.outcome is RoomOutcome.RESTORED
    assert room_of(there).members == room.members
    assert room_of(there).record == "fresh-1"
    held = await store.rooms.hold(room_of(there), [third], "fresh-3", LIMITS, has_spoken=False)
    assert held.outcome is RoomOutcome.SAME


@pytest.mark.parametrize("lost", ["wishes", "guests"])
async def test_wishes_and_guests_that_redis_lost_are_noticed_by_who_knew_them(store: Store, lost: str) -> None:
    room = await created(store, "b")
    await store.rooms.wish(NAME, "b", "a", wants_voice=False)
    room = room_of(await store.rooms.note_guests(NAME, room.room_id, guests("here", en=(1, 0))))
    assert (await store.rooms.hold(room, room.members, "r", LIMITS, has_spoken=False)).outcome is RoomOutcome.SAME
    await store.line.call("DEL", store.keys.room_of(str(NAME))[lost])
    restored = await store.rooms.hold(room, room.members, "fresh", LIMITS, has_spoken=False)
    assert restored.outcome is RoomOutcome.RESTORED
    assert room_of(restored).members == room.members
    assert len(room_of(restored).guests) == (lost == "wishes")


async def test_nothing_of_a_room_of_which_redis_lost_the_facts_is_in_the_next_one(store: Store) -> None:
    await created(store, "b")
    await store.line.call("DEL", store.keys.room_of(str(NAME))["facts"])
    assert ids(await store.rooms.create(NAME, "id-2", "r", member("z"), LIMITS)) == ["z"]


async def test_a_code_that_another_room_got_is_not_taken_from_it(store: Store) -> None:
    room = await created(store)
    for key in store.keys.room_of(str(NAME)).values():
        await store.line.call("DEL", key)
    assert (await store.rooms.look(NAME)).outcome is RoomOutcome.UNKNOWN
    await store.rooms.create(NAME, "id-2", "r", member("z"), LIMITS)
    assert (await store.rooms.hold(room, room.members, "f", LIMITS, has_spoken=False)).outcome is RoomOutcome.ENDED
    assert ids(await store.rooms.look(NAME)) == ["z"]


async def test_nothing_of_a_room_stays_for_ever(store: Store) -> None:
    await created(store, "b")
    await store.rooms.wish(NAME, "b", "a", wants_voice=False)
    await store.rooms.note_stay("b", Stay(NAME, "id-1"), LIMITS.keep_ms)
    await store.rooms.note_guests(NAME, "id-1", guests("here", en=(1, 0)))
    keys = [*store.keys.room_of(str(NAME)).values(), store.keys.stay("b")]
    for key in keys:
        assert 0 < await store.line.call("PTTL", key) <= LIMITS.keep_ms, key


async def test_a_session_is_found_in_its_room_until_it_leaves(store: Store) -> None:
    stay = Stay(NAME, "id-1")
    await store.rooms.note_stay("a", stay, 60_000)
    assert await store.rooms.stay("a") == stay
    assert await store.rooms.renew_stay("a", 90_000)
    assert await store.line.call("PTTL", store.keys.stay("a")) > 60_000
    await store.rooms.forget_stay("a")
    assert await store.rooms.stay("a") is None
    assert not await store.rooms.renew_stay("a", 60_000)


async def test_what_cannot_be_read_of_a_member_does_not_hide_the_room(store: Store) -> None:
    await created(store, "b")
    keys = store.keys.room_of(str(NAME))
    await store.line.call("HSET", keys["members"], "a", "rubbish")
    await store.line.call("HSET", keys["facts"], "active_ms", "rubbish")
    looked = room_of(await store.rooms.look(NAME))
    assert [one.about.name for one in looked.members] == ["", ""]
    assert looked.active_ms == 0


async def said(store: Store, room: RoomState, session: str, index: int, known: int = 0) -> tuple[RoomOutcome, int]:
    return await store.rooms.said(room, session, index, known, LIMITS)


async def test_utterances_are_numbered_in_the_order_of_the_room(store: Store) -> None:
    room = await created(store, "b")
    assert await said(store, room, "a", 0) == (RoomOutcome.SAID, 1)
    assert await said(store, room, "b", 0) == (RoomOutcome.SAID, 2)
    # Its speaker went on at another instance, which translates it again.
    assert await said(store, room, "a", 0) == (RoomOutcome.AGAIN, 1)
    assert await said(store, room, "a", 1) == (RoomOutcome.SAID, 3)
    assert room_of(await store.rooms.look(NAME)).seq == 3


async def test_numbers_go_on_after_redis_has_lost_them(store: Store) -> None:
    room = await created(store)
    await said(store, room, "a", 0)
    await store.line.call("DEL", *store.keys.room_said(str(NAME)).values())
    restored = await store.rooms.hold(room, room.members, "record-2", LIMITS, has_spoken=False)
    assert restored.outcome is RoomOutcome.RESTORED
    assert await said(store, room, "a", 1, known=7) == (RoomOutcome.SAID, 8)


async def test_one_who_left_is_not_numbered_nor_is_one_of_another_room(store: Store) -> None:
    room = await created(store, "b")
    await store.rooms.leave(NAME, "b", "here 1-b")
    assert await said(store, room, "b", 0) == (RoomOutcome.UNKNOWN, 0)
    assert await said(store, room._replace(room_id="id-0"), "a", 0) == (RoomOutcome.UNKNOWN, 0)


async def test_speech_keeps_a_room_open(store: Store, clock: Clock) -> None:
    room = await created(store)
    clock.pass_ms(LIMITS.expire_ms - 1)
    await said(store, room, "a", 0)
    clock.pass_ms(LIMITS.expire_ms - 1)
    assert (
        await store.rooms.hold(room, room.members, "r", LIMITS, has_spoken=False)
    ).outcome is not RoomOutcome.EXPIRED


async def test_only_the_latest_utterances_are_remembered(store: Store) -> None:
    room = await created(store)
    for index in range(MAX_SAID + 1):
        await said(store, room, "a", index)
    assert (await said(store, room, "a", 1))[0] is RoomOutcome.AGAIN
    assert (await said(store, room, "a", 0))[0] is RoomOutcome.SAID
    assert await store.line.call("ZCARD", store.keys.room_said(str(NAME))["said"]) == MAX_SAID


def guests(instance: str, **counts: tuple[int, int]) -> GuestsAt:
    return GuestsAt(instance, "1", {tag: GuestCount(*count) for tag, count in counts.items()})


async def test_a_member_changes_what_it_says_of_itself(store: Store) -> None:
    room = await created(store, "b")
    about = AboutMember(name="Bo", language="pt", speech=False, src_lang="ja")
    changed = room_of(await store.rooms.update(NAME, "b", "here 1-b", about))
    assert changed.members[1].about == about
    assert changed.version == room.version + 1
    again = await store.rooms.update(NAME, "b", "here 1-b", about)
    assert again.outcome is RoomOutcome.NOTED
    assert room_of(again).version == changed.version
    assert (await store.rooms.update(NAME, "b", "there 1-1", about)).outcome is RoomOutcome.MOVED
    assert (await store.rooms.update(NAME, "gone", "here 1-b", about)).outcome is RoomOutcome.UNKNOWN


async def test_each_instance_notes_its_guests(store: Store) -> None:
    here, there = guests("here", en=(2, 1)), guests("there", en=(1, 0), pt=(0, 3))
    assert (await store.rooms.let_guest_in(NAME, here, 10, LIMITS)).outcome is RoomOutcome.UNKNOWN
    room = await created(store)
    assert (await store.rooms.let_guest_in(NAME, here, 10, LIMITS)).outcome is RoomOutcome.NOTED
    noted = room_of(await store.rooms.note_guests(NAME, room.room_id, there))
    assert sorted(noted.guests) == [here, there]
    assert [one.session_id for one in noted.members] == ["a"]
    assert noted.version == room.version + 2
    assert room_of(await store.rooms.note_guests(NAME, room.room_id, there)).version == noted.version
    left = room_of(await store.rooms.note_guests(NAME, room.room_id, guests("here")))
    assert left.guests == (there,)
    assert (await store.rooms.note_guests(NAME, "another id", here)).outcome is RoomOutcome.UNKNOWN
    assert 0 < await store.line.call("PTTL", store.keys.room_of(str(NAME))["guests"]) <= LIMITS.keep_ms


async def test_guests_come_up_to_a_limit_and_not_into_a_locked_or_quiet_room(store: Store, clock: Clock) -> None:
    room = await created(store)
    await store.rooms.note_guests(NAME, room.room_id, guests("there", en=(3, 0)))
    assert (await store.rooms.let_guest_in(NAME, guests("here", en=(2, 0)), 4, LIMITS)).outcome is RoomOutcome.FULL
    await store.rooms.host(NAME, "a", "lock")
    assert (await store.rooms.let_guest_in(NAME, guests("here", en=(1, 0)), 4, LIMITS)).outcome is RoomOutcome.LOCKED
    # One that was there before may come back.
    assert room_of(await store.rooms.note_guests(NAME, room.room_id, guests("here", en=(2, 0)))).guest_count == 5
    await store.rooms.host(NAME, "a", "unlock")
    clock.pass_ms(LIMITS.expire_ms)
    assert (await store.rooms.let_guest_in(NAME, guests("here"), 9, LIMITS)).outcome is RoomOutcome.UNKNOWN


async def test_with_the_room_its_guests_end(store: Store) -> None:
    room = await created(store)
    await store.rooms.note_guests(NAME, room.room_id, guests("there", en=(3, 0)))
    assert (await store.rooms.leave(NAME, "a", "here 1-a")).outcome is RoomOutcome.ENDED
    assert await left_in_redis(store) == ["facts"]


@pytest.mark.parametrize("how", ["left", "closed", "expired"])
async def test_nothing_but_why_is_kept_of_a_room_that_has_ended(store: Store, clock: Clock, how: str) -> None:
    room = await created(store)
    await said(store, room, "a", 0)
    match how:
        case "left":
            await store.rooms.leave(NAME, "a", "here 1-a")
        case "closed":
            await store.rooms.host(NAME, "a", "close")
        case "expired":
            clock.pass_ms(LIMITS.expire_ms)
            await store.rooms.hold(room, room.members, "r", LIMITS, has_spoken=False)
    keys = {*store.keys.room_of(str(NAME)).values(), *store.keys.room_said(str(NAME)).values()}
    left = [key.rpartition(":")[2] for key in keys if await store.line.call("EXISTS", key)]
    assert left == ["facts"]
