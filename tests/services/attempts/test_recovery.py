"""What nobody lives to tell is found out."""

from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.losses import Loss
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.recovery import Recovery
from lingua_scheduler.services.attempts.reports import Lost
from lingua_scheduler.store.store import Store
from tests.support.fleet import dispatch, entry, join, order
from tests.support.speech import work


async def test_a_result_whose_teller_died_is_missed_and_what_still_runs_is_not(store: Store) -> None:
    registered = await join(store, entry("n1", max_jobs=4))
    assignments = Assignments(lambda step, assignment: None)
    recovery = Recovery("here", store.jobs, assignments)
    waiting = []
    for serial, holder in enumerate(("dead", "dead", "alive")):
        attempt, _ = await dispatch(store, order(serial))
        waiting.append(assignments.open(attempt, work(), holder))
    over, running, elsewhere = waiting
    for one in (over, elsewhere):
        await store.jobs.end(one.attempt, registered.epoch, JobEvent.FINISH)
    await recovery.recheck_held_by({"dead"})
    # The letter of the one that is alive may be on its way.
    assert [one.report for one in (over, running, elsewhere)] == [Lost(Loss.RESULT_LOST), None, None]
