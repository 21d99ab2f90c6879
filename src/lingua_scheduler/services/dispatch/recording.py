"""Records jobs without an attempt, and why jobs wait or fail. Rate limited: beyond the limit they are only counted."""

from collections.abc import Sequence

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.guards.rates import Budget
from lingua_scheduler.domain.jobs.attempts import NoteOutcome, Try
from lingua_scheduler.domain.jobs.job_ids import JobId
from lingua_scheduler.protocol.http_jobs import Explanation
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.errors import ErrorCode

_log = logs.get()

RECORDS_PER_S = 50
EXPLANATIONS_PER_S = 20
# Explanations that are being made; Redis is slow if there are more, and needs no more to do.
EXPLAINING_MAX = 20


class Recorder:
    def __init__(
        self,
        instance: str,
        store: Store,
        pool_map: PoolMapCopy,
        explainer: Explainer,
        keep_ms: int,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._instance = instance
        self._store = store
        self._pool_map = pool_map
        self._explainer = explainer
        self._keep_ms = keep_ms
        self._records = Budget(RECORDS_PER_S)
        self._explanations = Budget(EXPLANATIONS_PER_S)
        self._explaining = 0
        self._tasks = Nursery("session_records")

    def waits(self, work: Work, wanted: Try) -> None:
        """A job begins to wait for its first attempt: it gets an id, and can be found and cancelled."""
        if wanted.job_id or not self._may_record():
            return
        wanted.begin_in(self._home(work))
        # Not awaited: later commands about the job go to the same server, after it.
        self._tasks.start(self._note(work, wanted))
        self.explain(work, wanted.shard, wanted.job_id)

    async def refused(self, work: Work, wanted: Try, error: ErrorCode, detail: str) -> NoteOutcome | None:
        """A job ends without an attempt; None if it was only counted. Sets its id if it had none."""
        if not wanted.job_id:
            if not self._may_record():
                return None
            wanted.begin_in(self._home(work))
        outcome = await self._note(work, wanted, error.value, detail)
        if outcome is NoteOutcome.NOTED:
            self.explain(work, wanted.shard, wanted.job_id, headline=detail)
        return outcome

    def explain(self, work: Work, shard: int, identifier: str, tried: Sequence[str] = (), headline: str = "") -> None:
        """Off the hot path: examine the candidates and store the explanation in the job's record."""
        if self._explaining < EXPLAINING_MAX and self._explanations.take(self._clock()):
            self._explaining += 1
            self._tasks.start(self._explain(self._named(work), shard, identifier, tried, headline))

    def tell_ladder(self, job_id: str, told: str) -> None:
        """Off the hot path: store that a job is one of several of its utterance."""
        at = JobId.parse(job_id)
        if at is not None and self._explaining < EXPLAINING_MAX and self._explanations.take(self._clock()):
            self._explaining += 1
            explanation = Explanation(headline="", looked_at_ms=int(wall_ms()), ladder=told)
            self._tasks.start(self._keep(at.shard, job_id, explanation))

    def note_of(self, work: Work, wanted: Try, error: str = "", detail: str = "") -> JobNote:
        """What is written of a job that has an id and no attempt."""
        return JobNote(
            job_id=wanted.job_id,
            pools=self._named(work),
            session_id=work.session_id,
            utterance_index=work.utterance_index,
            owner=self._instance,
            error=error,
            detail=detail,
            belongs_to=work.belongs_to,
            tenant=work.owning_tenant,
        )

    async def missing_for(self, work: Work) -> str:
        """What no node serves, in words; empty when there is nothing to say."""
        return await self._explainer.missing_for(work.pools, work.whose)

    async def close(self) -> None:
        await self._tasks.close()

    def _may_record(self) -> bool:
        if self._records.take(self._clock()):
            return True
        metrics.RECORDS_SKIPPED.inc()
        return False

    def _home(self, work: Work) -> int:
        """The shard that keeps a job no shard has taken."""
        lane = self._pool_map.lanes(work.whose)[-1]
        return next(iter(lane.map.shard_order(work.pools[0], 0.0)), 0)

    def _named(self, work: Work) -> tuple[str, ...]:
        """Its pools as they are tried last."""
        return self._pool_map.lanes(work.whose)[-1].names(work.pools)

    async def _note(self, work: Work, wanted: Try, error: str = "", detail: str = "") -> NoteOutcome | None:
        note = self.note_of(work, wanted, error, detail)
        try:
            return await self._store.jobs.note(wanted.shard, note, self._keep_ms)
        except RedisAway:
            _log.warning("job.not_recorded", job_id=wanted.job_id)
            return None

    async def _explain(
        self, pools: Sequence[str], shard: int, identifier: str, tried: Sequence[str], headline: str
    ) -> None:
        try:
            explanation = await self._explainer.survey(pools, tried, headline)
        except RedisAway:
            self._explaining -= 1  # it can still be asked for
        except BaseException:
            self._explaining -= 1
            raise
        else:
            await self._keep(shard, identifier, explanation)

    async def _keep(self, shard: int, job_id: str, explanation: Explanation) -> None:
        """Counted as one that is being explained until then."""
        try:
            await self._store.jobs.explain(shard, job_id, msgspec.json.encode(explanation).decode())
        except RedisAway:
            pass  # it can still be asked for
        finally:
            self._explaining -= 1
