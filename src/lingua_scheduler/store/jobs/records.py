"""Queries of job records: one by its id, in whichever shard it is now, or the latest ones."""

import asyncio
from typing import NamedTuple

from lingua_scheduler.domain.access.visibility import EVERY_JOB, Visibility, tenant_of_job
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.history import JobStep, steps_of
from lingua_scheduler.domain.jobs.job_ids import JobHandle, JobId
from lingua_scheduler.domain.jobs.jobs import LIVE, JobState
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.sessions.names import shown_session
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import fields_of, is_shard, is_text
from lingua_scheduler.store.unreadable import UnreadableKeys

# How many entries of recent jobs a shard keeps, about; those that began together share one.
RECENT_MAX = 2_000
# Bounds of one query: entries examined in all shards, records read, and records returned.
LOOKED_AT_MAX = 10_000
READ_MAX = 2_000
LISTED_MAX = 500
READ_TOGETHER = 25
# One more than the most retries: no job has been in more shards.
POINTERS_MAX = 101
ID_MAX_CHARS = 128
# A job in one of these states may continue in another shard; in any other state its record is here.
_WAITS = (JobState.CREATED, JobState.RETRYING)


class JobRecord(NamedTuple):
    job_id: str
    shard: int
    state: str
    attempt: int
    node_id: str
    # The node must be in every one of these.
    pools: tuple[str, ...]
    session_id: str
    utterance_index: int
    owner: str
    reason: str
    detail: str
    # When it was created, dispatched, accepted …, as far as it was.
    times_ms: dict[str, int]
    # Oldest first.
    history: tuple[JobStep, ...]
    explanation: str
    # Digest of the principal whose job it is; empty if it needed no credential.
    belongs_to: str = ""
    # The tenant whose job it is; empty if that is not known.
    tenant: str = ""

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    def is_for(self, visible: Visibility) -> bool:
        """Whether a caller who sees so much may know of it."""
        return visible.shows(self.belongs_to, self.tenant)


class JobFilter(NamedTuple):
    """Empty, or None: any."""

    state: str = ""
    session: str = ""
    # It had an attempt there.
    node_id: str = ""
    # As src:tgt.
    pair: str = ""
    # It began then or later.
    since_ms: int = 0
    visible: Visibility = EVERY_JOB

    def takes(self, record: JobRecord) -> bool:
        wanted = (
            (self.state, (record.state,)),
            # Compared in its shortened form: a caller that does not know the whole id learns no more of it.
            (self.session, (shown_session(record.session_id),)),
            (self.node_id, (record.node_id, *(step.node_id for step in record.history))),
            (self.pair, (str(Pool.parse(pool).pair) for pool in record.pools)),
        )
        began_ms = min(record.times_ms.values(), default=0)
        if began_ms < self.since_ms or not record.is_for(self.visible):
            return False
        return all(not asked or asked in found for asked, found in wanted)


ANY = JobFilter()


class Records:
    def __init__(self, line: RedisLine, keys: Keys, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._unreadable = unreadable

    async def read(self, shard: int, job_id: str) -> dict[str, str]:
        """Empty when there is no such job."""
        text = await self._line.call("GET", self._keys.shard(shard).job(job_id))
        fields = fields_of(text)
        if text is not None and not fields:
            self._unreadable.met("record", job_id)
        return fields

    async def find(self, job_id: str) -> JobRecord | None:
        """Begin in the shard the id names, and follow the pointers a job leaves behind."""
        job_id = JobHandle.parse(job_id).job_id
        named = JobId.parse(job_id)
        if named is None or len(job_id) > ID_MAX_CHARS:
            return None
        shard = named.shard
        found: JobRecord | None = None
        for _ in range(POINTERS_MAX):
            fields = await self.read(shard, job_id)
            if not fields:
                break
            try:
                record, moved_to = _record(job_id, shard, fields), int(fields.get("moved_to", -1))
            except ValueError:
                # It looked like a record, but is not one.
                self._unreadable.met("record", job_id)
                break
            if found is not None and record.attempt <= found.attempt:
                # It moved back here: only its history is new.
                return found._replace(history=_in_order(found.history + record.history))
            found = _follows(found, record)
            if moved_to < 0 or found.state not in _WAITS:
                break
            shard = moved_to
        return found

    async def latest(self, asked: JobFilter = ANY, limit: int = 50) -> list[JobRecord]:
        """The latest jobs of all shards, newest first; how far back one look reaches is bounded."""
        limit, asked = min(limit, LISTED_MAX), asked._replace(session=shown_session(one_line(asked.session)))
        newest_first = await self.ids(
            session=asked.session,
            most=RECENT_MAX if asked != ANY else limit,
            even_old=not asked.state or asked.state in LIVE,
        )
        found: list[JobRecord] = []
        for first in range(0, min(len(newest_first), READ_MAX), READ_TOGETHER):
            some = newest_first[first : first + READ_TOGETHER]
            records = await asyncio.gather(*map(self.find, some))
            found += (record for record in records if record is not None and asked.takes(record))
            if len(found) >= limit:
                break
        return found[:limit]

    async def ids(self, *, session: str = "", most: int = RECENT_MAX, even_old: bool = True) -> list[str]:
        """The jobs that began lately, `most` of each shard and a bounded number in all, newest first.

        `even_old`: also those that run for so long that others have pushed them out of the recent ones.
        """
        shards = sorted({0, *map(int, filter(is_shard, await self._line.call("ZRANGE", self._keys.load, 0, -1)))})
        each = max(1, min(most, LOOKED_AT_MAX // len(shards)))
        began: dict[str, tuple[int, int, int]] = {}
        for entries in await asyncio.gather(*(self._recent(shard, each) for shard in shards)):
            for moment, job_id, of_session in entries:
                if not session or shown_session(of_session) == session:
                    began[job_id] = min(moment, began.get(job_id, moment))
        if even_old:
            for jobs in await asyncio.gather(*(self._leased(shard, each) for shard in shards)):
                for job_id in jobs:
                    # Its age is not known here.
                    began.setdefault(job_id, (0, 0, 0))
        return sorted(began, key=lambda job_id: began[job_id], reverse=True)

    async def _recent(self, shard: int, most: int) -> list[tuple[tuple[int, int, int], str, str]]:
        entries = await self._line.call("XREVRANGE", self._keys.shard(shard).recent, "+", "-", "COUNT", most)
        found: list[tuple[tuple[int, int, int], str, str]] = []
        for moment, flat in entries:
            ms, _, serial = moment.partition("-")
            # `job` id `session` id, and so on: jobs that began together share an entry, in their order.
            if len(flat) % 4 or not all(map(is_text, flat)):
                self._unreadable.met("recent", self._keys.shard(shard).recent)
                continue
            began = zip(flat[1::4], flat[3::4], strict=True)
            found += (((int(ms), int(serial), place), job, session) for place, (job, session) in enumerate(began))
        return found[:most]

    async def _leased(self, shard: int, most: int) -> list[str]:
        leases = await self._line.call("ZRANGE", self._keys.shard(shard).leases, 0, most - 1)
        return [attempt.job_id for attempt in Attempt.parse_all(leases, shard)]


def one_line(text: str) -> str:
    """What callers said may be anything; a record has one line for it."""
    return text if text.isprintable() else " ".join(text.split())


def _record(job_id: str, shard: int, fields: dict[str, str]) -> JobRecord:
    history = steps_of(fields["steps"])
    return JobRecord(
        job_id=job_id,
        shard=shard,
        state=fields.get("state", ""),
        attempt=int(fields.get("attempt", 0)),
        node_id=fields.get("node", ""),
        pools=(*fields.get("pool", "").split(), *fields.get("also", "").split()),
        session_id=fields.get("session", ""),
        utterance_index=int(fields.get("utterance", -1)),
        owner=fields.get("owner", ""),
        reason=history[-1].reason if history else "",
        detail=fields.get("detail", ""),
        times_ms={step.moment: step.at_ms for step in history},
        history=tuple(history),
        explanation=fields.get("explanation", ""),
        belongs_to=fields.get("belongs_to", ""),
        tenant=tenant_of_job(fields.get("belongs_to", ""), fields.get("tenant", "")),
    )


def _follows(before: JobRecord | None, record: JobRecord) -> JobRecord:
    """What was written about the job where it was before still belongs to it."""
    if before is None:
        return record
    return record._replace(
        times_ms=before.times_ms | record.times_ms,
        history=_in_order(before.history + record.history),
        explanation=record.explanation or before.explanation,
    )


def _in_order(steps: tuple[JobStep, ...]) -> tuple[JobStep, ...]:
    return tuple(sorted(steps, key=lambda step: (step.attempt, step.at_ms)))
