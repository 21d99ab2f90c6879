"""What this instance counts, for the others and for the curves: a few additions a job."""

import time
from collections import deque

from lingua_scheduler.domain.jobs.jobs import ENDED, JobState
from lingua_scheduler.domain.watching.figures import JOBS_MAX
from lingua_scheduler.domain.watching.latency import Tally
from lingua_scheduler.domain.watching.picture import JobLook
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.telemetry import logs

_log = logs.get()


class Books:
    """Counters begin with the process; of slow and failed jobs the latest few are kept, never what was said."""

    def __init__(self, slow_ms: int) -> None:
        self._slow_ms = slow_ms
        self.jobs_ended: dict[str, int] = {state.value: 0 for state in ENDED}
        self.latency = Tally()
        self.slow: deque[JobLook] = deque(maxlen=JOBS_MAX)
        self.failures: deque[JobLook] = deque(maxlen=JOBS_MAX)

    def ended(self, work: Work, outcome: Outcome, took_s: float) -> None:
        took_ms = took_s * 1000
        self.jobs_ended[outcome.state.value] += 1
        self.latency.add(took_ms)
        is_failure = outcome.state is JobState.FAILED
        if is_failure:
            src, tgt, _ = work.pools[0].split(":")
            _log.warning(
                "job.failed",
                job_id=outcome.job_id,
                session_id=work.session_id,
                utterance_index=work.utterance_index,
                src=src,
                tgt=tgt,
                code="" if outcome.error is None else outcome.error.value,
                detail=outcome.detail,
                node_id=outcome.node_id,
                attempts=outcome.attempts,
            )
        # A job that was never written down cannot be looked up, and there may be masses of them.
        if (is_failure or took_ms >= self._slow_ms) and outcome.job_id:
            look = _look(work, outcome, int(took_ms))
            if is_failure:
                self.failures.append(look)
            if took_ms >= self._slow_ms:
                self.slow.append(look)


def _look(work: Work, outcome: Outcome, took_ms: int) -> JobLook:
    src, tgt, _ = work.pools[0].split(":")
    result = outcome.result
    return JobLook(
        job_id=outcome.job_id,
        state=outcome.state.value,
        src=src,
        tgt=tgt,
        node_id=outcome.node_id if result is None else result.node_id,
        attempts=outcome.attempts,
        reason="" if outcome.error is None else outcome.error.value,
        ended_at_ms=int(time.time() * 1000),
        took_ms=took_ms,
    )
