"""Records every failed job: a log event at once, and an entry in the failure history, written in batches."""

from collections import Counter, deque

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.guards.rates import Budget
from lingua_scheduler.domain.pools.names import asked_pair
from lingua_scheduler.domain.sessions.names import shown_session
from lingua_scheduler.domain.watching.failures import FailedJob, FailureKind, kind_of, summaries
from lingua_scheduler.store.jobs.records import JobRecord
from lingua_scheduler.store.watching.failures import FailureHistory
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.errors import ErrorCode

_log = logs.get()

# Entries a second, in bursts of as many as may wait for Redis; failures beyond are counted by kind.
ENTRIES_PER_S = 50
MAX_WAITING = 1_000
MAX_KINDS = 200
# Written in one call.
TOGETHER = 200
OTHER = FailureKind("other", "", "")


class FailureLog:
    """Failures wait here while Redis is away. At most `most` are kept there, for `keep_ms`."""

    def __init__(self, history: FailureHistory, most: int, keep_ms: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._history = history
        self._most = most
        self._keep_ms = keep_ms
        self._waiting: deque[FailedJob] = deque()
        self._counted: Counter[FailureKind] = Counter()
        self._budget = Budget(ENTRIES_PER_S, MAX_WAITING)

    def add(self, failure: FailedJob, session_id: str) -> None:
        """`session_id` is the whole id, for the log."""
        _log.warning(
            "job.failed",
            job_id=failure.job_id,
            session_id=session_id,
            utterance_index=failure.utterance_index,
            src=failure.src,
            tgt=failure.tgt,
            code=failure.code,
            detail=failure.reason,
            node_id=failure.node_id,
            attempts=failure.attempts,
        )
        if len(self._waiting) < MAX_WAITING and self._budget.take(self._clock()):
            self._waiting.append(failure)
            return
        kind = kind_of(failure)
        self._counted[kind if kind in self._counted or len(self._counted) < MAX_KINDS else OTHER] += 1

    def forsaken(self, record: JobRecord) -> None:
        """A job whose instance is gone, and with it the speech: no other instance can go on with it."""
        src, tgt = asked_pair(record.pools)
        now_ms = int(wall_ms())
        failure = FailedJob(
            at_ms=now_ms,
            job_id=record.job_id,
            session_id=shown_session(record.session_id),
            utterance_index=record.utterance_index,
            src=src,
            tgt=tgt,
            code=ErrorCode.RESULT_LOST.value,
            reason=f"instance {record.owner} had this job and is gone",
            node_id=record.node_id,
            attempts=record.attempt,
            took_ms=max(0, now_ms - min(record.times_ms.values(), default=now_ms)),
            instance_id=record.owner,
            tenant=record.tenant,
        )
        self.add(failure, record.session_id)

    async def write(self) -> None:
        """Write what waits. Raises RedisAway; it is written when Redis is back."""
        while self._waiting:
            some = [self._waiting[place] for place in range(min(TOGETHER, len(self._waiting)))]
            await self._history.add(some, self._most, self._keep_ms)
            for _ in some:
                self._waiting.popleft()
        if self._counted:
            counted, self._counted = self._counted, Counter()
            try:
                await self._history.add(list(summaries(counted, int(wall_ms()))), self._most, self._keep_ms)
            except BaseException:
                self._counted.update(counted)
                raise
