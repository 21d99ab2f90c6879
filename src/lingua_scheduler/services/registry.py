"""Nodes come, beat, change and go."""

import asyncio
import re
import secrets
from collections import deque
from time import monotonic
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.attempts import ADOPTED, Attempt, shard_of
from lingua_scheduler.domain.complaints import ComplaintFilter, ComplaintRules
from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.losses import Loss
from lingua_scheduler.domain.nodes import (
    BeatOutcome,
    DrainOutcome,
    Load,
    LoadLimits,
    PlaceOutcome,
    Profile,
    RegisterOutcome,
    RemoveOutcome,
)
from lingua_scheduler.domain.pools import Admission, pools_for
from lingua_scheduler.protocol.node import NodeHeartbeat, NodeRegister
from lingua_scheduler.services.capabilities import changed_by, load_of, profile_of
from lingua_scheduler.services.peers import CloseCode, NodePeer
from lingua_scheduler.services.poolmap import PoolMapCopy
from lingua_scheduler.services.recovery import Recovery
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.looks import digest_of, look_of
from lingua_scheduler.store.nodes import NodeEntry, Nodes, Owner, Place
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()
PING_WITHIN_S = 2.0
# So long it is told, and of so many nodes, that they left as they had said they would.
GOODBYE_S, MAX_GOODBYES = 60.0, 1_000

REGISTRATIONS = metrics.by(metrics.REGISTRATIONS, "registered", "refused", "conflict", "world_full", "delayed")
_HEARTBEATS = metrics.by(metrics.HEARTBEATS, *BeatOutcome)

# How often a node is listened to when it says that it lacks a service.
COMPLAINT_RULES = ComplaintRules(debounce_ms=5_000, window_ms=10_000, most=30)
# Ids become parts of keys and leases.
_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


class Refusal(NamedTuple):
    code: ErrorCode
    message: str


class NodeLink:
    """A node whose socket this instance holds."""

    __slots__ = (
        "alive_ms",
        "complaints",
        "digest",
        "epoch",
        "load",
        "look",
        "node_id",
        "owner",
        "peer",
        "place",
        "pools",
        "profile",
        "sent",
    )

    def __init__(self, node_id: str, owner: Owner, peer: NodePeer, profile: Profile, alive_ms: int) -> None:
        self.node_id = node_id
        self.place = Place()
        self.owner = owner
        self.peer = peer
        self.profile = profile
        self.alive_ms = alive_ms
        self.epoch = ""
        self.pools: frozenset[str] = frozenset()
        # Attempts handed to the socket and when, until the node has answered or disowned them.
        self.sent: dict[str, tuple[Attempt, float]] = {}
        self.complaints = ComplaintFilter(COMPLAINT_RULES)
        # What people see of it: of what it says and serves, how busy it is, and what was written of both.
        self.digest = ""
        self.load = Load()
        self.look = ""

    @property
    def shard(self) -> int:
        return self.place.shard


class Registry:
    def __init__(
        self,
        instance: str,
        nodes: Nodes,
        pool_map: PoolMapCopy,
        recovery: Recovery,
        settings: Settings,
    ) -> None:
        self._instance = instance
        self._nodes = nodes
        self._pool_map = pool_map
        self._recovery = recovery
        self._settings = settings.nodes
        self._pool_settings = settings.pools
        self._linger_ms = settings.job.linger_ms
        self._load_limits = LoadLimits(
            cpu=settings.nodes.max_cpu_percent,
            memory=settings.nodes.max_memory_percent,
            gpu=settings.nodes.max_gpu_percent,
            gpu_memory=settings.nodes.max_gpu_memory_percent,
        )
        self._admission = Admission(self._pool_settings.admission)
        self._links: dict[str, NodeLink] = {}
        self._goodbyes: deque[tuple[float, str]] = deque(maxlen=MAX_GOODBYES)
        self._recalling: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._links)

    def find(self, node_id: str) -> NodeLink | None:
        return self._links.get(node_id)

    @property
    def links(self) -> list[NodeLink]:
        return list(self._links.values())

    async def register(self, peer: NodePeer, link_id: str, message: NodeRegister) -> NodeLink | Refusal:
        """Place the node, write it, put it into its pools; the acknowledgement may leave after that."""
        node_id = message.node_id or f"node-{secrets.token_hex(4).upper()}"
        if not _NODE_ID.fullmatch(node_id):
            REGISTRATIONS["refused"].inc()
            return Refusal(ErrorCode.INVALID_MESSAGE, "node_id may hold up to 64 letters, digits, and . _ : -")
        profile = profile_of(message, self._settings.default_max_jobs, self._settings.max_jobs)
        former = self._links.get(node_id)
        if former is not None and former.peer is not peer and not await self._may_replace(former, profile):
            REGISTRATIONS["conflict"].inc()
            return Refusal(ErrorCode.NODE_ID_CONFLICT, f"another node is connected as {node_id}; choose another id")
        alive_ms = self._alive_ms(message.heartbeat_interval_ms)
        link = NodeLink(node_id, Owner(self._instance, link_id), peer, profile, alive_ms)
        if not await self._write(link):
            REGISTRATIONS["world_full"].inc()
            most = self._pool_settings.shard_size * self._pool_settings.max_shards
            return Refusal(ErrorCode.NODE_UNAVAILABLE, f"the fleet is full: it has room for {most} nodes")
        former = self._links.get(node_id)
        if former is not None:
            link.sent = former.sent
        self._links[node_id] = link
        metrics.NODES.set(len(self._links))
        REGISTRATIONS["registered"].inc()
        if former is not None and former.peer is not peer:
            former.peer.close(CloseCode.SUPERSEDED, "the node connected again")
        _log.info("node.registered", node_id=node_id, shard=link.shard, pools=len(link.pools), slots=profile.max_jobs)
        return link

    async def heartbeat(self, link: NodeLink, message: NodeHeartbeat) -> BeatOutcome:
        """A heartbeat that changes nothing costs one cheap script."""
        read_at = monotonic()
        if message.heartbeat_interval_ms is not None:
            link.alive_ms = self._alive_ms(message.heartbeat_interval_ms)
        if message.running_job_ids is not None:
            await self._reconcile(link, message.running_job_ids)
        load = load_of(message.resource_usage)
        if load.differs(link.load):
            link.load = load
        profile = changed_by(message, link.profile, self._settings.max_jobs, self._load_limits)
        if profile != link.profile:
            link.profile = profile
            outcome = await self._update(link)
        else:
            outcome = await self._beat(link)
        _HEARTBEATS[outcome].inc()
        metrics.HEARTBEAT_SECONDS.observe(monotonic() - read_at)
        return outcome

    @property
    def goodbyes(self) -> list[str]:
        """Nodes that took no more work and then left, in the last minute."""
        since_s = monotonic() - GOODBYE_S
        return [node_id for left_s, node_id in self._goodbyes if left_s > since_s]

    async def gone(self, link: NodeLink) -> None:
        """The socket closed: the node is gone at once and its work goes elsewhere."""
        if self._links.get(link.node_id) is link:
            del self._links[link.node_id]
            if not link.profile.takes_jobs:
                self._goodbyes.append((monotonic(), link.node_id))
            metrics.NODES.set(len(self._links))
        try:
            await self._remove(link.place, link.owner, link.node_id, link.pools, Loss.NODE_GONE)
        except RedisAway:
            # Its time runs out in Redis, and a sweep finds it.
            _log.warning("node.left_behind", node_id=link.node_id)

    async def evict(self, node_id: str) -> list[Attempt] | None:
        """Out at once, wherever its socket is; its attempts go elsewhere. None: there is no such node."""
        link = self._links.get(node_id)
        if link is not None:
            return await self._evict_here(link)
        place = await self._nodes.place_of(node_id)
        view = None if place is None else await self._nodes.view_one(node_id, place.shard)
        link = self._links.get(node_id)
        if link is not None:
            # It came here while Redis was asked: without its place, but with its socket, it would be back at once.
            return await self._evict_here(link)
        if place is None or view is None:
            return None
        _, instance, connection, _ = view.owner.split(" ")
        return await self._remove(place, Owner(instance, connection), node_id, frozenset(view.pools), Loss.NODE_EVICTED)

    async def _evict_here(self, link: NodeLink) -> list[Attempt]:
        lost = await self._remove(link.place, link.owner, link.node_id, link.pools, Loss.NODE_EVICTED)
        if self._is_current(link):
            del self._links[link.node_id]
            metrics.NODES.set(len(self._links))
        link.peer.close(CloseCode.COME_BACK, "somebody evicted the node; connect again")
        return lost

    async def drain(self, node_id: str, *, resume: bool = False) -> tuple[DrainOutcome, int]:
        """Out of the pools, or back into them; how many jobs the node still holds."""
        found = await self._nodes.drain(node_id, resume=resume)
        self._pool_map.changed()
        return found

    async def show_life(self, link: NodeLink) -> BeatOutcome:
        """A sign of life that says nothing else."""
        return await self._beat(link)

    async def remove_overdue(self, shard: int, node_id: str) -> None:
        """The sweep's way: only if no sign of life came in time."""
        place = await self._nodes.place_of(node_id)
        if place is None or place.shard != shard:
            place = Place(shard)
        await self._remove(place, Owner("", ""), node_id, frozenset(), Loss.NODE_SILENT)

    async def recall(self, pool: str) -> bool:
        """Redis says that nobody serves a pool, and we hold somebody who does: it has lost its data. True if so."""
        if not any(pool in link.pools for link in self._links.values()):
            return False
        if self._recalling is None or self._recalling.done():
            self._recalling = asyncio.create_task(self.reassert())
        await asyncio.shield(self._recalling)
        return True

    async def reassert(self) -> None:
        """Redis is back, perhaps empty: every node whose socket is open is written again where it is missing."""
        outcomes = await asyncio.gather(*(self._beat(link) for link in self.links), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        _log.info("nodes.reasserted", nodes=len(outcomes), failures=len(failures))

    async def _may_replace(self, former: NodeLink, profile: Profile) -> bool:
        """The same node coming back: the same process, or the old socket leads nowhere."""
        if profile.boot_id and profile.boot_id == former.profile.boot_id:
            return True
        return not await former.peer.answers(PING_WITHIN_S)

    async def _reconcile(self, link: NodeLink, running: list[str]) -> None:
        """Compare what the node runs with what we gave it; both ways, and only a difference costs anything."""
        reported = {job_id for job_id in running[: 2 * self._settings.max_jobs] if shard_of(job_id) is not None}
        # What was sent a moment ago may have crossed with this report.
        settled_before = asyncio.get_running_loop().time() - link.alive_ms / 1000 / self._settings.missed_heartbeats
        disowned = [
            attempt
            for job_id, (attempt, sent_at) in link.sent.items()
            if job_id not in reported and sent_at < settled_before
        ]
        for attempt in disowned:
            del link.sent[attempt.job_id]
        if disowned:
            _log.warning("attempts.disowned", node_id=link.node_id, attempts=len(disowned))
            await self._recovery.end_disowned(disowned)
        unknown = [job_id for job_id in reported if job_id not in link.sent]
        if unknown:
            adopted = await self._nodes.adopt(link.shard, link.owner, link.node_id, unknown, self._linger_ms)
            if adopted:
                _log.warning("leases.adopted", node_id=link.node_id, adopted=adopted)
            for job_id in unknown:
                # Remembered under the name of the adopted lease, so that it ends when the node lets go of the job.
                attempt = Attempt(job_id, ADOPTED, link.node_id, link.shard)
                link.sent[job_id] = (attempt, float("-inf"))

    async def _beat(self, link: NodeLink) -> BeatOutcome:
        look = look_of(link.digest, link.alive_ms, link.load)
        news = "" if look == link.look else look
        outcome = await self._nodes.beat(link.shard, link.owner, link.node_id, link.alive_ms, news)
        link.look = look
        match outcome:
            case BeatOutcome.GONE if self._is_current(link):
                await self._write(link)
                return BeatOutcome.ALIVE
            case BeatOutcome.SUPERSEDED:
                link.peer.close(CloseCode.SUPERSEDED, "the node is connected elsewhere")
        return outcome

    async def _update(self, link: NodeLink) -> BeatOutcome:
        was, link.pools = link.pools, self._pools(link.profile)
        registered = await self._nodes.update(link.shard, link.owner, self._entry(link), was)
        self._pool_map.changed()
        match registered.outcome:
            case RegisterOutcome.GONE if not self._is_current(link):
                return BeatOutcome.GONE
            case RegisterOutcome.GONE:
                await self._write(link)
            case RegisterOutcome.SUPERSEDED:
                link.peer.close(CloseCode.SUPERSEDED, "the node is connected elsewhere")
                return BeatOutcome.SUPERSEDED
        return BeatOutcome.ALIVE

    def _is_current(self, link: NodeLink) -> bool:
        """A node that was evicted must not write itself back through its closing socket."""
        return self._links.get(link.node_id) is link

    async def _write(self, link: NodeLink) -> bool:
        """Write the node as new, in its place or the lowest free one; False when there is none."""
        outcome, place = await self._nodes.place(
            link.node_id, self._pool_settings.shard_size, self._pool_settings.max_shards
        )
        if outcome is PlaceOutcome.WORLD_FULL:
            return False
        link.place = place
        link.pools = self._pools(link.profile)
        registered = await self._nodes.register(link.shard, link.owner, self._entry(link))
        link.epoch = registered.epoch
        self._pool_map.changed()
        await self._recovery.end_overdue(registered.handed_back, Loss.NODE_RETURNED)
        if link.profile.reports_jobs and not registered.handed_back:
            # The same process may come from another instance. What it was given there and does not run, as its first
            # heartbeat tells after the results it kept, never reached it.
            for lease in await self._nodes.leases(link.node_id, link.shard):
                link.sent.setdefault(lease.attempt.job_id, (lease.attempt, float("-inf")))
        return True

    async def remove_orphan(self, shard: int, node_id: str, owner: Owner) -> None:
        """Its instance is dead. If it has come back elsewhere meanwhile, the owner differs and nothing happens."""
        outcome, attempts = await self._nodes.remove(shard, owner, node_id, frozenset())
        if outcome is RemoveOutcome.REMOVED:
            self._pool_map.changed()
            await self._recovery.end_overdue(attempts, Loss.INSTANCE_GONE)
            _log.info("node.orphaned", node_id=node_id, instance=owner.instance, attempts=len(attempts))

    async def _remove(
        self, place: Place, owner: Owner, node_id: str, pools: frozenset[str], reason: str
    ) -> list[Attempt]:
        """The attempts that were lost with it."""
        outcome, attempts = await self._nodes.remove(place.shard, owner, node_id, pools)
        if outcome is not RemoveOutcome.REMOVED:
            return []
        self._pool_map.changed()
        await self._recovery.end_overdue(attempts, reason)
        await self._nodes.unplace(node_id, place)
        _log.info("node.removed", node_id=node_id, reason=reason, attempts=len(attempts))
        return attempts

    def _entry(self, link: NodeLink) -> NodeEntry:
        profile = link.profile
        said = msgspec.json.encode(
            {
                "version": profile.version,
                "platform": profile.platform,
                "services": profile.services,
                "types": sorted({service.kind for service in profile.installed}),
                "machine": profile.machine,
                "languages": profile.languages,
                "reports_jobs": profile.reports_jobs,
            }
        ).decode()
        link.digest = digest_of(link.pools, said)
        link.look = look_of(link.digest, link.alive_ms, link.load)
        return NodeEntry(
            node_id=link.node_id,
            boot_id=profile.boot_id,
            acknowledges=profile.acknowledges,
            takes_jobs=profile.takes_jobs and not profile.is_overloaded,
            max_jobs=profile.max_jobs,
            alive_ms=link.alive_ms,
            pools=link.pools,
            state=profile.state(bool(link.pools)),
            profile=said,
            look=link.look,
        )

    def _pools(self, profile: Profile) -> frozenset[str]:
        return pools_for(profile.languages, self._admission) if profile.takes_jobs else frozenset()

    def _alive_ms(self, interval_ms: float | None) -> int:
        if interval_ms is None:
            return self._settings.heartbeat_interval_ms * self._settings.missed_heartbeats
        # Nobody may claim to be alive for ever, nor be swept between two beats.
        return int(min(max(interval_ms, 1_000), 60_000) * self._settings.missed_heartbeats)
