"""A node's claim of slots is believed slowly, and what is known of a node outlives its connection."""

import pytest

from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules
from lingua_scheduler.store.nodes.nodes import NodeEntry
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, POOL, dispatch, entry, join, ledger, order

RULES = QuarantineRules(failures=5, window=20, consecutive=3, first_ms=60_000, longest_ms=600_000, believed_after=3)
FIRST = 2


def boaster(claimed: int = 10, node_id: str = "n1") -> NodeEntry:
    return entry(node_id, max_jobs=claimed, alive_ms=10_000_000)._replace(believed_slots=FIRST)


class Work:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._serial = 0

    async def do(self, outcomes: str) -> None:
        """One job after the other: o good, x bad, - nothing was said."""
        events = {
            "o": (JobEvent.FINISH, ""),
            "x": (JobEvent.LOSE_ATTEMPT, "PROCESSING_ERROR"),
            "-": (JobEvent.FIND_NO_TEXT, ""),
        }
        for outcome in outcomes:
            self._serial += 1
            attempt, placed = await dispatch(self._store, order(self._serial))
            await self._store.jobs.end(attempt, placed.epoch, *events[outcome], quarantine=RULES)

    async def slots(self, node_id: str = "n1") -> int | None:
        leases, free, held = await ledger(self._store, node_id)
        assert leases == held == 0
        return free


@pytest.fixture
def work(store: Store) -> Work:
    return Work(store)


async def test_a_claim_is_believed_in_steps_as_good_results_come(store: Store, work: Work) -> None:
    await join(store, boaster())
    steps = []
    for _ in range(4):
        steps.append(await work.slots())
        await work.do("ooo")
    assert (*steps, await work.slots()) == (2, 4, 8, 10, 10)


async def test_only_good_results_in_a_row_count(store: Store, work: Work) -> None:
    await join(store, boaster())
    await work.do("ooxoo---")
    assert await work.slots() == 2
    await work.do("o")
    assert await work.slots() == 4


async def test_slots_in_use_stay_in_use_when_more_are_believed(store: Store, work: Work) -> None:
    await join(store, boaster())
    await dispatch(store, order("held"))
    await work.do("ooo")
    assert await ledger(store, "n1") == (1, 3, 1)


async def test_a_modest_node_is_believed_at_once_and_leaves_no_trace(store: Store, work: Work) -> None:
    await join(store, boaster(2))
    await work.do("oooo")
    assert await work.slots() == 2
    assert await store.line.call("EXISTS", store.keys.shard(0).trust) == 0


async def test_a_claim_that_is_raised_later_is_believed_slowly_too(store: Store, work: Work) -> None:
    await join(store, boaster(1))
    await work.do("oooooo")
    await store.nodes.update(0, HERE, boaster(200), frozenset({POOL}))
    assert await work.slots() == 2
    await work.do("ooo")
    await store.nodes.update(0, HERE, boaster(3), frozenset({POOL}))
    assert await work.slots() == 3
    await store.nodes.update(0, HERE, boaster(200), frozenset({POOL}))
    assert await work.slots() == 4


async def test_a_trusted_fleet_is_believed_at_once(store: Store, work: Work) -> None:
    await join(store, boaster())
    await store.nodes.update(0, HERE, boaster()._replace(believed_slots=0), frozenset({POOL}))
    assert await work.slots() == 10


async def test_what_was_believed_survives_a_reconnect_but_not_another_name(store: Store, work: Work) -> None:
    await join(store, boaster())
    await work.do("ooo")
    await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
    assert await store.line.call("EXISTS", store.keys.shard(0).trust) == 0
    await join(store, boaster())
    await join(store, boaster(node_id="n2"))
    assert (await work.slots("n1"), await work.slots("n2")) == (4, 2)
    assert await store.line.call("EXISTS", store.keys.past("n1")) == 0


async def test_what_was_believed_survives_the_loss_of_redis(store: Store, work: Work) -> None:
    await join(store, boaster())
    await work.do("ooo")
    trust = (await store.nodes.beat(0, HERE, "n1", 45_000)).trust
    await store.line.call("FLUSHALL")
    await store.nodes.register(0, HERE, boaster()._replace(trust=trust))
    assert await work.slots() == 4


async def test_a_quarantine_survives_a_reconnect(store: Store, work: Work, clock: Clock) -> None:
    await join(store, boaster())
    await work.do("xxx")
    sick = store.keys.shard(0).sick
    until = await store.line.call("ZSCORE", sick, "n1")
    assert until is not None
    await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
    assert await store.line.call("EXISTS", sick) == 0
    # It may come back to another shard.
    await store.nodes.register(1, HERE, boaster())
    assert await store.line.call("ZSCORE", store.keys.shard(1).sick, "n1") == until
    (view,) = [await store.node_views.one("n1", 1)]
    assert view is not None
    assert view.quarantined_for_ms(clock.now_ms) == 60_000


def process(boot_id: str) -> NodeEntry:
    return boaster(2)._replace(boot_id=boot_id, probe_ms=15_000)


async def sick_for_ms(store: Store, clock: Clock) -> int | None:
    view = await store.node_views.one("n1", 0)
    assert view is not None
    return view.quarantined_for_ms(clock.now_ms)


async def test_a_new_process_gets_its_probe_sooner_and_keeps_its_history(
    store: Store, work: Work, clock: Clock
) -> None:
    await join(store, process("first"))
    await work.do("xxx")
    for times, boot_id in enumerate(("second", "third", "fourth"), start=1):
        await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
        registered = await store.nodes.register(0, HERE, process(boot_id))
        # Every failed probe puts the next one off, also for a process that only restarts.
        assert await sick_for_ms(store, clock) == times * 15_000
        assert registered.quarantined_until_ms == clock.now_ms + times * 15_000
        clock.pass_ms(times * 15_000)
        await work.do("x")
        assert await sick_for_ms(store, clock) == 60_000 * 2**times
    await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
    await store.nodes.register(0, HERE, process("fifth"))
    clock.pass_ms(4 * 15_000)
    await work.do("o")
    assert await sick_for_ms(store, clock) is None


async def test_a_probe_that_is_due_sooner_is_not_put_off(store: Store, work: Work, clock: Clock) -> None:
    await join(store, process("first"))
    await work.do("xxx")
    clock.pass_ms(59_000)
    await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
    await store.nodes.register(0, HERE, process("second")._replace(probe_ms=100_000))
    assert await sick_for_ms(store, clock) == 1_000


async def test_the_same_process_waits_for_the_end_of_its_quarantine(store: Store, work: Work, clock: Clock) -> None:
    await join(store, process("first"))
    await work.do("xxx")
    registered = await store.nodes.register(0, HERE, process("first"))
    assert registered.quarantined_until_ms == clock.now_ms + 60_000


async def test_a_node_that_recovered_is_not_reminded(store: Store, work: Work, clock: Clock) -> None:
    await join(store, boaster(2))
    await work.do("xxx")
    await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
    await join(store, boaster(2))
    clock.pass_ms(60_000)
    await work.do("o")
    await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
    assert await store.line.call("EXISTS", store.keys.past("n1")) == 0


async def test_a_drain_is_remembered_besides_all_else(store: Store, work: Work, clock: Clock) -> None:
    await join(store, process("first"))
    await work.do("xxx")
    await store.nodes.drain("n1")
    await store.nodes.remove(0, HERE, "n1", frozenset({POOL}))
    assert await store.line.call("GET", store.keys.past("n1"))
    await join(store, process("first"))
    assert await sick_for_ms(store, clock) is not None
    assert [view.state for view in await store.node_views.all()] == ["draining"]
    assert store.unreadable.lately == []
