"""What nobody lives to tell is found out."""

import asyncio
from typing import Any, cast

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.meaning import Meaning
from lingua_scheduler.services.attempts.reports import LostAttempt
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.losses import Loss
from tests.support.fleet import dispatch, entry, join, ledger, order
from tests.support.schedulers import settings_with
from tests.support.speech import work


async def test_a_result_whose_teller_died_is_missed_and_what_still_runs_is_not(store: Store) -> None:
    registered = await join(store, entry("n1", max_jobs=4))
    assignments = Assignments(lambda step, assignment: None)
    endings = Endings("here", store.jobs, assignments, settings_with().nodes)
    waiting = []
    for serial, holder in enumerate(("dead", "dead", "alive")):
        attempt, _ = await dispatch(store, order(serial))
        waiting.append(assignments.open(attempt, work(), holder))
    over, running, elsewhere = waiting
    for one in (over, elsewhere):
        await store.jobs.end(one.attempt, registered.epoch, JobEvent.FINISH)
    await endings.recheck_held_by({"dead"})
    # The letter of the one that is alive may be on its way.
    assert [one.report for one in (over, running, elsewhere)] == [LostAttempt(Loss.RESULT_LOST), None, None]


async def test_every_way_to_end_an_attempt_tells_that_its_slot_is_free(store: Store) -> None:
    registered = await join(store, entry("n1", max_jobs=6))
    endings = Endings("here", store.jobs, Assignments(lambda step, assignment: None), settings_with().nodes)
    freed: list[Attempt] = []
    endings.on_freed = freed.append
    attempts = [(await dispatch(store, order(serial)))[0] for serial in range(6)]
    finished, lost, withdrawn, unused, disowned, unsent = attempts
    endings.finished(finished, "", await endings.finish(finished, registered.epoch, Meaning(JobEvent.FINISH)))
    await endings.lose(lost, Loss.JOB_TIMEOUT)
    await endings.withdraw(withdrawn, "withdrawn")
    await endings.free(unused)
    await endings.end_disowned([disowned])
    await endings.end_unsent(unsent)
    assert freed == attempts


async def test_a_slot_that_lingers_or_was_freed_before_wakes_nobody(store: Store) -> None:
    await join(store, entry("n1", max_jobs=2))
    endings = Endings("here", store.jobs, Assignments(lambda step, assignment: None), settings_with().nodes)
    freed: list[Attempt] = []
    endings.on_freed = freed.append
    lingers, ended = [(await dispatch(store, order(serial)))[0] for serial in range(2)]
    await endings.lose(lingers, Loss.JOB_TIMEOUT, linger_ms=60_000)
    await store.jobs.end(ended, "", JobEvent.LOSE_ATTEMPT)
    await endings.withdraw(ended, "withdrawn")
    assert freed == []


async def test_an_order_that_was_not_delivered_frees_its_slot_unless_the_node_has_accepted_the_job(
    store: Store,
) -> None:
    await join(store, entry("n1", max_jobs=4))
    assignments = Assignments(lambda step, assignment: None)
    endings = Endings("i-here", store.jobs, assignments, settings_with().nodes)
    unsent, accepted = [(await dispatch(store, order(serial)))[0] for serial in range(2)]
    waiting = {attempt: assignments.open(attempt, work(), "there") for attempt in (unsent, accepted)}
    assignments.advanced(accepted)
    for attempt in (unsent, accepted):
        await endings.end_unsent(attempt)
    assert waiting[unsent].report == LostAttempt(Loss.SEND_FAILED)
    assert waiting[accepted].report is None
    assert await ledger(store, "n1") == (1, 3, 1)


async def test_the_owner_of_a_lost_attempt_is_told_here_or_at_its_instance(store: Store) -> None:
    await join(store, entry("n1", max_jobs=4))
    assignments = Assignments(lambda step, assignment: None)
    attempts = [(await dispatch(store, order(serial)))[0] for serial in range(2)]
    told: list[tuple[str, Attempt, str]] = []
    here, there = (Endings(name, store.jobs, assignments, settings_with().nodes) for name in ("i-here", "i-there"))
    for endings in (here, there):
        endings.tell_lost = lambda *about: told.append(about)
    own, foreign = (assignments.open(attempt, work(), "there") for attempt in attempts)
    assert await here.end_disowned([attempts[0]]) == 1
    assert (own.report, told) == (LostAttempt(Loss.DISOWNED), [])
    assert await there.end_disowned(attempts) == 1
    assert (foreign.report, told) == (None, [("i-here", attempts[1], Loss.DISOWNED)])


async def test_what_is_not_overdue_is_left_alone_and_a_slot_that_lingers_wakes_nobody(store: Store) -> None:
    await join(store, entry("n1", max_jobs=4))
    endings = Endings("i-here", store.jobs, Assignments(lambda step, assignment: None), settings_with().nodes)
    freed: list[Attempt] = []
    endings.on_freed = freed.append
    attempts = [(await dispatch(store, order(serial)))[0] for serial in range(2)]
    assert await endings.end_overdue(attempts, Loss.LEASE_OVER) == 0
    for attempt, linger_ms in zip(attempts, (0, 60_000), strict=True):
        await store.line.call("ZADD", store.keys.shard(0).leases, 1, attempt.lease)
        assert await endings.end_overdue([attempt], Loss.LEASE_OVER, linger_ms) == 1
    assert freed == attempts[:1]


async def test_what_redis_forgot_together_with_its_node_is_told_to_the_job_that_waits(store: Store) -> None:
    await join(store, entry("n1", max_jobs=2))
    assignments = Assignments(lambda step, assignment: None)
    endings = Endings("i-here", store.jobs, assignments, settings_with().nodes)
    known, forgotten = [
        assignments.open((await dispatch(store, order(serial)))[0], work(), "i-here") for serial in range(2)
    ]
    await endings.end_forgotten([known.attempt], Loss.NODE_GONE)
    assert (await ledger(store, "n1"))[0] == 1
    await store.line.call("FLUSHALL")
    await endings.end_forgotten([forgotten.attempt], Loss.NODE_GONE)
    assert [one.report for one in (known, forgotten)] == 2 * [LostAttempt(Loss.NODE_GONE)]


async def test_all_open_attempts_are_looked_at_again(store: Store) -> None:
    registered = await join(store, entry("n1", max_jobs=4))
    assignments = Assignments(lambda step, assignment: None)
    endings = Endings("here", store.jobs, assignments, settings_with().nodes)
    attempts = [(await dispatch(store, order(serial)))[0] for serial in range(2)]
    over, running = (assignments.open(attempt, work(), "alive") for attempt in attempts)
    await store.jobs.end(over.attempt, registered.epoch, JobEvent.FINISH)
    await endings.recheck()
    assert (over.report, running.report) == (LostAttempt(Loss.RESULT_LOST), None)


async def test_a_node_that_fails_again_and_again_is_quarantined_and_each_is_counted(store: Store) -> None:
    await join(store, entry("n1", max_jobs=20))
    nodes = settings_with(nodes__quarantine_consecutive=2).nodes
    endings = Endings("here", store.jobs, Assignments(lambda step, assignment: None), nodes)
    attempts = [(await dispatch(store, order(serial)))[0] for serial in range(2)]
    before = quarantines("begun")
    for attempt in attempts:
        assert quarantines("begun") == before
        await endings.lose(attempt, Loss.JOB_TIMEOUT)
    assert quarantines("begun") == before + 1
    assert await store.line.call("ZSCORE", store.keys.shard(0).sick, "n1") is not None


def quarantines(what: str) -> float:
    return metrics.REGISTRY.get_sample_value("lingua_node_quarantines_total", {"outcome": what}) or 0.0


async def test_a_quarantine_grows_to_ten_times_its_first_length(store: Store) -> None:
    await join(store, entry("n1"))
    settings = settings_with(nodes__quarantine_ms=7_000).nodes
    endings = Endings("here", store.jobs, Assignments(lambda step, assignment: None), settings)
    assert (endings._rules.first_ms, endings._rules.longest_ms) == (7_000, 70_000)


async def test_attempts_are_looked_at_in_portions_of_two_hundred() -> None:
    class Jobs:
        asked = most = 0

        async def is_over(self, _attempt: Attempt) -> bool:
            self.asked += 1
            self.most = max(self.most, self.asked)
            await asyncio.sleep(0)
            self.asked -= 1
            return True

    jobs, assignments = Jobs(), Assignments(lambda step, assignment: None)
    endings = Endings("here", cast("Any", jobs), assignments, settings_with().nodes)
    waiting = [assignments.open(Attempt(f"job-0-{serial}", 1, "n1", 0), work(), "dead") for serial in range(450)]
    await endings.recheck()
    assert jobs.most == 200
    assert all(one.report == LostAttempt(Loss.RESULT_LOST) for one in waiting)
