"""Makes a picture of the whole scheduler: a few pipelined round trips to Redis, put together in slices."""

import asyncio
from collections.abc import Callable, Container, Iterable
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.cluster.instances import Instance
from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.jobs import ENDED, JobState
from lingua_scheduler.domain.nodes.nodes import Machine
from lingua_scheduler.domain.pools.reach import SPEECH
from lingua_scheduler.domain.watching.alarms import Lost, Sight, alarms, last_to_serve, lost_lately, served_lately
from lingua_scheduler.domain.watching.figures import Figures, Rates, Trend, latest_jobs, most_common, summed
from lingua_scheduler.domain.watching.pairs import PROBATION, QUARANTINED, Pairs
from lingua_scheduler.domain.watching.picture import (
    InstanceLook,
    JobLook,
    Moment,
    NodeLook,
    PairLook,
    Picture,
    WideLook,
)
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.cluster.inbox import Depth
from lingua_scheduler.store.jobs.records import JobRecord
from lingua_scheduler.store.nodes.fleet_columns import Row, Said
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs

_log = logs.get()

# Nodes and instances that are looked at before others get a turn.
SLICE = 200
FAILURES_SOUGHT = 20
_PERCENTILES = (50, 95, 99)
_UNHEARD = Said("", "", [], [], Machine(), [], [])

_FIGURES = msgspec.json.Decoder(Figures)


class Fleet(NamedTuple):
    nodes: list[NodeLook]
    pairs: list[PairLook]
    wide: list[WideLook]


class PictureMaker:
    """`tell` gives this instance's own figures."""

    def __init__(self, presence: Presence, store: Store, settings: Settings, tell: Callable[[], Figures]) -> None:
        self._presence = presence
        self._store = store
        self._settings = settings
        self._tell = tell
        self._trend = Trend()
        # Nodes that did not change look the same, literally: whoever compares two pictures sees it at once.
        self._looks: dict[str, tuple[Row, Said, NodeLook]] = {}
        self._served_at_ms: dict[str, int] = {}
        self._served_by: dict[str, str] = {}
        self._lost: dict[str, Lost] = {}
        self._sight = Sight(0)

    async def make(self, before: Picture | None) -> Picture:
        """Raises RedisAway. What this instance counts is told to the others first, so that all see the same."""
        await self._store.instances.show(self._presence.instance, msgspec.json.encode(self._tell()))
        known, shown, leader, published, now_ms, memory_used = await asyncio.gather(
            self._presence.look(),
            self._store.instances.shown(),
            self._store.pools.leader(),
            self._store.pools.published(),
            self._now_ms(),
            self._store.memory_used(),
        )
        told = _read({name: text for name, text in shown.items() if self._presence.counts_as_alive(name)})
        living = list(told.values())
        wanted = {pool for figures in living for pool in figures.wanted}
        self._served_at_ms = served_lately(self._served_at_ms, (), now_ms)
        goodbyes = {name for figures in living for name in figures.goodbyes}
        asked = wanted.union(*(figures.waiting for figures in living))
        fleet = await self._fleet(now_ms, {pool.rpartition(":")[0] for pool in asked}, goodbyes)
        self._served_at_ms = served_lately(self._served_at_ms, fleet.pairs, now_ms)
        self._served_by = last_to_serve(self._served_by, fleet.pairs, self._served_at_ms)
        leads = leader.instance if leader else None
        instances = await self._instances(known, shown, told, fleet.nodes, leads)
        rates = self._trend.look(now_ms, told)
        self._sight = self._seen(now_ms, fleet, instances)._replace(
            memory_used=memory_used, leader=leads, wanted=wanted, waiting=summed(figures.waiting for figures in living)
        )
        slow, failures = await self._jobs(now_ms, before, living)
        await asyncio.sleep(0)
        raised = alarms(self._sight, before.alarms if before else [])
        await asyncio.sleep(0)
        return Picture(
            serial=before.serial + 1 if before else 1,
            at_ms=now_ms,
            is_stale=False,
            made_by=self._presence.instance,
            release=self._presence.me.version,
            redis_version=self._store.version,
            key_prefix=self._store.keys.prefix,
            now=_moment(now_ms, rates, living, fleet.nodes),
            jobs_ended={state.value: 0 for state in ENDED} | summed(figures.jobs_ended for figures in living),
            session_languages=most_common(summed(figures.session_languages for figures in living)),
            nodes=fleet.nodes,
            pairs=before.pairs if before and before.pairs == fleet.pairs else fleet.pairs,
            wide=fleet.wide,
            instances=instances,
            leader=leads,
            map_version=published.version,
            map_made_at_ms=published.generated_at_ms,
            dead_letters=self._sight.dead_letters,
            failures=failures,
            slow=slow,
            alarms=raised,
        )

    def stale(self, before: Picture, now_ms: int) -> Picture:
        """The same, known to be old."""
        raised = alarms(self._sight._replace(at_ms=now_ms, is_redis_away=True), before.alarms)
        return msgspec.structs.replace(before, serial=before.serial + 1, is_stale=True, alarms=raised)

    async def _now_ms(self) -> int:
        """By Redis's clock, as all that is in it."""
        seconds, micros = await self._store.line.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def _fleet(self, now_ms: int, asked: Iterable[str], goodbyes: Container[str]) -> Fleet:
        rows: list[Row] = []
        async for some in self._store.looks.rows():
            rows += some
        said = await self._store.looks.said(rows)
        nodes: list[NodeLook] = []
        looks: dict[str, tuple[Row, Said, NodeLook]] = {}
        pairs = Pairs()
        for place, row in enumerate(rows):
            told = said.get(row.digest, _UNHEARD)
            node = self._look(row, told, now_ms, looks)
            nodes.append(node)
            pairs.add(node, told.reach)
            if place % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        gone = [self._looks[name][2] for name in sorted(self._looks.keys() - looks.keys())]
        self._lost = lost_lately(self._lost, gone, looks, now_ms, goodbyes)
        self._looks = looks
        for pair in asked:
            pairs.mention(pair)
        for pair in self._served_at_ms:
            pairs.mention_unless_covered(pair)
        wide = []
        for look in pairs.wide_looks():
            wide.append(look)
            await asyncio.sleep(0)
        return Fleet(nodes, pairs.looks(), wide)

    def _look(self, row: Row, said: Said, now_ms: int, looks: dict[str, tuple[Row, Said, NodeLook]]) -> NodeLook:
        known = self._looks.get(row.node_id)
        if known is not None and known[0] == row and known[1] is said and not _is_sick(row):
            looks[row.node_id] = known
            return known[2]
        node = _node(row, said, now_ms)
        if known is not None and known[2] == node:
            node = known[2]
        looks[row.node_id] = (row, said, node)
        return node

    async def _instances(
        self,
        known: dict[str, Instance],
        shown: dict[str, str],
        told: dict[str, Figures],
        nodes: list[NodeLook],
        leader: str | None,
    ) -> list[InstanceLook]:
        owned: dict[str, int] = {}
        for node in nodes:
            owned[node.instance_id] = owned.get(node.instance_id, 0) + 1
        await asyncio.sleep(0)
        found = []
        names = sorted(known)
        for first in range(0, len(names), SLICE):
            some = names[first : first + SLICE]
            for name, depth in zip(some, await asyncio.gather(*map(self._store.inboxes.depth, some)), strict=True):
                is_alive = self._presence.counts_as_alive(name)
                look = _instance(known[name], depth, told.get(name), owned.get(name, 0), is_alive)
                has_left = not is_alive and name not in shown
                found.append(msgspec.structs.replace(look, is_leader=name == leader, has_left=has_left))
        return found

    async def _jobs(
        self, now_ms: int, before: Picture | None, living: list[Figures]
    ) -> tuple[list[JobLook], list[JobLook]]:
        """The slow and the failed ones, as long as they can be looked up."""
        if before is None:
            # What failed before we came is in Redis; from now on each instance tells of its own.
            records = await self._store.jobs.latest(state=JobState.FAILED.value, limit=FAILURES_SOUGHT)
            known_slow, known_failed = [], [_job(record) for record in records]
        else:
            known_slow, known_failed = before.slow, before.failures
        since_ms = now_ms - self._settings.job.keep_ms
        return (
            latest_jobs(known_slow, *(figures.slow for figures in living), since_ms=since_ms),
            latest_jobs(known_failed, *(figures.failures for figures in living), since_ms=since_ms),
        )

    def _seen(self, now_ms: int, fleet: Fleet, instances: list[InstanceLook]) -> Sight:
        ended, failed, latency = self._trend.last_minute()
        return Sight(
            at_ms=now_ms,
            nodes=fleet.nodes,
            pairs=fleet.pairs,
            wide=fleet.wide,
            instances=instances,
            dead_letters=sum(instance.dead_letters for instance in instances),
            unreadable=self._store.unreadable.lately,
            jobs_ended=ended,
            jobs_failed=failed,
            p95_ms=latency.percentile(95),
            served_at_ms=self._served_at_ms,
            served_by=self._served_by,
            lost=self._lost,
            slow_ms=self._settings.watch.slow_ms,
            missed_heartbeats=self._settings.nodes.missed_heartbeats,
        )


def _read(shown: dict[str, str]) -> dict[str, Figures]:
    """Those that can be read: another release may tell other things."""
    found = {}
    for name, text in shown.items():
        try:
            found[name] = _FIGURES.decode(text)
        except msgspec.MsgspecError as error:
            _log.warning("figures.unreadable", instance=name, error=str(error))
    return found


def _is_sick(row: Row) -> bool:
    """What follows from these changes as time passes, without anybody writing anything."""
    return bool(row.quarantined_until_ms or row.unavailable)


def _node(row: Row, said: Said, now_ms: int) -> NodeLook:
    state = row.state
    if row.quarantined_until_ms:
        state = QUARANTINED if row.quarantined_until_ms > now_ms else PROBATION
    return NodeLook(
        node_id=row.node_id,
        instance_id=row.instance,
        state=state,
        shard=row.shard,
        max_jobs=row.max_jobs,
        held=row.held,
        free=row.free,
        seen_at_ms=row.alive_until_ms - row.alive_ms,
        alive_until_ms=row.alive_until_ms,
        quarantined_until_ms=row.quarantined_until_ms,
        unavailable=sorted(service for service, until in row.unavailable if until > now_ms),
        speech=said.speech,
        text=said.text,
        services=said.services,
        version=said.version,
        platform=said.platform,
        cpu=row.load.cpu,
        memory=row.load.memory,
        gpu=row.load.gpu,
        types=said.types,
        cores=said.machine.cores,
        memory_gb=said.machine.memory_gb,
        gpu_gb=said.machine.gpu_gb,
        wide=said.wide if said.reach else "",
        wide_pairs=said.reach.count(SPEECH) if said.reach else 0,
    )


def _instance(found: Instance, depth: Depth, told: Figures | None, nodes: int, is_alive: bool) -> InstanceLook:
    return InstanceLook(
        instance_id=found.instance_id,
        is_alive=is_alive,
        is_leader=False,
        host=found.host,
        pid=found.pid,
        version=found.version,
        address=found.address,
        started_at_ms=found.started_at_ms,
        silent_ms=found.silent_ms,
        inbox_letters=depth.letters,
        inbox_pending=depth.pending,
        dead_letters=depth.dead,
        nodes=nodes,
        sessions=told.sessions if told else 0,
        jobs_waiting=told.jobs_waiting if told else 0,
        seals=found.seals,
    )


def _moment(now_ms: int, rates: Rates, living: list[Figures], nodes: list[NodeLook]) -> Moment:
    per_s = {state: round(rate, 2) for state, rate in rates.ended.items()}
    p50, p95, p99 = (_tenths(rates.latency.percentile(percent)) for percent in _PERCENTILES)
    return Moment(
        at_ms=now_ms,
        done_per_s=per_s[JobState.DONE],
        no_text_per_s=per_s[JobState.NO_TEXT],
        failed_per_s=per_s[JobState.FAILED],
        cancelled_per_s=per_s[JobState.CANCELLED],
        retries_per_s=round(rates.retries, 2),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        sessions=sum(figures.sessions for figures in living),
        jobs_waiting=sum(figures.jobs_waiting for figures in living),
        slots_taken=sum(node.held for node in nodes),
        slots_total=sum(node.max_jobs for node in nodes),
    )


def _tenths(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _job(record: JobRecord) -> JobLook:
    src, _, rest = (record.pools[0] if record.pools else "").partition(":")
    began_ms = record.times_ms.get("created", min(record.times_ms.values(), default=0))
    ended_ms = record.times_ms.get("ended", began_ms)
    return JobLook(
        job_id=record.job_id,
        state=record.state,
        src=src,
        tgt=rest.partition(":")[0],
        node_id=record.node_id,
        attempts=record.attempt,
        # A sentence may quote a node; a code does not.
        reason=ErrorCode.__members__.get(record.reason, ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED).value,
        ended_at_ms=ended_ms,
        took_ms=max(0, ended_ms - began_ms),
    )
