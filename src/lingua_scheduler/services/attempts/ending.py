"""How attempts end: Redis decides, then the node is judged, a free slot wakes a waiting job, and the instance whose job
it was is told. Only a cancelled job ends in a script of its own (`job_cancel`)."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from lingua_scheduler.domain.jobs.attempts import Attempt, EndOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules, QuarantineVerdict
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.meaning import Meaning
from lingua_scheduler.services.attempts.reports import LostAttempt
from lingua_scheduler.setting_sections.nodes import NodesSettings
from lingua_scheduler.store.jobs.jobs import Ended, Jobs
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.losses import Loss, known_reason

_log = logs.get()

_QUARANTINES = metrics.by(metrics.QUARANTINES, "begun", "ended")

# A node that fails every probe is asked less and less often, but is never forgotten.
LONGEST = 10
# Looked at in one write.
TOGETHER = 200


class Endings:
    """`tell_lost` notifies the instance that owns the job; `on_freed` is called for every slot that became free;
    `tell_node` informs a node that was quarantined or has recovered, if it is connected here."""

    def __init__(self, instance: str, jobs: Jobs, assignments: Assignments, settings: NodesSettings) -> None:
        self._instance = instance
        self._jobs = jobs
        self._assignments = assignments
        self._rules = QuarantineRules(
            failures=settings.quarantine_failures,
            window=settings.quarantine_window,
            consecutive=settings.quarantine_consecutive,
            first_ms=settings.quarantine_ms,
            longest_ms=LONGEST * settings.quarantine_ms,
            believed_after=settings.believed_after,
        )
        self.tell_lost: Callable[[str, Attempt, str], None] = _tell_nobody
        self.on_freed: Callable[[Attempt], None] = _wake_nobody
        self.tell_node: Callable[[str, str, QuarantineVerdict], None] = _tell_no_node

    # By the node's own word

    def finish(self, attempt: Attempt, epoch: str, meaning: Meaning) -> asyncio.Future[Ended]:
        """The node says how it ended; `finished` takes the outcome."""
        return self._jobs.end(attempt, epoch, meaning.event, meaning.reason, quarantine=self._rules)

    def finished(self, attempt: Attempt, reason: str, ended: Ended) -> None:
        if ended.verdict is not QuarantineVerdict.UNCHANGED:
            self._tell_verdict(attempt, reason, ended.verdict)
        if ended.outcome is EndOutcome.ENDED:
            self.on_freed(attempt)

    # By the instance whose job it is

    async def lose(self, attempt: Attempt, reason: str, *, if_overdue: bool = False, linger_ms: int = 0) -> Ended:
        """The node did not do what it should, and is judged by it.

        With `linger_ms` its slot stays taken for a while, because the node may still be at it.
        """
        ended = await self._jobs.end(
            attempt,
            "",
            JobEvent.LOSE_ATTEMPT,
            reason,
            if_overdue=if_overdue,
            linger_ms=linger_ms,
            quarantine=self._rules,
        )
        if linger_ms:
            self._tell_verdict(attempt, reason, ended.verdict)
        else:
            self.finished(attempt, reason, ended)
        return ended

    async def withdraw(self, attempt: Attempt, reason: str) -> None:
        """It was not sent and never will be; it does not count against the node."""
        self.finished(attempt, reason, await self._jobs.end(attempt, "", JobEvent.CANCEL, reason))

    async def free(self, attempt: Attempt, reason: str = "") -> None:
        """It holds a slot that no node uses; it does not count against the node."""
        self.finished(attempt, reason, await self._jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, reason))

    # By any instance

    async def end_overdue(self, attempts: Iterable[Attempt], reason: str, linger_ms: int = 0) -> int:
        """All in one write. Others may sweep the same leases at the same time: each ends once."""
        results = await asyncio.gather(*(self._end(attempt, reason, linger_ms=linger_ms) for attempt in attempts))
        return sum(results)

    async def end_disowned(self, attempts: Iterable[Attempt]) -> int:
        """The node itself says that it does not run these (any more)."""
        results = await asyncio.gather(*(self._end(attempt, Loss.DISOWNED, if_overdue=False) for attempt in attempts))
        return sum(results)

    async def end_forgotten(self, attempts: Iterable[Attempt], reason: str) -> None:
        """Their node is gone, and Redis does not know it any more, nor perhaps them: tell the jobs that wait here."""
        attempts = list(attempts)
        results = await asyncio.gather(*(self._end(attempt, reason, if_overdue=False) for attempt in attempts))
        for attempt, is_ended in zip(attempts, results, strict=True):
            if not is_ended:
                self._assignments.settle(attempt, LostAttempt(reason))

    async def end_unsent(self, attempt: Attempt, reason: str = Loss.SEND_FAILED) -> None:
        """The order did not reach the node, as far as we know; if it has accepted the job, it did."""
        assignment = self._assignments.find(attempt)
        if assignment is None or not assignment.advances:
            await self._end(attempt, reason, if_overdue=False)

    async def recheck(self) -> None:
        """This instance counted as dead for a while, and may have missed messages: check which attempts have ended."""
        await self._look_at(self._assignments.open_attempts)

    async def recheck_held_by(self, dead: Collection[str]) -> None:
        """An instance that died may have written down that an attempt is over, and not lived to tell us."""
        await self._look_at(self._assignments.held_by(dead))

    async def _look_at(self, attempts: Sequence[Attempt]) -> None:
        for first in range(0, len(attempts), TOGETHER):
            some = attempts[first : first + TOGETHER]
            for attempt, is_over in zip(some, await asyncio.gather(*map(self._jobs.is_over, some)), strict=True):
                if is_over:
                    self._assignments.settle(attempt, LostAttempt(Loss.RESULT_LOST))

    async def _end(self, attempt: Attempt, reason: str, *, if_overdue: bool = True, linger_ms: int = 0) -> bool:
        ended = await self._jobs.end(
            attempt, "", JobEvent.LOSE_ATTEMPT, reason, if_overdue=if_overdue, linger_ms=linger_ms
        )
        if ended.outcome is not EndOutcome.ENDED:
            return False
        if not linger_ms:
            self.on_freed(attempt)
        if ended.owner == self._instance:
            self._assignments.settle(attempt, LostAttempt(reason))
        else:
            self.tell_lost(ended.owner, attempt, reason)
        return True

    def _tell_verdict(self, attempt: Attempt, reason: str, verdict: QuarantineVerdict) -> None:
        match verdict:
            case QuarantineVerdict.QUARANTINED:
                _QUARANTINES["begun"].inc()
                _log.warning("node.quarantined", node_id=attempt.node_id, reason=known_reason(reason))
            case QuarantineVerdict.RECOVERED:
                _QUARANTINES["ended"].inc()
                _log.info("node.recovered", node_id=attempt.node_id)
            case QuarantineVerdict.UNCHANGED:
                return
        self.tell_node(attempt.node_id, known_reason(reason), verdict)


def _tell_nobody(instance: str, attempt: Attempt, reason: str) -> None:
    """Until there is a relay to other instances."""


def _tell_no_node(node_id: str, reason: str, verdict: QuarantineVerdict) -> None:
    """Until there are connections of nodes."""


def _wake_nobody(attempt: Attempt) -> None:
    """Until there is a queue of waiting jobs."""
