"""Cancelling a job from any instance: first in Redis, then its owner is informed."""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.access.visibility import EVERY_JOB, Visibility
from lingua_scheduler.domain.jobs.attempts import CancelOutcome
from lingua_scheduler.protocol.signals import CancelJob
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.records import JobRecord
from lingua_scheduler.store.store import Store

# A job may move on between our look and the script; it has no more attempts than this to do so.
MAX_SURPRISES = 8


class Cancellation(NamedTuple):
    """The outcome of a cancellation. `record` is the job as it was; None if there is no such job."""

    outcome: CancelOutcome
    record: JobRecord | None = None
    # The state it had ended in before.
    ended: str = ""


async def cancel(store: Store, job_id: str, linger_ms: int, visible: Visibility = EVERY_JOB) -> Cancellation:
    """End the job in Redis, then signal its owner. If the signal is lost, the owner notices at its next step.

    `visible`: the jobs that the caller may know of; another is as unknown to it as none.
    """
    for _ in range(MAX_SURPRISES):
        record = await store.jobs.find(job_id)
        if record is None or not record.is_for(visible):
            return Cancellation(CancelOutcome.GONE)
        lingers = record.is_live and await store.node_views.reports_jobs(record.node_id, record.shard)
        outcome, ended = await store.jobs.cancel(record, linger_ms if lingers else 0)
        if outcome is CancelOutcome.MOVED:
            continue
        if outcome is CancelOutcome.CANCELLED:
            with suppress(RedisAway):
                await store.signals.publish(CancelJob(record.owner, record.job_id))
        return Cancellation(outcome, record, ended)
    # Its pointer leads to a record that is no more.
    return Cancellation(CancelOutcome.GONE)


class Cancelling:
    """Cancels jobs on request; as an owner, ends its own jobs when another instance cancelled them."""

    def __init__(
        self, instance: str, store: Store, assignments: Assignments, waiting: WaitingRoom, linger_ms: int
    ) -> None:
        self._instance = instance
        self._store = store
        self._assignments = assignments
        self._waiting = waiting
        self._linger_ms = linger_ms

    async def cancel(self, job_id: str, visible: Visibility = EVERY_JOB) -> Cancellation:
        cancelled = await cancel(self._store, job_id, self._linger_ms, visible)
        if cancelled.outcome is CancelOutcome.CANCELLED and cancelled.record is not None:
            # If the job is ours, it need not wait for our own signal to come back.
            self.heard(CancelJob(cancelled.record.owner, cancelled.record.job_id))
        return cancelled

    async def cancel_of(self, is_meant: Callable[[Principal], bool]) -> int:
        """Cancel the running and waiting jobs of these callers that this instance follows; how many were.

        A job that is between two attempts is met by a later call. Raises RedisAway.
        """
        # Waiting ones first, or they would get the slots of the others.
        cancelled = [await self.cancel(job_id) for job_id in self._waiting.dismiss_of(is_meant)]
        cancelled += [await self.cancel(job_id) for job_id in self._assignments.jobs_of(is_meant)]
        return sum(one.outcome is CancelOutcome.CANCELLED for one in cancelled)

    def heard(self, signal: CancelJob) -> None:
        if signal.owner == self._instance:
            self._assignments.cancel(signal.job_id)
            self._waiting.dismiss(signal.job_id)
