"""Keeps what Redis has of a connected node true: its place, its pools, its profile, its signs of life."""

from collections.abc import Collection
from enum import Enum, auto

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.domain.nodes.nodes import BeatOutcome, NodeClaimOutcome, PlaceOutcome, Profile, RegisterOutcome
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.pools.pools import Admission, Membership, membership_of, private_membership
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.nodes.links import NodeLink, NodeLinks
from lingua_scheduler.services.nodes.running_jobs import RunningJobs
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.nodes.fleet_columns import digest_of, look_of
from lingua_scheduler.store.nodes.nodes import NodeEntry
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs

_log = logs.get()


# How often the claim of a connected node on its id is renewed.
CLAIM_AGAIN_S = 3_600.0
# A part of the first quarantine: so soon a node that was restarted may show that it is mended.
PROBE_SHARE = 0.25


class Written(Enum):
    """What became of writing a node."""

    WRITTEN = auto()
    WORLD_FULL = auto()
    HELD = auto()  # another process has the id


class NodeWriter:
    def __init__(
        self,
        store: Store,
        links: NodeLinks,
        pool_map: PoolMapCopy,
        running: RunningJobs,
        settings: Settings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._nodes = store.nodes
        self._placements = store.placements
        self._claims = store.claims
        self._links = links
        self._pool_map = pool_map
        self._running = running
        self._pools = settings.pools
        self._admission = Admission(settings.pools.admission)
        self._believed_slots = settings.nodes.believed_slots
        self._probe_ms = int(PROBE_SHARE * settings.nodes.quarantine_ms)

    async def claim(self, node_id: str, principal: Principal) -> NodeClaimOutcome:
        """The id belongs to the principal from here on, unless it is another's."""
        if not principal.owner_digest:
            return NodeClaimOutcome.CLAIMED
        is_bound = principal.node_id == node_id
        return await self._claims.claim(node_id, principal.owner_digest, principal.tenant, is_bound=is_bound)

    async def _claim_again(self, link: NodeLink) -> None:
        if link.belongs_to:
            await self.claim(link.node_id, link.peer.principal)
            link.claimed_at_s = self._clock()

    async def register(self, link: NodeLink, running: Collection[str], over: Owner | None = None) -> Written:
        """Write the node as new, in its place or the lowest free one."""
        outcome, place = await self._placements.assign(link.node_id, self._pools.shard_size, self._pools.max_shards)
        if outcome is PlaceOutcome.WORLD_FULL:
            return Written.WORLD_FULL
        link.place = place
        profile = link.profile
        link.belong(self._membership(link, profile))
        for job_id in self._running.reported(running):
            link.sent[job_id] = (Attempt(job_id, ADOPTED, link.node_id, link.shard), float("-inf"))
        registered = await self._nodes.register(link.shard, link.owner, self._entry(link), over)
        if registered.outcome is RegisterOutcome.HELD:
            return Written.HELD
        link.written_profile = profile
        link.written_queue = None
        link.epoch = registered.epoch
        link.quarantined_until_ms = registered.quarantined_until_ms
        self._pool_map.changed()
        await self._running.take_over(link, registered.handed_back)
        return Written.WRITTEN

    async def beat(self, link: NodeLink) -> BeatOutcome:
        """A sign of life, with what has changed."""
        link.beaten_at_s = self._clock()
        if link.beaten_at_s - link.claimed_at_s > CLAIM_AGAIN_S:
            await self._claim_again(link)
        if link.written_profile is not link.profile:
            return await self.update(link)
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
            case BeatOutcome.GONE if self._links.is_current(link):
                return await self.restore(link)
            case BeatOutcome.SUPERSEDED:
                link.peer.close(CloseCode.SUPERSEDED, "the node is connected elsewhere")
            case BeatOutcome.ALIVE if is_trust_lost:
                return await self.update(link)
        return outcome

    async def update(self, link: NodeLink) -> BeatOutcome:
        was, profile = link.pools, link.profile
        link.belong(self._membership(link, profile))
        registered = await self._nodes.update(link.shard, link.owner, self._entry(link), was)
        self._pool_map.changed()
        if registered.outcome is RegisterOutcome.REGISTERED:
            link.written_profile = profile
        match registered.outcome:
            case RegisterOutcome.GONE if not self._links.is_current(link):
                return BeatOutcome.GONE
            case RegisterOutcome.GONE:
                return await self.restore(link)
            case RegisterOutcome.SUPERSEDED:
                link.peer.close(CloseCode.SUPERSEDED, "the node is connected elsewhere")
                return BeatOutcome.SUPERSEDED
        return BeatOutcome.ALIVE

    async def restore(self, link: NodeLink) -> BeatOutcome:
        """Write a node again that Redis has lost, or lost a part of; with what it runs, before it is given more."""
        link.doubt()
        await self._claim_again(link)
        _, link.place = await self._placements.restore(
            link.node_id, link.place, self._pools.shard_size, self._pools.max_shards
        )
        was, profile = link.pools, link.profile
        link.belong(self._membership(link, profile))
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
            await self._running.account(link, registered.adopted)
        return BeatOutcome.ALIVE

    def _entry(self, link: NodeLink) -> NodeEntry:
        profile = link.profile
        principal = link.peer.principal
        about: dict[str, object] = {
            "version": profile.version,
            "platform": profile.platform,
            "services": profile.services,
            "types": sorted({service.kind for service in profile.installed}),
            "machine": profile.machine,
            "languages": profile.languages,
            "reports_jobs": profile.reports_jobs,
            "tenant": principal.tenant,
            "is_private": principal.is_private,
        }
        if profile.features.text_input:
            about["text_input"] = True
        said = msgspec.json.encode(about).decode()
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
            bound_ms=self._running.bound_ms(link),
            believed_slots=self._believed_slots,
            probe_ms=self._probe_ms,
            trust=link.trust,
        )

    def _membership(self, link: NodeLink, profile: Profile) -> Membership:
        """Its credential alone says whether it is private. The node itself has no say in that."""
        if not profile.takes_jobs:
            return Membership()
        found = membership_of(profile.languages, self._admission, takes_text=profile.features.text_input)
        principal = link.peer.principal
        return private_membership(found, principal.tenant) if principal.is_private else found
