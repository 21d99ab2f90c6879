"""Attempts whose node is gone or whose time is up: end them, free the slot, tell the one who waits."""

import asyncio
from collections.abc import Callable, Iterable

from lingua_scheduler.domain.attempts import Attempt, EndOutcome
from lingua_scheduler.domain.jobs import JobEvent
from lingua_scheduler.services.assignments import Assignments, Lost
from lingua_scheduler.store.jobs import Jobs


class Recovery:
    """`tell_lost` takes the word to the instance whose job it was, when that is not this one."""

    def __init__(self, instance: str, jobs: Jobs, assignments: Assignments) -> None:
        self._instance = instance
        self._jobs = jobs
        self._assignments = assignments
        self.tell_lost: Callable[[str, Attempt, str], None] = _tell_nobody

    async def end_overdue(self, attempts: Iterable[Attempt], reason: str) -> int:
        """All in one write. Others may sweep the same leases at the same time: each ends once."""
        results = await asyncio.gather(*(self._end(attempt, reason) for attempt in attempts))
        return sum(results)

    async def end_disowned(self, attempts: Iterable[Attempt]) -> int:
        """The node itself says that it does not run these (any more)."""
        results = await asyncio.gather(*(self._end(attempt, "disowned", if_overdue=False) for attempt in attempts))
        return sum(results)

    async def end_unsent(self, attempt: Attempt, reason: str = "send_failed") -> None:
        """The order did not reach the node, as far as we know; if it has accepted the job, it did."""
        assignment = self._assignments.find(attempt)
        if assignment is None or not assignment.advances:
            await self._end(attempt, reason, if_overdue=False)

    async def _end(self, attempt: Attempt, reason: str, *, if_overdue: bool = True) -> bool:
        ended = await self._jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, reason, if_overdue=if_overdue)
        if ended.outcome is not EndOutcome.ENDED:
            return False
        if ended.owner == self._instance:
            self._assignments.settle(attempt, Lost(reason))
        else:
            self.tell_lost(ended.owner, attempt, reason)
        return True


def _tell_nobody(instance: str, attempt: Attempt, reason: str) -> None:
    """Until there is somebody who carries letters."""
