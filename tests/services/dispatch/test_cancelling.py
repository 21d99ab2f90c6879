"""Cancelling a job from any instance: first in Redis, then its owner hears of it."""

import asyncio
from typing import Any

import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt, CancelOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.protocol.signals import CancelJob
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.reports import Cancelled
from lingua_scheduler.services.dispatch import cancelling
from lingua_scheduler.services.dispatch.cancelling import Cancelling
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from tests.support.fleet import POOL, dispatch, entry, join, ledger, order, saying
from tests.support.speech import work
from tests.support.waiting import until

LINGER_MS = 60_000


class Office:
    """An instance that cancels, and what it knows of its own jobs."""

    def __init__(self, store: Store, instance: str) -> None:
        self.assignments = Assignments(lambda _step, _assignment: None)
        self.waiting = WaitingRoom(100, 10.0)
        self.cancelling = Cancelling(instance, store, self.assignments, self.waiting, LINGER_MS)


@pytest.fixture
async def running(store: Store) -> Attempt:
    await join(store, entry("n1"))
    attempt, _ = await dispatch(store, order(1))
    return attempt


async def test_a_job_that_runs_is_cancelled_once_and_its_owner_is_told(store: Store, running: Attempt) -> None:
    office = Office(store, "i-here")
    assignment = office.assignments.open(running, work(), "i-here")
    cancelled = await office.cancelling.cancel(running.job_id)
    assert cancelled.outcome is CancelOutcome.CANCELLED
    assert cancelled.record is not None
    assert (cancelled.record.job_id, cancelled.record.owner, cancelled.ended) == (running.job_id, "i-here", "")
    assert assignment.report == Cancelled()
    assert await ledger(store, "n1") == (0, 2, 0)
    again = await office.cancelling.cancel(running.job_id)
    assert (again.outcome, again.ended) == (CancelOutcome.ENDED, "CANCELLED")


async def test_the_slot_of_a_node_that_tells_what_it_runs_lingers(store: Store) -> None:
    await join(store, saying(entry("n1"), '{"reports_jobs":true}'))
    attempt, _ = await dispatch(store, order(1))
    await Office(store, "i-here").cancelling.cancel(attempt.job_id)
    assert (await ledger(store, "n1"))[0] == 1


async def test_an_owner_elsewhere_hears_a_signal_and_nobody_else_acts_on_it(store: Store, running: Attempt) -> None:
    heard: list[CancelJob] = []
    listening = asyncio.create_task(store.signals.listen({CancelJob: heard.append}))
    await store.signals.listening.wait()
    other, owner = Office(store, "i-other"), Office(store, "i-here")
    theirs = other.assignments.open(running, work(), "i-here")
    assignment = owner.assignments.open(running, work(), "i-here")
    await other.cancelling.cancel(running.job_id)
    await until(lambda: heard)
    listening.cancel()
    assert heard == [CancelJob("i-here", running.job_id)]
    assert theirs.report is None
    owner.cancelling.heard(heard[0])
    assert assignment.report == Cancelled()


async def test_a_job_that_waits_leaves_its_queue(store: Store) -> None:
    office = Office(store, "i-here")
    ticket = office.waiting.ticket()
    waiting = asyncio.create_task(office.waiting.wait(POOL, ticket, 60.0, "job-0-1"))
    await until(lambda: len(office.waiting) == 1)
    office.cancelling.heard(CancelJob("i-other", "job-0-1"))
    assert len(office.waiting) == 1
    office.cancelling.heard(CancelJob("i-here", "job-0-1"))
    assert not await waiting


async def test_there_is_no_job_to_cancel(store: Store) -> None:
    cancelled = await Office(store, "i-here").cancelling.cancel("job-0-nothing")
    assert (cancelled.outcome, cancelled.record) == (CancelOutcome.GONE, None)


async def test_a_job_that_has_ended_is_left_as_it_is(store: Store, running: Attempt) -> None:
    await store.jobs.end(running, "", JobEvent.FINISH)
    office = Office(store, "i-here")
    assignment = office.assignments.open(running, work(), "i-here")
    cancelled = await office.cancelling.cancel(running.job_id)
    assert (cancelled.outcome, cancelled.ended) == (CancelOutcome.ENDED, "DONE")
    assert assignment.report is None


async def test_a_job_that_moves_on_meanwhile_is_looked_at_again_but_not_for_ever(
    store: Store, running: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel, moves = store.jobs.cancel, 3

    async def move(record: Any, linger_ms: int) -> Any:
        nonlocal moves
        moves -= 1
        return (CancelOutcome.MOVED, "") if moves >= 0 else await cancel(record, linger_ms)

    monkeypatch.setattr(store.jobs, "cancel", move)
    assert (await cancelling.cancel(store, running.job_id, 0)).outcome is CancelOutcome.CANCELLED
    moves = 8
    assert (await cancelling.cancel(store, running.job_id, 0)).outcome is CancelOutcome.GONE
    assert moves == 0


async def test_a_job_is_cancelled_though_its_owner_cannot_be_told(
    store: Store, running: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RedisAway("gone at that moment")

    monkeypatch.setattr(store.signals, "publish", fail)
    assert (await cancelling.cancel(store, running.job_id, 0)).outcome is CancelOutcome.CANCELLED
