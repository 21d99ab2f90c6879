"""Attempts whose node is gone or whose time is up: end them, free the slot, tell the one who waits."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from lingua_scheduler.domain.jobs.attempts import Attempt, EndOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.losses import Loss
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.reports import Lost
from lingua_scheduler.store.jobs.jobs import Jobs

# Looked at in one write.
TOGETHER = 200


class Recovery:
    """`tell_lost` takes the word to the instance whose job it was, when that is not this one."""

    def __init__(self, instance: str, jobs: Jobs, assignments: Assignments) -> None:
        self._instance = instance
        self._jobs = jobs
        self._assignments = assignments
        self.tell_lost: Callable[[str, Attempt, str], None] = _tell_nobody

    async def end_overdue(self, attempts: Iterable[Attempt], reason: str, linger_ms: int = 0) -> int:
        """All in one write. Others may sweep the same leases at the same time: each ends once.

        With `linger_ms` their slots stay taken for a while, because their nodes may still be at them.
        """
        results = await asyncio.gather(*(self._end(attempt, reason, linger_ms=linger_ms) for attempt in attempts))
        return sum(results)

    async def end_disowned(self, attempts: Iterable[Attempt]) -> int:
        """The node itself says that it does not run these (any more)."""
        results = await asyncio.gather(*(self._end(attempt, Loss.DISOWNED, if_overdue=False) for attempt in attempts))
        return sum(results)

    async def end_unsent(self, attempt: Attempt, reason: str = Loss.SEND_FAILED) -> None:
        """The order did not reach the node, as far as we know; if it has accepted the job, it did."""
        assignment = self._assignments.find(attempt)
        if assignment is None or not assignment.advances:
            await self._end(attempt, reason, if_overdue=False)

    async def recheck(self) -> None:
        """We counted as dead for a while, and word of our attempts may have been lost: see which are over."""
        await self._look_at(self._assignments.open_attempts)

    async def recheck_held_by(self, dead: Collection[str]) -> None:
        """Who died may have written down that an attempt is over, and not lived to tell us."""
        await self._look_at(self._assignments.held_by(dead))

    async def _look_at(self, attempts: Sequence[Attempt]) -> None:
        for first in range(0, len(attempts), TOGETHER):
            some = attempts[first : first + TOGETHER]
            for attempt, is_over in zip(some, await asyncio.gather(*map(self._jobs.is_over, some)), strict=True):
                if is_over:
                    self._assignments.settle(attempt, Lost(Loss.RESULT_LOST))

    async def _end(self, attempt: Attempt, reason: str, *, if_overdue: bool = True, linger_ms: int = 0) -> bool:
        ended = await self._jobs.end(
            attempt, "", JobEvent.LOSE_ATTEMPT, reason, if_overdue=if_overdue, linger_ms=linger_ms
        )
        if ended.outcome is not EndOutcome.ENDED:
            return False
        if ended.owner == self._instance:
            self._assignments.settle(attempt, Lost(reason))
        else:
            self.tell_lost(ended.owner, attempt, reason)
        return True


def _tell_nobody(instance: str, attempt: Attempt, reason: str) -> None:
    """Until there is somebody who carries letters."""
