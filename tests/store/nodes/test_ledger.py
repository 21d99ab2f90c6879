"""The ledger in Redis: leases take slots, and what a node runs has a lease."""

import re

from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, RULES, dispatch, entry, join, ledger, order

ELSEWHERE = Owner("i-elsewhere", "c9")
TEXT = "en:zh:text"


def lost(job_id: str) -> Attempt:
    """A job that its node runs, and of whose lease nothing is known."""
    return Attempt(job_id, ADOPTED, "n1", 0)


async def test_a_job_the_ledger_lost_is_accounted_for_when_its_node_reports_it(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", max_jobs=2))
    attempt, _ = await dispatch(store, order(1))
    jobs = [attempt, lost("job-0-lost")]
    assert await store.ledger.adopt(0, ELSEWHERE, "n1", jobs, 9_000) is None
    assert await store.ledger.adopt(0, HERE, "n1", jobs, 9_000) == ["job-0-lost"]
    assert await store.ledger.adopt(0, HERE, "n1", jobs, 9_000) == []  # twice is harmless
    assert await ledger(store, "n1") == (2, 0, 2)
    clock.pass_ms(9_000)
    (adopted,) = await store.jobs.overdue(0, 10)
    assert (adopted.job_id, adopted.number) == ("job-0-lost", 0)
    await store.jobs.end(adopted, "", JobEvent.LOSE_ATTEMPT, "lease_over", if_overdue=True)
    assert await ledger(store, "n1") == (1, 1, 1)


async def test_what_a_busy_node_runs_is_compared_without_reading_the_ledger(store: Store, clock: Clock) -> None:
    async def reads() -> int:
        texts = [await line.call("INFO", "commandstats") for line in store.line.servers()]
        return sum(int(found[1]) for text in texts for found in re.finditer(r"cmdstat_zrange:calls=(\d+)", text))

    await join(store, entry("n1", max_jobs=3, acknowledges=True))
    attempts = [(await dispatch(store, order(i)))[0] for i in range(2)]
    await store.ledger.adopt(0, HERE, "n1", [lost("job-0-lost")], 2_000)
    before = await reads()
    clock.pass_ms(1_000)
    # Under the name it was adopted by, or by that of an attempt that is over.
    for known in (lost("job-0-lost"), Attempt("job-0-lost", 7, "n1", 0)):
        assert await store.ledger.adopt(0, HERE, "n1", [*attempts, known], 2_000) == []
    assert await reads() == before
    deadlines = {view.attempt: view.deadline_ms - clock() for view in await store.ledger.leases("n1", 0)}
    assert deadlines == dict.fromkeys(attempts, RULES.ack_ms - 1_000) | {lost("job-0-lost"): 2_000}
    # One that is overdue accounts for nothing.
    clock.pass_ms(RULES.ack_ms)
    assert await store.ledger.adopt(0, HERE, "n1", attempts, 2_000) == [attempt.job_id for attempt in attempts]
    assert await ledger(store, "n1") == (5, 0, 5)


async def test_more_jobs_than_slots_never_turn_negative(store: Store) -> None:
    await join(store, entry("n1", max_jobs=1))
    await store.ledger.adopt(0, HERE, "n1", list(map(lost, ("job-0-a", "job-0-b", "job-0-c"))), 9_000)
    assert await ledger(store, "n1") == (3, 0, 3)


async def test_a_ledger_that_was_tampered_with_is_rebuilt_from_the_leases(store: Store) -> None:
    for node in ("n1", "n2", "n3"):
        await join(store, entry(node, max_jobs=2))
    for i in range(3):
        await dispatch(store, order(i))
    before = [await ledger(store, node) for node in ("n1", "n2", "n3")]
    assert await store.ledger.rebuild(0) == 0
    keys = store.keys.shard(0)
    await store.line.call("ZADD", keys.free, 7, "n1")
    await store.line.call("DEL", keys.held)
    await store.line.call("ZADD", keys.held, 5, "ghost")
    assert await store.ledger.rebuild(0) > 0
    assert [await ledger(store, node) for node in ("n1", "n2", "n3")] == before
    assert await store.ledger.rebuild(0) == 0


async def test_the_ledger_takes_no_slots_from_a_node_whose_limit_cannot_be_read(store: Store) -> None:
    await join(store, entry("n1", max_jobs=7))
    await store.line.call("HSET", store.keys.shard(0).limits, "n1", "a#b")
    await store.ledger.rebuild(0)
    assert await ledger(store, "n1") == (0, 7, 0)
