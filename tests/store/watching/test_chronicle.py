"""Events, moments and the leader's memory in Redis: read from where one stopped, whatever else is there."""

from lingua_scheduler.domain.watching.chronicle import FleetMemory
from lingua_scheduler.store.store import Store
from lingua_scheduler.store.watching.chronicle import ChronicleStore
from tests.domain.watching.test_chronicle import event
from tests.support.pictures import alarm, moment


def another(store: Store) -> ChronicleStore:
    return ChronicleStore(store.line, store.keys, store.scripts, store.unreadable)


async def test_each_reader_gets_everything_once_and_in_order(store: Store) -> None:
    chronicle = store.chronicle
    assert await chronicle.events.news() == []
    await chronicle.write([event(1), event(2)], moment(2), None)
    assert await chronicle.events.news() == [event(1), event(2)]
    await chronicle.write([event(3)], moment(3), None)
    assert await chronicle.events.news() == [event(3)]
    assert await chronicle.events.news() == []
    later = another(store)
    assert await later.events.news() == [event(1), event(2), event(3)]
    assert [one.at_ms for one in await later.moments.news()] == [2, 3]


async def test_the_memory_is_what_was_written_last_and_expires(store: Store) -> None:
    assert await store.chronicle.memory() is None
    memory = FleetMemory(at_ms=5, made_by="i1", alarms=[alarm("nodes.none")], served_by={"en:zh": "n1"})
    await store.chronicle.write([], moment(5), memory)
    await store.chronicle.write([], moment(6), None)
    assert await another(store).memory() == memory
    assert await store.line.call("PTTL", store.keys.memory) > 0


async def test_what_another_release_wrote_differently_is_skipped(store: Store) -> None:
    await store.line.call("XADD", store.keys.events, "*", "entry", '{"kind": 1}')
    await store.line.call("SET", store.keys.memory, "[]")
    await store.chronicle.write([event(1)], moment(1), None)
    assert await store.chronicle.events.news() == [event(1)]
    assert await store.chronicle.memory() is None
    assert store.unreadable.lately == ["events", "memory"]
