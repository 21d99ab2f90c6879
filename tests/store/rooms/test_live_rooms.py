"""The list of live rooms: found by all instances, and free of what is over."""

from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, RoomState
from lingua_scheduler.store.rooms import live_rooms
from lingua_scheduler.store.rooms.live_rooms import KEEP_MS, TOGETHER
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock


def room(number: int, opened_ms: int, tenant: str = "acme") -> RoomState:
    member = Participant("s-1", "i-here 1-1", AboutMember(), opened_ms * 1000)
    return RoomState(RoomName(tenant, str(100_000 + number)), f"id-{number}", "r", 1, 0, False, (member,))


async def listed(store: Store, before_ms: int = 0, count: int = 10) -> tuple[list[str], int]:
    found = await store.live_rooms.page(before_ms, count)
    return [one.room_id for one in found.rooms], found.next_before_ms


async def test_rooms_are_listed_newest_first_by_pages(store: Store) -> None:
    await store.live_rooms.note(room(number, 1_000 + number) for number in range(5))
    assert await listed(store) == ([f"id-{number}" for number in (4, 3, 2, 1, 0)], 0)
    assert await listed(store, 0, 2) == (["id-4", "id-3"], 1_003)
    assert await listed(store, 1_003, 2) == (["id-2", "id-1"], 1_001)
    assert await listed(store, 1_001, 2) == (["id-0"], 0)


async def test_rooms_of_the_same_moment_are_on_the_same_page(store: Store) -> None:
    await store.live_rooms.note([*(room(number, 2_000) for number in range(3)), room(3, 1_000)])
    found, next_ms = await listed(store, 0, 2)
    assert sorted(found) == ["id-0", "id-1", "id-2"]
    assert await listed(store, next_ms, 2) == (["id-3"], 0)


async def test_a_room_is_found_by_its_id_and_keeps_when_it_was_opened(store: Store) -> None:
    await store.live_rooms.note([room(1, 1_000)])
    # The one that opened it has left.
    await store.live_rooms.note([room(1, 9_000)])
    assert await store.live_rooms.find("id-1") == ("id-1", RoomName("acme", "100001"), 1_000)
    assert await store.live_rooms.find("id-2") is None


async def test_what_is_not_renewed_is_removed(store: Store, clock: Clock) -> None:
    await store.live_rooms.note([room(1, 1_000), room(2, 2_000)])
    clock.pass_ms(KEEP_MS // 2)
    await store.live_rooms.note([room(2, 2_000)])
    clock.pass_ms(KEEP_MS // 2)
    await store.live_rooms.note([room(3, 3_000)])
    assert (await listed(store))[0] == ["id-3", "id-2"]
    assert await store.live_rooms.find("id-1") is None
    for key in store.keys.live_rooms.values():
        assert 0 < await store.line.call("PTTL", key) <= KEEP_MS


async def test_more_rooms_than_one_call_takes_are_noted(store: Store) -> None:
    most = TOGETHER + 5
    await store.live_rooms.note(room(number, 1_000 + number) for number in range(most))
    assert len((await listed(store, 0, most))[0]) == most


async def test_a_room_without_members_and_what_cannot_be_read_are_not_listed(store: Store) -> None:
    await store.live_rooms.note([room(1, 1_000)._replace(members=()), room(2, 2_000)])
    keys = store.keys.live_rooms
    await store.line.call("ZADD", keys["opened"], "inf", "id-x", "5", "id-y")
    await store.line.call("HSET", keys["named"], "id-x", "no name")
    assert await listed(store) == (["id-2"], 0)
    assert store.unreadable.lately == ["named"]
    # Each page ends before the next one begins.
    before_ms, pages = 0, 0
    while pages == 0 or before_ms:
        _, before_ms = await listed(store, before_ms, 1)
        pages += 1
    assert pages <= 5
    assert live_rooms.MOST_TIES > 1
