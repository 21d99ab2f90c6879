"""One chronicle for the fleet: the leader writes, all read the same, and nothing is told twice or lost on the way."""

import pytest

from lingua_scheduler.domain.watching.chronicle import FleetMemory
from lingua_scheduler.domain.watching.figures import Figures
from lingua_scheduler.domain.watching.picture import Event
from lingua_scheduler.services.watching.chronicle import Chronicle
from lingua_scheduler.store.store import Store
from lingua_scheduler.store.watching.chronicle import ChronicleStore
from tests.domain.watching.test_chronicle import event
from tests.support.pictures import alarm, moment

# As plain values: a limit that changes is noticed.
KEPT_MS = 60_000
SILENT_S = 30.0


class Instance:
    """One instance with a chronicle of its own, on the same Redis."""

    def __init__(self, store: Store, name: str, *, is_leading: bool = False) -> None:
        self.name = name
        self.is_leading = is_leading
        self.now_s = 0.0
        kept = ChronicleStore(store.line, store.keys, store.scripts, store.unreadable)
        self.chronicle = Chronicle(kept, lambda: self.is_leading, lambda: self.now_s)

    async def turn(self, at_ms: int, *own: Event, alarms: list[str] | None = None) -> list[Event]:
        memory = FleetMemory(at_ms=at_ms, made_by=self.name, alarms=[alarm(code) for code in alarms or ()])
        return await self.chronicle.turn(moment(at_ms), own, memory)


@pytest.fixture
def leader(store: Store) -> Instance:
    return Instance(store, "i1", is_leading=True)


@pytest.fixture
def follower(store: Store) -> Instance:
    return Instance(store, "i2")


async def test_all_show_what_the_leader_saw(leader: Instance, follower: Instance) -> None:
    assert await leader.turn(1_000, event(1_000)) == [event(1_000)]
    assert await follower.turn(1_500, event(1_500)) == [event(1_000)]
    assert await follower.turn(2_500) == []
    assert list(leader.chronicle.events) == list(follower.chronicle.events) == [event(1_000)]
    assert [one.at_ms for one in follower.chronicle.history] == [1_000]


async def test_what_happens_again_soon_is_told_again(leader: Instance) -> None:
    assert await leader.turn(1_000, event(1_000)) == [event(1_000)]
    assert await leader.turn(2_000, event(2_000)) == [event(2_000)]


async def test_the_leader_writes_an_event_once(store: Store, leader: Instance) -> None:
    for at_ms in (1_000, 2_000, 3_000):
        await leader.turn(at_ms, *([event(at_ms)] if at_ms < 3_000 else ()))
    assert await store.line.call("XLEN", store.keys.events) == 2


async def test_a_new_instance_knows_the_past(store: Store, leader: Instance) -> None:
    await leader.turn(1_000, event(1_000), alarms=["nodes.none"])
    later = Instance(store, "i3")
    memory = await later.chronicle.recall()
    assert memory is not None
    assert [one.code for one in memory.alarms] == ["nodes.none"]
    assert later.chronicle.known_alarms == memory.alarms
    assert list(later.chronicle.events) == [event(1_000)]
    assert [one.at_ms for one in later.chronicle.history] == [1_000]
    # It is known, so it is no news.
    assert await later.turn(1_500) == []


async def test_the_leader_itself_knows_what_it_wrote(leader: Instance) -> None:
    await leader.chronicle.recall()
    await leader.turn(1_000)
    assert await leader.chronicle.recall() is None


async def test_what_the_leader_did_not_live_to_write_its_successor_writes(
    store: Store, leader: Instance, follower: Instance
) -> None:
    await leader.turn(1_000, event(1_000))
    # Seen before the leader counted as dead.
    await follower.turn(1_500, event(1_500))
    await follower.turn(7_000, event(7_000, kind="instance.died", subject="i1"))
    follower.is_leading = True
    news = await follower.turn(8_000, event(8_000, kind="leader.changed", subject="i2"))
    assert [one.kind for one in news] == ["instance.died", "leader.changed"]
    third = Instance(store, "i3")
    assert [one.kind for one in await third.turn(9_000)] == ["node.joined", "instance.died", "leader.changed"]


async def test_what_was_seen_long_before_is_not_written_by_a_new_leader(leader: Instance, follower: Instance) -> None:
    await leader.turn(1_000)
    await follower.turn(1_500, event(1_500, subject="long ago"))
    await follower.turn(1_501 + KEPT_MS)
    follower.is_leading = True
    assert await follower.turn(1_502 + KEPT_MS) == []


async def test_what_is_seen_while_redis_is_away_is_shown_at_once_and_not_again(
    store: Store, leader: Instance, follower: Instance
) -> None:
    await leader.turn(1_000)
    await follower.turn(1_000)
    away = [event(2_000, kind="alarm.raised", subject="", code="redis.away")]
    late = [event(2_700, kind="alarm.raised", subject="", code="redis.away")]
    assert leader.chronicle.away(away) == away
    assert follower.chronicle.away(late) == late
    assert await leader.turn(3_000) == []
    assert await follower.turn(3_500) == []
    assert await Instance(store, "i3").turn(4_000) == away


async def test_without_a_leader_that_writes_each_shows_what_it_sees(store: Store, follower: Instance) -> None:
    """In an upgrade the leader may be of the release before."""
    assert await follower.turn(1_000, event(1_000)) == []
    follower.now_s += SILENT_S + 1
    assert await follower.turn(2_000, event(2_000, subject="n2")) == [event(2_000, subject="n2")]
    assert [one.at_ms for one in follower.chronicle.history] == [2_000]
    # When it becomes the leader, others learn of it and it does not show it again.
    follower.is_leading = True
    assert await follower.turn(3_000) == [event(1_000)]
    assert await Instance(store, "i3").turn(4_000) == [event(1_000), event(2_000, subject="n2")]


async def test_the_memory_is_written_when_alarms_change_and_now_and_then(store: Store, leader: Instance) -> None:
    async def written() -> int:
        memory = await store.chronicle.memory()
        return 0 if memory is None else memory.at_ms

    await leader.turn(1_000)
    await leader.turn(2_000)
    assert await written() == 1_000
    await leader.turn(3_000, alarms=["nodes.none"])
    assert await written() == 3_000
    await leader.turn(13_000, alarms=["nodes.none"])
    assert await written() == 13_000


async def test_the_leader_hurries_while_anybody_watches_anywhere(leader: Instance, follower: Instance) -> None:
    for one in (leader, follower):
        one.chronicle.heard([Figures(life="a", at_ms=0), Figures(life="b", at_ms=0, is_watched=True)])
    assert leader.chronicle.is_hurried
    assert not follower.chronicle.is_hurried
    leader.chronicle.heard([Figures(life="a", at_ms=0)])
    assert not leader.chronicle.is_hurried
