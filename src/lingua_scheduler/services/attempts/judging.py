"""Ending an attempt by what its node did, or failed to do: the node is judged by it, and a verdict is told."""

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.losses import known_reason
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules, Verdict
from lingua_scheduler.settings import NodesSettings
from lingua_scheduler.store.jobs.jobs import Ended, Jobs
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

_QUARANTINES = metrics.by(metrics.QUARANTINES, "begun", "ended")

# A node that fails every probe is asked less and less often, but is never forgotten.
LONGEST = 10


class Judge:
    def __init__(self, jobs: Jobs, settings: NodesSettings) -> None:
        self._jobs = jobs
        self.rules = QuarantineRules(
            failures=settings.quarantine_failures,
            window=settings.quarantine_window,
            consecutive=settings.quarantine_consecutive,
            first_ms=settings.quarantine_ms,
            longest_ms=LONGEST * settings.quarantine_ms,
            believed_after=settings.believed_after,
        )

    async def end(
        self,
        attempt: Attempt,
        epoch: str,
        event: JobEvent,
        reason: str,
        *,
        if_overdue: bool = False,
        linger_ms: int = 0,
    ) -> Ended:
        """As `Jobs.end`, with consequences for the node."""
        ended = await self._jobs.end(
            attempt, epoch, event, reason, if_overdue=if_overdue, linger_ms=linger_ms, quarantine=self.rules
        )
        self.tell(attempt, reason, ended.verdict)
        return ended

    def tell(self, attempt: Attempt, reason: str, verdict: Verdict) -> None:
        match verdict:
            case Verdict.QUARANTINED:
                _QUARANTINES["begun"].inc()
                _log.warning("node.quarantined", node_id=attempt.node_id, reason=known_reason(reason))
            case Verdict.RECOVERED:
                _QUARANTINES["ended"].inc()
                _log.info("node.recovered", node_id=attempt.node_id)
