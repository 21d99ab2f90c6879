"""Nodes come, beat, change and go."""

import asyncio
import random
import secrets
from collections import deque
from collections.abc import Collection, Iterable
from enum import Enum, auto
from math import gcd
from time import monotonic
from typing import Protocol

import msgspec

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.guards.rates import Bucket
from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt, shard_of
from lingua_scheduler.domain.jobs.losses import Loss
from lingua_scheduler.domain.nodes.complaints import ComplaintFilter, ComplaintRules
from lingua_scheduler.domain.nodes.nodes import (
    NODE_ID,
    BeatOutcome,
    CheckOutcome,
    DrainOutcome,
    Load,
    LoadLimits,
    PlaceOutcome,
    Profile,
    RegisterOutcome,
    RemoveOutcome,
)
from lingua_scheduler.domain.pools.pools import Admission, Membership, membership_of
from lingua_scheduler.protocol.node import NodeHeartbeat, NodeRegister
from lingua_scheduler.protocol.shapes import ErrorMessage
from lingua_scheduler.services.attempts.peers import CloseCode, NodePeer
from lingua_scheduler.services.attempts.recovery import Recovery
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.nodes.capabilities import changed_by, excess, is_new, load_of, profile_of, queue_of
from lingua_scheduler.services.nodes.pacing import Pace
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.nodes.fleet_columns import digest_of, look_of
from lingua_scheduler.store.nodes.nodes import Holder, NodeEntry, Nodes, Owner, Place
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()
PING_WITHIN_S = 2.0
# So long it is told, and of so many nodes, that they left as they had said they would.
GOODBYE_S, MAX_GOODBYES = 60.0, 1_000
# A recall looks up so many nodes, and after one that found nothing missing waits so long before it looks again.
RECALL_SAMPLE = 8
RECALL_AGAIN_S = 5.0
MAX_FRUITLESS = 1_000

REGISTRATIONS = metrics.by(metrics.REGISTRATIONS, "registered", "refused", "conflict", "world_full", "delayed")
_HEARTBEATS = metrics.by(metrics.HEARTBEATS, *BeatOutcome)
_CUT_OFF = metrics.CUT_OFF.labels("too_busy")

# How often a node is listened to when it says that it lacks a service.
COMPLAINT_RULES = ComplaintRules(debounce_ms=5_000, window_ms=10_000, most=30)
# The node is not heard of, but may be there all the same and run what it has.
VANISHED = (Loss.NODE_SILENT, Loss.NODE_GONE, Loss.INSTANCE_GONE)
# Nodes that are looked up each time stock is taken, one a shard; and how much longer than a look at all of them took
# it is until the next one.
STOCK_SAMPLE = 16
# So many nodes are passed in search of those: all that sixteen shards of the usual size can have.
STOCK_LOOKS = 2_000
REST_FACTOR = 20


class Written(Enum):
    """What became of writing a node."""

    WRITTEN = auto()
    WORLD_FULL = auto()
    HELD = auto()  # another process has the id


class OtherInstances(Protocol):
    """Asked about a node whose connection another instance holds."""

    async def is_there(self, owner: Owner, node_id: str) -> bool: ...

    async def evict(self, owner: Owner, node_id: str) -> None: ...

    def superseded(self, owner: Owner, node_id: str) -> None: ...


class NodeLink:
    """A node whose socket this instance holds."""

    __slots__ = (
        "alive_ms",
        "beaten_at_s",
        "complaints",
        "digest",
        "epoch",
        "load",
        "look",
        "membership",
        "node_id",
        "owner",
        "pace",
        "peer",
        "place",
        "profile",
        "queue",
        "run_max_s",
        "sent",
        "serves",
        "tells_interval",
        "trust",
        "written_profile",
        "written_queue",
    )

    def __init__(self, node_id: str, owner: Owner, peer: NodePeer, profile: Profile, alive_ms: int, pace: Pace) -> None:
        self.node_id = node_id
        self.pace = pace
        self.place = Place()
        self.owner = owner
        self.peer = peer
        self.profile = profile
        # The latest that Redis has taken. While it is another one, every beat is an update.
        self.written_profile: Profile | None = None
        self.alive_ms = alive_ms
        self.epoch = ""
        self.belong(Membership())
        # Attempts handed to the socket and when, until the node has answered or disowned them; of a node that does not
        # tell what it runs no longer than a job may take.
        self.run_max_s = 60.0
        self.sent: dict[str, tuple[Attempt, float]] = {}
        self.complaints = ComplaintFilter(COMPLAINT_RULES)
        # What people see of it: of what it says and serves, how busy it is, and what was written of both.
        self.digest = ""
        self.load = Load()
        self.look = ""
        # Jobs that wait for its GPU, and what was written of that; None: nobody knows what is there.
        self.queue = 0
        self.written_queue: int | None = None
        # When its last sign of life was written, and whether it said how often it gives one.
        self.beaten_at_s = monotonic()
        self.tells_interval = False
        # What Redis believes of its slots, as of its last beat: to be written again should Redis lose it.
        self.trust = ""

    def remember(self, attempt: Attempt) -> None:
        """An order leaves for the node."""
        if len(self.sent) > 4 * self.profile.max_jobs:
            self.forget_old()
        self.sent[attempt.job_id] = (attempt, monotonic())

    def forget(self, attempt: Attempt, reason: str) -> None:
        """The attempt is over for us. A node that vanished may be back, and still be at it."""
        if not self.profile.reports_jobs and reason not in VANISHED:
            self.sent.pop(attempt.job_id, None)

    def forget_old(self) -> None:
        """What a node that does not tell what it runs was sent so long ago counts as over."""
        if not self.profile.reports_jobs:
            oldest_s = monotonic() - self.run_max_s
            for job_id in [job_id for job_id, (_, sent_at) in self.sent.items() if sent_at < oldest_s]:
                del self.sent[job_id]

    def belong(self, membership: Membership) -> None:
        self.membership = membership
        # The pools of the pairs it serves, also of a wide node, which is in none of them. Asked after every job.
        self.serves: Collection[str] = membership.serves

    @property
    def pools(self) -> frozenset[str]:
        """The pools it is in."""
        return self.membership.pools

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
        self._run_max_ms = settings.job.timeout_max_ms
        self._load_limits = LoadLimits(
            cpu=settings.nodes.max_cpu_percent,
            memory=settings.nodes.max_memory_percent,
            gpu=settings.nodes.max_gpu_percent,
            gpu_memory=settings.nodes.max_gpu_memory_percent,
        )
        self._admission = Admission(self._pool_settings.admission)
        # Without it, other instances are taken for dead.
        self.others: OtherInstances | None = None
        self._links: dict[str, NodeLink] = {}
        self._max_nodes = settings.server.max_nodes
        # Nodes whose registration is under way.
        self._entering = 0
        # One second's worth may come at once.
        self._gate = Bucket(settings.server.max_registrations_per_s, settings.server.max_registrations_per_s)
        self._longest_wait_s = 1 + self._max_nodes / settings.server.max_registrations_per_s
        self._goodbyes: deque[tuple[float, str]] = deque(maxlen=MAX_GOODBYES)
        # Those that said something too fast.
        self._late: dict[str, NodeLink] = {}
        self._recalling: asyncio.Task[bool] | None = None
        # Pools for which a recall found nothing missing, and until when it need not look again.
        self._nothing_lost_until: dict[tuple[str, ...], float] = {}
        self._reassert_from_s = 0.0

    def __len__(self) -> int:
        return len(self._links)

    def find(self, node_id: str) -> NodeLink | None:
        return self._links.get(node_id)

    @property
    def links(self) -> list[NodeLink]:
        return list(self._links.values())

    async def register(self, peer: NodePeer, link_id: str, message: NodeRegister) -> NodeLink | Refusal:
        """Place the node, write it, put it into its pools; the acknowledgement may leave after that."""
        if message.node_id not in self._links and len(self._links) + self._entering >= self._max_nodes:
            REGISTRATIONS["refused"].inc()
            return Refusal(ErrorCode.NODE_UNAVAILABLE, f"{self._max_nodes} nodes are connected, no more are taken here")
        self._entering += 1
        try:
            return await self._wait_for_turn(peer) or await self._register(peer, link_id, message)
        finally:
            self._entering -= 1

    async def _wait_for_turn(self, peer: NodePeer) -> Refusal | None:
        """After an outage the whole fleet comes back at once; Redis gets it in portions, and nobody is turned away.

        Unless more of them wait than there is room for: those have left again, or never were nodes.
        """
        wait_s = self._gate.take(1, monotonic())
        if not wait_s:
            return None
        if wait_s > self._longest_wait_s:
            self._gate.take(-1, monotonic())
            REGISTRATIONS["refused"].inc()
            return Refusal(ErrorCode.NODE_UNAVAILABLE, "too many nodes want to register; try again later")
        REGISTRATIONS["delayed"].inc()
        await asyncio.sleep(wait_s)
        if not peer.is_open:
            REGISTRATIONS["refused"].inc()
            return Refusal(ErrorCode.NODE_UNAVAILABLE, "the node left while it waited for its turn")
        return None

    async def _register(self, peer: NodePeer, link_id: str, message: NodeRegister) -> NodeLink | Refusal:
        node_id = message.node_id or f"node-{secrets.token_hex(4).upper()}"
        if not NODE_ID.fullmatch(node_id):
            REGISTRATIONS["refused"].inc()
            return Refusal(ErrorCode.INVALID_MESSAGE, "node_id may hold up to 64 letters, digits, and . _ : -")
        if too_much := excess(message.language_capabilities):
            REGISTRATIONS["refused"].inc()
            return Refusal(ErrorCode.INVALID_CAPABILITY_SCHEMA, too_much)
        profile = profile_of(message, self._settings.default_max_jobs, self._settings.max_jobs)
        owner = Owner(self._instance, link_id)
        holder = await self._nodes.holder(node_id) if message.node_id else None
        if await self._is_taken(node_id, owner, profile.boot_id, holder):
            return self._conflict(node_id)
        alive_ms = self._alive_ms(message.heartbeat_interval_ms)
        former = self._links.get(node_id)
        # Registering again on one connection is a change too, and begins no new life.
        pace = former.pace if former is not None and former.owner == owner else Pace(self._settings)
        link = NodeLink(node_id, owner, peer, profile, alive_ms, pace)
        link.tells_interval = message.heartbeat_interval_ms is not None
        link.run_max_s = self._run_max_ms / 1000
        reported = self._reported(message.running_job_ids or ())
        match await self._write(link, reported, over=holder.owner if holder else None):
            case Written.HELD:
                # Somebody else was quicker.
                return self._conflict(node_id)
            case Written.WORLD_FULL:
                REGISTRATIONS["world_full"].inc()
                most = self._pool_settings.shard_size * self._pool_settings.max_shards
                return Refusal(ErrorCode.NODE_UNAVAILABLE, f"the fleet is full: it has room for {most} nodes")
        former = self._links.get(node_id)
        if former is not None:
            former.sent.update(link.sent)
            link.sent = former.sent
        self._links[node_id] = link
        metrics.NODES.set(len(self._links))
        REGISTRATIONS["registered"].inc()
        if former is not None and former.peer is not peer:
            former.peer.close(CloseCode.SUPERSEDED, "the node connected again")
        if holder is not None and holder.owner.instance != self._instance and self.others is not None:
            self.others.superseded(holder.owner, node_id)
        _log.info("node.registered", node_id=node_id, shard=link.shard, pools=len(link.serves), slots=profile.max_jobs)
        return link

    async def _is_taken(self, node_id: str, owner: Owner, boot_id: str, holder: Holder | None) -> bool:
        """Whether another process is connected with this id, and answers. The same one may come back at any time."""
        former = self._links.get(node_id)
        is_another = former is not None and not (boot_id and boot_id == former.profile.boot_id)
        # Asked also when Redis has forgotten it.
        if former is not None and is_another and former.owner != owner and await former.peer.answers(PING_WITHIN_S):
            return True
        if holder is None or holder.owner == owner or (boot_id and boot_id == holder.boot_id):
            return False
        if holder.owner.instance == self._instance or self.others is None:
            # Ours, and judged above; or left by a former life of this instance.
            return False
        return await self.others.is_there(holder.owner, node_id)

    def _conflict(self, node_id: str) -> Refusal:
        REGISTRATIONS["conflict"].inc()
        _log.warning("node.id_conflict", node_id=node_id)
        return Refusal(ErrorCode.NODE_ID_CONFLICT, f"another node is connected as {node_id}; choose another id")

    async def heartbeat(self, link: NodeLink, message: NodeHeartbeat) -> BeatOutcome:
        """A heartbeat that changes nothing costs one cheap script. What comes too fast waits, and the newest wins."""
        if not link.pace.may_beat():
            self._put_off(link, message)
            return BeatOutcome.PUT_OFF
        return await self._heed(link, message)

    async def heed_late(self) -> None:
        """What nodes said too fast, a while ago."""
        for link in list(self._late.values()):
            message = link.pace.put_off
            if message is None or not self._is_current(link):
                self._late.pop(link.node_id, None)
            elif link.pace.is_time() and link.pace.may_beat():
                del self._late[link.node_id]
                await self._heed(link, message)

    async def _heed(self, link: NodeLink, message: NodeHeartbeat) -> BeatOutcome:
        read_at = monotonic()
        message = link.pace.catch_up(message)
        if message.heartbeat_interval_ms is not None:
            link.alive_ms = self._alive_ms(message.heartbeat_interval_ms)
        load = load_of(message.resource_usage)
        if load.differs(link.load):
            link.load = load
        link.queue = queue_of(message.resource_usage)
        profile = self._changed(link, message)
        if profile != link.profile:
            # Before Redis is asked for anything: it may be away, and the node does not say it again.
            link.profile = profile
        if message.running_job_ids is not None:
            await self._reconcile(link, message.running_job_ids)
        outcome = await self._beat(link)
        _HEARTBEATS[outcome].inc()
        metrics.HEARTBEAT_SECONDS.observe(monotonic() - read_at)
        is_put_off = outcome is BeatOutcome.ALIVE and link.pace.put_off is not None
        return BeatOutcome.PUT_OFF if is_put_off else outcome

    def _changed(self, link: NodeLink, message: NodeHeartbeat) -> Profile:
        """What the node says of itself by now; as before, if it changes that too often."""
        is_paid = is_new(message.language_capabilities)
        if is_paid and not link.pace.may_change(message.language_capabilities):
            # Not even read.
            self._put_off(link, message, is_change=True)
            return link.profile
        if too_much := excess(message.language_capabilities):
            # What it said before holds, and all else it says counts.
            link.peer.post(ErrorMessage(code=ErrorCode.INVALID_CAPABILITY_SCHEMA.value, message=too_much))
            message = msgspec.structs.replace(message, language_capabilities=None)
        profile = changed_by(message, link.profile, self._settings.max_jobs, self._load_limits)
        if profile != link.profile and not is_paid and not link.pace.may_change(message.language_capabilities):
            self._put_off(link, message, is_change=True)
            return link.profile
        return profile

    def _put_off(self, link: NodeLink, message: NodeHeartbeat, *, is_change: bool = False) -> None:
        _HEARTBEATS[BeatOutcome.PUT_OFF].inc()
        self._late[link.node_id] = link
        if not link.pace.wait(message, is_change=is_change):
            self.cut_off(link)

    def cut_off(self, link: NodeLink) -> None:
        """It goes on and on."""
        _CUT_OFF.inc()
        _log.warning("node.too_busy", node_id=link.node_id)
        link.peer.close(CloseCode.MISBEHAVED, "too many heartbeats, or changes; connect again")

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
        owner = Owner(instance, connection)
        lost = await self._remove(place, owner, node_id, frozenset(view.pools), Loss.NODE_EVICTED)
        if self.others is not None and instance != self._instance:
            await self.others.evict(owner, node_id)
        return lost

    async def _evict_here(self, link: NodeLink) -> list[Attempt]:
        lost = await self._remove(link.place, link.owner, link.node_id, link.pools, Loss.NODE_EVICTED)
        self.send_away(link)
        return lost

    def send_away(self, link: NodeLink) -> None:
        """Close the connection of a node that was evicted; what it says until it is closed brings it back nowhere."""
        if self._is_current(link):
            del self._links[link.node_id]
            metrics.NODES.set(len(self._links))
        link.peer.close(CloseCode.COME_BACK, "somebody evicted the node; connect again")

    async def drain(self, node_id: str, *, resume: bool = False) -> tuple[DrainOutcome, int]:
        """Out of the pools, or back into them; how many jobs the node still holds."""
        found = await self._nodes.drain(node_id, resume=resume)
        self._pool_map.changed()
        return found

    async def show_life(self, link: NodeLink) -> BeatOutcome:
        """A sign of life that says nothing else."""
        return await self._beat(link)

    async def vouch(self) -> None:
        """A node that does not say how often it beats is alive as long as its socket answers pings."""
        now_s = monotonic()
        quiet = [
            link
            for link in self._links.values()
            if not link.tells_interval
            and now_s - link.beaten_at_s > link.alive_ms / 1000 / self._settings.missed_heartbeats
            and link.peer.is_heard
        ]
        await asyncio.gather(*map(self.show_life, quiet))

    async def remove_overdue(self, shard: int, node_id: str) -> None:
        """The sweep's way: only if no sign of life came in time."""
        place = await self._nodes.place_of(node_id)
        if place is None or place.shard != shard:
            place = Place(shard)
        await self._remove(place, Owner("", ""), node_id, frozenset(), Loss.NODE_SILENT)

    async def recall(self, pools: tuple[str, ...]) -> bool:
        """Nobody in Redis serves all of these pools. True: we hold nodes that do, Redis lacked some, and has them now.

        A node that somebody drained serves them too, and is rightly in none: such a look finds nothing, and is not
        repeated for every utterance.
        """
        now_s = monotonic()
        if now_s < self._nothing_lost_until.get(pools, 0.0):
            return False
        mine = [link for link in self._links.values() if all(pool in link.serves for pool in pools)]
        if not mine:
            return False
        is_own_look = self._recalling is None or self._recalling.done()
        if self._recalling is None or is_own_look:
            self._recalling = asyncio.create_task(self._recall(mine))
        is_lost = await asyncio.shield(self._recalling)
        if is_own_look and not is_lost:
            if len(self._nothing_lost_until) >= MAX_FRUITLESS:
                self._nothing_lost_until.clear()
            self._nothing_lost_until[pools] = now_s + RECALL_AGAIN_S
        return is_lost

    async def _recall(self, links: list[NodeLink]) -> bool:
        """A few are looked up first: everybody is written again only if something of one of them is missing."""
        # Of a wide pool only the definition may be lost: one member of each.
        wide = {(link.shard, link.pools): link for link in links if link.membership.definition}
        is_lost = bool(await self._torn([*links[:RECALL_SAMPLE], *wide.values()]))
        if is_lost:
            await self.reassert()
        return is_lost

    async def reassert(self) -> None:
        """Redis is back, perhaps empty: every node whose socket is open is written again where something is missing."""
        began_s = monotonic()
        links = self.links
        try:
            misplaced = await self._nodes.misplaced({link.node_id: link.place for link in links})
        except RedisAway:  # a part of a Cluster; the other parts need not wait for it
            misplaced = set()
        outcomes = await asyncio.gather(
            *(self._assert(link, link.node_id in misplaced) for link in links), return_exceptions=True
        )
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if misplaced:
            await self.recount_places()
        restored = sum(outcome is True for outcome in outcomes)
        self._reassert_from_s = monotonic() + REST_FACTOR * (monotonic() - began_s)
        _log.info("nodes.reasserted", nodes=len(outcomes), restored=restored, failures=len(failures))

    async def recount_places(self, registered: Iterable[int] = ()) -> None:
        """`registered` are shards in which nodes are registered, besides those of ours."""
        shards = {link.shard for link in self._links.values()}.union(registered)
        await self._nodes.recount_places(
            self._pool_settings.max_shards, self._pool_settings.shard_size, registered=sorted(shards)
        )

    async def take_stock(self) -> None:
        """Look up a node of each shard: where Redis lacks something of one, it may lack the same of all."""
        if monotonic() < self._reassert_from_s:
            return
        some = _one_a_shard(self.links)
        if not some:
            return
        torn, misplaced = await asyncio.gather(
            self._torn(some), self._nodes.misplaced({link.node_id: link.place for link in some})
        )
        if torn:
            # It may have been in the middle of a change.
            torn = await self._torn(list(torn))
        if torn or misplaced:
            missing = sorted({*torn.values(), *(["placement"] if misplaced else [])})
            _log.warning("nodes.torn", missing=missing, nodes=len(torn) + len(misplaced))
            await self.reassert()

    async def _torn(self, links: list[NodeLink]) -> dict[NodeLink, str]:
        """Those of which something is missing, and what."""
        found = await asyncio.gather(
            *(self._nodes.check(link.shard, link.owner, link.node_id, link.pools) for link in links)
        )
        return {
            link: what or outcome.value
            for link, (outcome, what) in zip(links, found, strict=True)
            if outcome in (CheckOutcome.TORN, CheckOutcome.GONE) and self._is_current(link)
        }

    async def _assert(self, link: NodeLink, is_misplaced: bool) -> bool:
        """Whether something had to be written again."""
        link.forget_old()
        outcome, _ = await self._nodes.check(link.shard, link.owner, link.node_id, link.pools, list(link.sent))
        is_torn = is_misplaced or outcome in (CheckOutcome.TORN, CheckOutcome.GONE)
        if not is_torn:
            await self._beat(link)
        elif self._is_current(link):
            await self._restore(link)
        return is_torn

    def _reported(self, running: Collection[str]) -> set[str]:
        return {job_id for job_id in list(running)[: 2 * self._settings.max_jobs] if shard_of(job_id) is not None}

    async def _reconcile(self, link: NodeLink, running: list[str]) -> None:
        """Compare what the node runs with what we gave it, both ways.

        Of what it was given a while ago Redis is asked for the leases by name; only one that is missing costs more.
        """
        reported = self._reported(running)
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
        # Also what we did give it, when it takes long: its lease may have ended before the job.
        doubtful = [job_id for job_id in reported if job_id in link.sent and link.sent[job_id][1] < settled_before]
        if strange := [job_id for job_id in reported if job_id not in link.sent]:
            doubtful += strange[: link.pace.may_adopt(len(strange))]
        if doubtful:
            for job_id in doubtful:
                attempt = Attempt(job_id, ADOPTED, link.node_id, link.shard)
                link.sent.setdefault(job_id, (attempt, float("-inf")))
            believed = [link.sent[job_id][0] for job_id in doubtful]
            adopted = await self._nodes.adopt(link.shard, link.owner, link.node_id, believed, self._bound_ms(link))
            if adopted:
                _log.warning("leases.adopted", node_id=link.node_id, adopted=len(adopted))
                await self._account(link, adopted)

    def _bound_ms(self, link: NodeLink) -> int:
        """How long a job without a lease of its own holds its slot, if nobody says that it is over, or still runs."""
        return max(self._linger_ms, link.alive_ms) if link.profile.reports_jobs else self._run_max_ms

    async def _account(self, link: NodeLink, adopted: Collection[str]) -> None:
        """Remembered under the name of the adopted lease, so that it ends when the node lets go of the job."""
        over = []
        for job_id in adopted:
            attempt = Attempt(job_id, ADOPTED, link.node_id, link.shard)
            known = link.sent.get(job_id)
            if known is None:
                # Its result came while Redis was asked.
                over.append(attempt)
            else:
                link.sent[job_id] = (attempt, float("-inf") if link.profile.reports_jobs else known[1])
        if over:
            await self._recovery.end_disowned(over)

    async def _beat(self, link: NodeLink) -> BeatOutcome:
        """A sign of life, with what has changed."""
        link.beaten_at_s = monotonic()
        if link.written_profile is not link.profile:
            return await self._update(link)
        look = look_of(link.digest, link.alive_ms, link.load)
        news = "" if look == link.look else look
        queue = None if link.queue == link.written_queue else link.queue
        outcome, trust = await self._nodes.beat(link.shard, link.owner, link.node_id, link.alive_ms, news, queue)
        is_trust_lost = outcome is BeatOutcome.ALIVE and trust == "" != link.trust
        link.trust = trust or link.trust
        link.look = look
        if queue is not None:
            link.written_queue = queue
        match outcome:
            case BeatOutcome.GONE if self._is_current(link):
                return await self._restore(link)
            case BeatOutcome.SUPERSEDED:
                link.peer.close(CloseCode.SUPERSEDED, "the node is connected elsewhere")
            case BeatOutcome.ALIVE if is_trust_lost:
                return await self._update(link)
        return outcome

    async def _update(self, link: NodeLink) -> BeatOutcome:
        was, profile = link.pools, link.profile
        link.belong(self._membership(profile))
        registered = await self._nodes.update(link.shard, link.owner, self._entry(link), was)
        self._pool_map.changed()
        if registered.outcome is RegisterOutcome.REGISTERED:
            link.written_profile = profile
        match registered.outcome:
            case RegisterOutcome.GONE if not self._is_current(link):
                return BeatOutcome.GONE
            case RegisterOutcome.GONE:
                return await self._restore(link)
            case RegisterOutcome.SUPERSEDED:
                link.peer.close(CloseCode.SUPERSEDED, "the node is connected elsewhere")
                return BeatOutcome.SUPERSEDED
        return BeatOutcome.ALIVE

    def _is_current(self, link: NodeLink) -> bool:
        """A node that was evicted must not write itself back through its closing socket."""
        return self._links.get(link.node_id) is link

    async def _write(self, link: NodeLink, reported: Collection[str], over: Owner | None = None) -> Written:
        """Write the node as new, in its place or the lowest free one."""
        outcome, place = await self._nodes.place(
            link.node_id, self._pool_settings.shard_size, self._pool_settings.max_shards
        )
        if outcome is PlaceOutcome.WORLD_FULL:
            return Written.WORLD_FULL
        link.place = place
        profile = link.profile
        link.belong(self._membership(profile))
        for job_id in reported:
            link.sent[job_id] = (Attempt(job_id, ADOPTED, link.node_id, link.shard), float("-inf"))
        registered = await self._nodes.register(link.shard, link.owner, self._entry(link), over)
        if registered.outcome is RegisterOutcome.HELD:
            return Written.HELD
        link.written_profile = profile
        link.written_queue = None
        link.epoch = registered.epoch
        self._pool_map.changed()
        await self._recovery.end_overdue(registered.handed_back, Loss.NODE_RETURNED)
        if link.profile.reports_jobs and not registered.handed_back:
            # The same process may come from another instance. What it was given there and does not run, as its first
            # heartbeat tells after the results it kept, never reached it.
            for lease in await self._nodes.leases(link.node_id, link.shard):
                link.sent[lease.attempt.job_id] = (lease.attempt, float("-inf"))
        return Written.WRITTEN

    async def _restore(self, link: NodeLink) -> BeatOutcome:
        """Write a node again that Redis has lost, or lost a part of; with what it runs, before it is given more."""
        _, link.place = await self._nodes.restore_place(
            link.node_id, link.place, self._pool_settings.shard_size, self._pool_settings.max_shards
        )
        was, profile = link.pools, link.profile
        link.belong(self._membership(profile))
        link.forget_old()
        registered = await self._nodes.restore(link.shard, link.owner, self._entry(link), was, link.epoch)
        if registered.outcome is RegisterOutcome.SUPERSEDED:
            link.peer.close(CloseCode.SUPERSEDED, "the node is connected elsewhere")
            return BeatOutcome.SUPERSEDED
        link.written_profile = profile
        link.written_queue = None
        link.epoch = registered.epoch
        self._pool_map.changed()
        if registered.adopted:
            _log.warning("leases.adopted", node_id=link.node_id, adopted=len(registered.adopted))
            await self._account(link, registered.adopted)
        return BeatOutcome.ALIVE

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
            features=profile.features,
            takes_jobs=profile.takes_jobs and not profile.is_overloaded,
            max_jobs=profile.max_jobs,
            alive_ms=link.alive_ms,
            pools=link.pools,
            state=profile.state(bool(link.pools)),
            profile=said,
            look=link.look,
            reach=link.membership.definition,
            running=tuple(link.sent),
            bound_ms=self._bound_ms(link),
            believed_slots=self._settings.believed_slots,
            trust=link.trust,
        )

    def _membership(self, profile: Profile) -> Membership:
        return membership_of(profile.languages, self._admission) if profile.takes_jobs else Membership()

    def _alive_ms(self, interval_ms: float | None) -> int:
        if interval_ms is None:
            return self._settings.heartbeat_interval_ms * self._settings.missed_heartbeats
        # Nobody may claim to be alive for ever, nor be swept between two beats.
        return int(min(max(interval_ms, 1_000), 60_000) * self._settings.missed_heartbeats)


def _one_a_shard(links: list[NodeLink]) -> list[NodeLink]:
    """A link of each of some shards, from a random one on.

    Neighbours are mostly of one shard, so it goes on in long steps, which meet every link once.
    """
    count, found = len(links), dict[int, NodeLink]()
    if not count:
        return []
    # Of all steps, those near the golden ratio spread best.
    place, step = random.randrange(count), max(1, round(count * 0.618))
    while gcd(step, count) > 1:
        step -= 1
    for _ in range(min(count, STOCK_LOOKS)):
        link = links[place]
        found.setdefault(link.shard, link)
        if len(found) == STOCK_SAMPLE:
            break
        place = (place + step) % count
    return list(found.values())
