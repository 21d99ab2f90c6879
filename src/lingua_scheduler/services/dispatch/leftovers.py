"""What Redis keeps of a job that is over here: Redis was away when it had to be told, and is told when it is back."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.attempts import Attempt, Try
from lingua_scheduler.domain.jobs.jobs import LIVE, JobEvent
from lingua_scheduler.services.dispatch.running import AttemptRunner
from lingua_scheduler.setting_sections.jobs import JobSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

CONTINUED = "continued under another job id"
# Jobs that wait for Redis to be told of; beyond, slots stay leased until their deadline, and records until they expire.
WAITING_MAX = 10_000
# Of each shard, so that live jobs need not wait behind thousands of these when Redis is back, and so that a part of a
# Cluster that stays away is asked by few.
AT_ONCE = 8


class _Left(NamedTuple):
    """A record that may exist, with the attempt it may have."""

    shard: int
    job_id: str
    number: int


class Leftovers:
    def __init__(self, store: Store, runner: AttemptRunner, settings: JobSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._store = store
        self._runner = runner
        self._settings = settings
        self._places: defaultdict[int, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self.tasks = Nursery("cleanups")

    def let_go(self, wanted: Try, placed: Attempt | None = None) -> None:
        """Redis became unavailable while leasing a slot, and may have leased one that will not be used."""
        for left in _doubtful(wanted):
            if placed is None or left.shard != placed.shard:
                is_other_job = placed is not None and left.job_id != placed.job_id
                if self._has_room(left.job_id):
                    self.tasks.start(self._let_go(left, is_other_job))
        wanted.doubtful = ()

    def close(self, wanted: Try, event: JobEvent, reason: str, note: Callable[[Try], JobNote] | None = None) -> None:
        """The job is over here, and has an id from now on if Redis may have begun it.

        `note` makes what is written of a job that had no attempt.
        """
        lefts = _doubtful(wanted)
        wanted.doubtful = ()
        if lefts and not wanted.job_id:
            wanted.begin_in(lefts[0].shard)
        if not wanted.job_id or not self._has_room(wanted.job_id):
            return
        if wanted.number == 1 and note is not None:
            self.tasks.start(self._close(lefts, event, reason, wanted.shard, note(wanted)))
        else:
            before = _Left(wanted.shard, wanted.job_id, wanted.number - 1)
            self.tasks.start(self._close([*lefts, before], event, reason))

    async def _let_go(self, left: _Left, is_other_job: bool) -> None:
        async def end() -> None:
            await self._free(left)
            if is_other_job:
                await self._store.jobs.close(*left, JobEvent.CANCEL, CONTINUED)

        with suppress(RedisAway):  # it ends at its deadline
            await self._insist(left.shard, end, self._clock() + self._settings.timeout_max_ms / 1000)

    async def _close(
        self, lefts: list[_Left], event: JobEvent, reason: str, shard: int = -1, note: JobNote | None = None
    ) -> None:
        async def end(left: _Left) -> None:
            await self._free(left)
            await self._store.jobs.close(*left, event, reason)

        give_up_at = self._clock() + self._settings.keep_ms / 1000
        with suppress(RedisAway):  # the record has expired by then
            for left in lefts:
                await self._insist(left.shard, partial(end, left), give_up_at)
            if note is not None:
                write = partial(self._store.jobs.note, shard, note, self._settings.keep_ms)
                await self._insist(shard, write, give_up_at)

    async def _insist(self, shard: int, call: Callable[[], Awaitable[object]], give_up_at: float) -> None:
        async with self._places[shard]:
            await self._store.insist(call, give_up_at - self._clock())

    def _has_room(self, job_id: str) -> bool:
        if len(self.tasks) < WAITING_MAX:
            return True
        _log.warning("job.left_open", job_id=job_id)
        return False

    async def _free(self, left: _Left) -> None:
        record = await self._store.jobs.read(left.shard, left.job_id)
        if record.get("state") in LIVE and record["attempt"] == str(left.number):
            await self._runner.free(Attempt(left.job_id, left.number, record["node"], left.shard))


def _doubtful(wanted: Try) -> list[_Left]:
    return [_Left(shard, wanted.id_in(shard), wanted.number) for shard in dict.fromkeys(wanted.doubtful)]
