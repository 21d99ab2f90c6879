"""Counters of this instance for the picture and its time series: a few additions per job."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.access.credentials import DEFAULT_TENANT
from lingua_scheduler.domain.jobs.jobs import ENDED, JobState
from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.pools.names import asked_pair
from lingua_scheduler.domain.sessions.names import shown_session
from lingua_scheduler.domain.watching.failures import MAX_REASON_CHARS, MAX_TENANT_CHARS, FailedJob
from lingua_scheduler.domain.watching.figures import JOBS_MAX
from lingua_scheduler.domain.watching.latency import LatencyTally
from lingua_scheduler.domain.watching.pair_work import PairWork
from lingua_scheduler.domain.watching.picture import JobLook
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_sdk.domain.errors import ErrorCode

# Causes of failures that raise an alarm of their own.
_ALARMED = (ErrorCode.NO_CAPABLE_NODE, ErrorCode.SCHEDULER_DEPENDENCY_DOWN)


# Kinds of jobs that are told apart between two looks; of more the oldest are forgotten, with what they cost.
ASKED_MAX = 2_000


class AskedFor(NamedTuple):
    """Pools that jobs asked for, whose nodes may serve them, and what these jobs cost."""

    pools: tuple[str, ...]
    whose: Whose
    work: PairWork


class _Asked(msgspec.Struct):
    """Added to in place, because it is done for each job."""

    jobs: int = 0
    answered: int = 0
    node_ms: int = 0
    speech_ms: int = 0
    speech_node_ms: int = 0

    def add(self, work: Work, outcome: Outcome) -> None:
        self.jobs += 1
        if outcome.result is None:
            return
        node_ms = int(outcome.away_ms)
        self.answered += 1
        self.node_ms += node_ms
        if work.duration_ms:
            self.speech_ms += work.duration_ms
            self.speech_node_ms += node_ms


class Books:
    """Counters since the start of the process, and the latest slow and failed jobs, without their text.

    `tell_failed` is called with every failed job and the id of its session.
    """

    def __init__(self, slow_ms: int, instance: str, tell_failed: Callable[[FailedJob, str], None]) -> None:
        self._slow_ms = slow_ms
        self._instance = instance
        self._tell_failed = tell_failed
        self.jobs_ended: dict[str, int] = {state.value: 0 for state in ENDED}
        self.failed_for: dict[str, int] = {code.value: 0 for code in _ALARMED}
        self.latency = LatencyTally()
        self.slow: deque[JobLook] = deque(maxlen=JOBS_MAX)
        self.failures: deque[JobLook] = deque(maxlen=JOBS_MAX)
        # Pools that jobs asked for, with the tenant of each job, or the one whose node it was paired with, in the order
        # in which they were first asked for.
        self._asked: dict[tuple[tuple[str, ...], str, str], _Asked] = {}

    def take_asked(self) -> list[AskedFor]:
        """What jobs asked for since the last call."""
        asked, self._asked = self._asked, {}
        return [
            AskedFor(
                pools,
                Whose(paired, is_private_only=True) if paired else Whose(tenant or DEFAULT_TENANT),
                PairWork(*msgspec.structs.astuple(cost)),
            )
            for (pools, tenant, paired), cost in asked.items()
        ]

    def ended(self, work: Work, outcome: Outcome, took_s: float) -> None:
        took_ms = took_s * 1000
        self.jobs_ended[outcome.state] += 1
        self.latency.add(took_ms)
        self._note_asked(work, outcome)
        is_failure = outcome.state is JobState.FAILED
        if is_failure:
            if outcome.error in _ALARMED:
                self.failed_for[outcome.error] += 1
            self._tell_failed(_failure(work, outcome, int(took_ms), self._instance), work.session_id)
        # A job that was never written down cannot be looked up, and there may be masses of them.
        if (is_failure or took_ms >= self._slow_ms) and outcome.job_id:
            look = _look(work, outcome, int(took_ms))
            if is_failure:
                self.failures.append(look)
            if took_ms >= self._slow_ms:
                self.slow.append(look)

    def _note_asked(self, work: Work, outcome: Outcome) -> None:
        kind = (work.pools, work.tenant_id if work.belongs_to else "", work.wish.paired_tenant)
        asked = self._asked.get(kind)
        if asked is None:
            asked = self._asked[kind] = _Asked()
            if len(self._asked) > ASKED_MAX:
                del self._asked[next(iter(self._asked))]
        asked.add(work, outcome)


def _look(work: Work, outcome: Outcome, took_ms: int) -> JobLook:
    src, tgt = asked_pair(work.pools)
    result = outcome.result
    return JobLook(
        job_id=outcome.job_id,
        state=outcome.state.value,
        src=src,
        tgt=tgt,
        node_id=outcome.node_id if result is None else result.node_id,
        attempts=outcome.attempts,
        reason="" if outcome.error is None else outcome.error.value,
        ended_at_ms=int(wall_ms()),
        took_ms=took_ms,
        session_id=shown_session(work.session_id),
        utterance_index=work.utterance_index,
        tenant=work.owning_tenant,
    )


def _failure(work: Work, outcome: Outcome, took_ms: int, instance: str) -> FailedJob:
    src, tgt = asked_pair(work.pools)
    return FailedJob(
        at_ms=int(wall_ms()),
        job_id=outcome.job_id,
        session_id=shown_session(work.session_id),
        utterance_index=work.utterance_index,
        src=src,
        tgt=tgt,
        code="" if outcome.error is None else outcome.error.value,
        reason=outcome.detail[:MAX_REASON_CHARS],
        node_id=outcome.node_id,
        attempts=outcome.attempts,
        took_ms=took_ms,
        instance_id=instance,
        tenant_id=work.tenant_id[:MAX_TENANT_CHARS],
        tenant=work.owning_tenant,
    )
