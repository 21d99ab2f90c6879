"""Builds a picture (snapshot) of the whole deployment: a few pipelined reads of Redis, processed in slices."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container, Iterable

import msgspec

from lingua_scheduler.domain.cluster.instances import Instance
from lingua_scheduler.domain.jobs.jobs import ENDED
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.watching.alarms import (
    ABOUT_WANTED,
    MISSING,
    LostNode,
    Sight,
    alarms,
    last_to_serve,
    lost_lately,
)
from lingua_scheduler.domain.watching.chronicle import FleetMemory, fleet_alarms, newest_lost
from lingua_scheduler.domain.watching.demand import Demand, expected_pools, wanted_pools
from lingua_scheduler.domain.watching.demanded import DemandMemory, WorkTrend, remembered, rows, waiting_by_pair
from lingua_scheduler.domain.watching.failures import FailureFilter, look_of
from lingua_scheduler.domain.watching.figures import (
    JOBS_MAX,
    Figures,
    Trend,
    highest,
    latest_jobs,
    moment_of,
    most_common,
    summed,
)
from lingua_scheduler.domain.watching.handling import alarm_id, handled
from lingua_scheduler.domain.watching.lost_pairs import lost_pools
from lingua_scheduler.domain.watching.pair_work import ScalingLook
from lingua_scheduler.domain.watching.picture import Alarm, DetourLook, InstanceLook, NodeLook, Picture
from lingua_scheduler.domain.watching.rooms import rooms_look
from lingua_scheduler.domain.watching.verdict import in_order, judged
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.watching.chronicle import Chronicle
from lingua_scheduler.services.watching.fleet import Fleet, Members, fleet_of, last_errors, read_members
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.cluster.inbox import Depth
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.decoding import DECODE_ERRORS
from lingua_sdk.domain.errors import ErrorCode

_log = logs.get()

# Instances that are looked at before others get a turn.
SLICE = 200

_FIGURES = msgspec.json.Decoder(Figures)


class PictureMaker:
    """`tell` gives this instance's own figures."""

    def __init__(
        self,
        presence: Presence,
        store: Store,
        settings: Settings,
        chronicle: Chronicle,
        tell: Callable[[], Figures],
    ) -> None:
        self._presence = presence
        self._store = store
        self._settings = settings
        self._chronicle = chronicle
        self._tell = tell
        self._trend = Trend()
        self._work_trend = WorkTrend(settings.scaling.window_ms)
        self._demand = DemandMemory()
        self._members: Members = {}
        self._served_by: dict[str, str] = {}
        self._lost: dict[str, LostNode] = {}
        # Nodes that disappeared since the picture before the last one.
        self._gone: list[NodeLook] = []
        self._sight = Sight(0)
        self._missed_at_ms = 0
        self.detours: Callable[[], Awaitable[list[DetourLook]]] = _none

    async def make(self, before: Picture | None) -> Picture:
        """Build a picture. Raises RedisAway. This instance's figures are published first, so that all see the same."""
        figures = self._tell()
        _, demand = await asyncio.gather(
            self._store.instances.show(self._presence.instance, msgspec.json.encode(figures)),
            self._note(figures.asked),
        )
        (known, shown, leader, published), (now_ms, memory_used, memory, failed) = await asyncio.gather(
            asyncio.gather(
                self._presence.look(),
                self._store.instances.shown(),
                self._store.pools.leader(),
                self._store.pools.published(),
            ),
            asyncio.gather(
                self._now_ms(),
                self._store.memory_used(),
                self._chronicle.recall(),
                self._store.failures.latest(FailureFilter(), JOBS_MAX),
            ),
        )
        if memory is not None and (before is None or memory.is_fresh(now_ms)):
            self._take_over(memory, now_ms, is_first=before is None)
        told = _read({name: text for name, text in shown.items() if self._presence.counts_as_alive(name)})
        living = list(told.values())
        self._chronicle.heard(living)
        asked = {pool for figures in living for pool in (*figures.wanted, *figures.waiting)}
        wanted = wanted_pools(demand, self._settings.pools.wanted, now_ms).union(
            *(figures.wanted for figures in living)
        )
        goodbyes = {name for figures in living for name in figures.goodbyes}
        members = await self._look_at_nodes(now_ms, goodbyes)
        fleet = await fleet_of(members, asked, wanted, expected_pools(demand, self._settings.pools.wanted))
        self._served_by = last_to_serve(self._served_by, fleet.pairs, _pairs(fleet.wanted))
        leads = leader.instance if leader else None
        instances = await self._instances(known, shown, told, fleet.nodes, leads)
        rates = self._trend.look(now_ms, told)
        self._sight = self._seen(now_ms, fleet, instances)._replace(
            failed_with=await last_errors(self._store, members, now_ms),
            memory_used=memory_used,
            leader=leads,
            wanted=fleet.wanted,
            expected=_pairs(fleet.expected),
            waiting=summed(figures.waiting for figures in living),
            needed_in_rooms=summed(figures.rooms.pools for figures in living),
            unprotected=sorted(name for name, figures in told.items() if figures.is_unprotected),
            expiring={key: ends_ms for figures in living for key, ends_ms in figures.expiring.items()},
            guessing=highest(figures.guessing for figures in living),
            certificates={name: ends_ms for name, figures in told.items() if (ends_ms := figures.certificate_ends_ms)},
            refused_certificates=sorted(name for name, figures in told.items() if figures.is_certificate_refused),
        )
        since_ms = now_ms - self._settings.job.keep_ms
        # An instance of the release before writes no history.
        failures = latest_jobs(*(one.failures for one in living), map(look_of, failed))
        slow = latest_jobs(before.slow if before else (), *(one.slow for one in living), since_ms=since_ms)
        await asyncio.sleep(0)
        is_led = memory is not None and memory.is_fresh(now_ms) and not self._chronicle.is_leading()
        scaling = self._scaling(now_ms, told, is_led)
        raised = self._raised(now_ms, before, memory)
        if any(alarm.code in MISSING for alarm in raised):
            self._missed_at_ms = now_ms
        noted = await self._store.alarms.note((alarm_id(one.code, one.subject), one.since_ms) for one in raised)
        raised = in_order(handled(raised, noted, now_ms, _asked_again(demand)))
        await asyncio.sleep(0)
        picture = Picture(
            serial=before.serial + 1 if before else 1,
            at_ms=now_ms,
            is_stale=False,
            made_by=self._presence.instance,
            release=self._presence.me.version,
            redis_version=self._store.version,
            key_prefix=self._store.keys.prefix,
            now=moment_of(now_ms, rates, living, [node for node in fleet.nodes if not node.is_private]),
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
            rooms=rooms_look(figures.rooms for figures in living),
            detours=await self.detours(),
            scaling=scaling,
        )
        return judged(picture)

    def stale(self, before: Picture, now_ms: int) -> Picture:
        """The same picture, marked stale."""
        raised = alarms(self._sight._replace(at_ms=now_ms, is_redis_away=True), before.alarms)
        now = {"serial": before.serial + 1, "is_stale": True, "alarms": raised, "verdict": None}
        return judged(msgspec.structs.replace(before, **now))

    async def _now_ms(self) -> int:
        """By Redis's clock, as all that is in it."""
        seconds, micros = await self._store.line.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def _note(self, asked: Collection[str]) -> Demand:
        """Record what was asked for here. Whether it is served is known from the picture before."""
        unserved = set(lost_pools(asked, self._sight.pairs, self._sight.wide))
        return await self._store.demand.note([pool for pool in asked if pool not in unserved], unserved)

    async def _look_at_nodes(self, now_ms: int, goodbyes: Container[str]) -> Members:
        members = await read_members(self._store, now_ms, self._members)
        # A node may leave after the figures with its goodbye were read, so it is judged with those of the next picture.
        gone = [look for look in self._gone if look.node_id not in members]
        self._lost = lost_lately(self._lost, gone, members, now_ms, goodbyes)
        self._gone = [self._members[name].look for name in sorted(self._members.keys() - members.keys())]
        self._members = members
        return members

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

    def memory(self, picture: Picture) -> FleetMemory:
        return FleetMemory(
            at_ms=picture.at_ms,
            made_by=self._presence.instance,
            alarms=picture.alarms,
            served_by=self._served_by,
            lost=newest_lost(self._lost),
            demand=self._demand,
        )

    def _take_over(self, memory: FleetMemory, now_ms: int, *, is_first: bool) -> None:
        """All instances remember what the leader does; a new leader goes on with it."""
        self._served_by, self._lost = memory.served_by, memory.lost
        self._demand = memory.demand.renewed(now_ms) if is_first else memory.demand

    def _scaling(self, now_ms: int, told: dict[str, Figures], is_led: bool) -> ScalingLook:
        """`is_led`: another instance leads, and its memory was taken over a moment ago."""
        settings = self._settings.scaling
        flows = self._work_trend.look(now_ms, told)
        waiting = waiting_by_pair(self._sight.waiting)
        is_settled = self._demand.is_settled if is_led else self._work_trend.is_settled(now_ms)
        before = msgspec.structs.replace(self._demand, is_settled=is_settled)
        self._demand = remembered(flows, waiting, before, now_ms, settings.hold_ms)
        return ScalingLook(is_settled=is_settled, headroom=settings.headroom, pairs=rows(flows, waiting, self._demand))

    def _raised(self, now_ms: int, before: Picture | None, memory: FleetMemory | None) -> list[Alarm]:
        """The leader's alarms on all instances; an instance's own without a leader, or if the leader tells none."""
        if memory is not None and memory.is_fresh(now_ms) and not self._chronicle.is_leading():
            return fleet_alarms(memory, alarms(self._sight, memory.alarms))
        known = before.alarms if before else memory.alarms if memory else []
        return alarms(self._sight, known)

    def _seen(self, now_ms: int, fleet: Fleet, instances: list[InstanceLook]) -> Sight:
        ended, failed, failed_for, latency = self._trend.last_minute()
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
            failed_unserved=failed_for.get(ErrorCode.NO_CAPABLE_NODE, 0),
            failed_without_redis=failed_for.get(ErrorCode.SCHEDULER_DEPENDENCY_DOWN, 0),
            p95_ms=latency.percentile(95),
            served_by=self._served_by,
            lost=self._lost,
            slow_ms=self._settings.watch.slow_ms,
            missed_heartbeats=self._settings.nodes.missed_heartbeats,
            is_settling=not self._presence.may_judge,
            missed_at_ms=self._missed_at_ms,
        )


def _asked_again(demand: Demand) -> dict[str, int]:
    """When a pair was last asked for, by the alarms about it."""
    times: dict[str, int] = {}
    for pool, at_ms in (*demand.asked.items(), *demand.missed.items()):
        for code in ABOUT_WANTED:
            name = alarm_id(code, str(Pool.parse(pool).pair))
            times[name] = max(at_ms, times.get(name, 0))
    return times


def _pairs(pools: Iterable[str]) -> set[str]:
    return {str(Pool.parse(pool).pair) for pool in pools}


def _read(shown: dict[str, str]) -> dict[str, Figures]:
    """Those that can be read: another release may tell other things."""
    found = {}
    for name, text in shown.items():
        try:
            found[name] = _FIGURES.decode(text)
        except DECODE_ERRORS as error:
            _log.warning("figures.unreadable", instance=name, error=str(error))
    return found


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


async def _none() -> list[DetourLook]:
    return []
