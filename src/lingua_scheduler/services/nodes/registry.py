"""Nodes register: one connection for each id, at the rate Redis can take."""

import asyncio
import secrets

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.guards.rates import Bucket
from lingua_scheduler.domain.nodes.nodes import NODE_ID, NodeClaimOutcome
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.services.attempts.peers import CloseCode, NodePeer
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.nodes.capabilities import most_slots, profile_of, refusal_of
from lingua_scheduler.services.nodes.heartbeats import alive_ms
from lingua_scheduler.services.nodes.holders import PING_WITHIN_S, Holders
from lingua_scheduler.services.nodes.links import NodeLink, NodeLinks
from lingua_scheduler.services.nodes.node_writer import NodeWriter, Written
from lingua_scheduler.services.nodes.pacing import Pace
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.nodes.owners import Holder, Owners
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import NodeRegister

_log = logs.get()

REGISTRATIONS = metrics.by(metrics.REGISTRATIONS, "registered", "refused", "conflict", "world_full", "delayed")


class Registry:
    """Without `holders`, other instances are taken for dead."""

    def __init__(
        self,
        links: NodeLinks,
        owners: Owners,
        writer: NodeWriter,
        holders: Holders | None,
        settings: Settings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._links = links
        self._owners = owners
        self._writer = writer
        self._holders = holders
        self._settings = settings.nodes
        self._run_max_s = settings.job.timeout_max_ms / 1000
        self._max_placed = settings.pools.shard_size * settings.pools.max_shards
        self._max_nodes = settings.server.max_nodes
        # Nodes whose registration is under way.
        self._entering = 0
        # One second's worth may come at once.
        self._gate = Bucket(settings.server.max_registrations_per_s, settings.server.max_registrations_per_s)
        self._longest_wait_s = 1 + self._max_nodes / settings.server.max_registrations_per_s

    async def held_elsewhere(self, node_id: str) -> Holder | None:
        """Who of another instance holds its connection; None if no instance does, or it is connected here."""
        holder = await self._owners.holder(node_id) if self._links.find(node_id) is None else None
        return holder if holder is not None and holder.owner.instance != self._links.instance else None

    async def register(self, peer: NodePeer, link_id: str, message: NodeRegister) -> NodeLink | Refusal:
        """Place the node, write it, put it into its pools; the acknowledgement may leave after that."""
        if message.node_id not in self._links and len(self._links) + self._entering >= self._max_nodes:
            REGISTRATIONS["refused"].inc()
            return Refusal(
                ErrorCode.NODE_UNAVAILABLE,
                f"{self._max_nodes} nodes are connected (server.max_nodes); try another instance",
            )
        self._entering += 1
        try:
            return await self._wait_for_turn(peer) or await self._register(peer, link_id, message)
        finally:
            self._entering -= 1

    async def _wait_for_turn(self, peer: NodePeer) -> Refusal | None:
        """After an outage the whole fleet reconnects at once; registrations are rate-limited, and none is refused.

        Unless more of them wait than there is room for: those have left again, or never were nodes.
        """
        wait_s = self._gate.take(1, self._clock())
        if not wait_s:
            return None
        if wait_s > self._longest_wait_s:
            self._gate.take(-1, self._clock())
            REGISTRATIONS["refused"].inc()
            return Refusal(ErrorCode.NODE_UNAVAILABLE, "too many nodes are registering; try again later")
        REGISTRATIONS["delayed"].inc()
        await asyncio.sleep(wait_s)
        if not peer.is_open:
            REGISTRATIONS["refused"].inc()
            return Refusal(ErrorCode.NODE_UNAVAILABLE, "the node disconnected while its registration was waiting")
        return None

    async def _register(self, peer: NodePeer, link_id: str, message: NodeRegister) -> NodeLink | Refusal:
        principal = peer.principal
        node_id = message.node_id or principal.node_id or f"node-{secrets.token_hex(4).upper()}"
        if refusal := self._refusal(node_id, message, principal):
            return refusal
        most = most_slots(principal, self._settings.max_jobs)
        profile = profile_of(message, self._settings.default_max_jobs, most)
        owner = Owner(self._links.instance, link_id)
        claimed = await self._claim(node_id, principal)
        if claimed is NodeClaimOutcome.FOREIGN:
            return self._denied(node_id, f"{node_id} belongs to another credential; register with that, or as another")
        is_new = not message.node_id and not principal.node_id
        holder = None if is_new else await self._owners.holder(node_id)
        # A key that is bound to the id takes it also from another key's node that answers.
        if claimed is NodeClaimOutcome.CLAIMED and await self._is_taken(node_id, owner, profile.boot_id, holder):
            return self._conflict(node_id)
        stays_alive_ms = alive_ms(message.heartbeat_interval_ms, self._settings)
        former = self._links.find(node_id)
        # Registering again on one connection is a change too, and begins no new life.
        pace = former.pace if former is not None and former.owner == owner else Pace(self._settings, self._clock)
        link = NodeLink(node_id, owner, peer, profile, stays_alive_ms, pace, self._clock)
        link.tells_interval = message.heartbeat_interval_ms is not None
        link.run_max_s = self._run_max_s
        match await self._writer.register(link, message.running_job_ids or (), over=holder.owner if holder else None):
            case Written.HELD:
                # Another connection was faster.
                return self._conflict(node_id)
            case Written.WORLD_FULL:
                REGISTRATIONS["world_full"].inc()
                return Refusal(
                    ErrorCode.NODE_UNAVAILABLE, f"the fleet is full: it has room for {self._max_placed} nodes"
                )
        former = self._links.find(node_id)
        if former is not None:
            former.sent.update(link.sent)
            link.sent = former.sent
        self._links.add(link)
        REGISTRATIONS["registered"].inc()
        if former is not None and former.peer is not peer:
            former.peer.close(CloseCode.SUPERSEDED, "the node connected again")
        if holder is not None and holder.owner.instance != self._links.instance and self._holders is not None:
            self._holders.superseded(holder.owner, node_id)
        _log.info("node.registered", node_id=node_id, shard=link.shard, pools=len(link.serves), slots=profile.max_jobs)
        return link

    def _refusal(self, node_id: str, message: NodeRegister, principal: Principal) -> Refusal | None:
        """What can be said against it before Redis is asked."""
        if principal.node_id and node_id != principal.node_id:
            told = f"this credential is bound to {principal.node_id}; it may not register as {node_id[:64]}"
            return self._denied(node_id, told)
        if not NODE_ID.fullmatch(node_id):
            REGISTRATIONS["refused"].inc()
            return Refusal(ErrorCode.INVALID_MESSAGE, "invalid node_id: must be up to 64 letters, digits, and . _ : -")
        if complaint := refusal_of(message.language_capabilities):
            REGISTRATIONS["refused"].inc()
            return Refusal(ErrorCode.INVALID_CAPABILITY_SCHEMA, complaint)
        return None

    async def _claim(self, node_id: str, principal: Principal) -> NodeClaimOutcome:
        """Before the conflict check: neither the same boot id nor a silent socket makes it the node of another key."""
        former = self._links.find(node_id)
        is_former = former is not None and former.belongs_to != principal.owner_digest
        if former is not None and is_former and not _may_follow(principal, former):
            # Also of a node that came without a credential, and of one whose claim Redis has lost.
            return NodeClaimOutcome.FOREIGN
        claimed = await self._writer.claim(node_id, principal)
        return NodeClaimOutcome.TOOK if is_former and claimed is NodeClaimOutcome.CLAIMED else claimed

    async def _is_taken(self, node_id: str, owner: Owner, boot_id: str, holder: Holder | None) -> bool:
        """Whether another process is connected with this id, and answers. The same one may come back at any time."""
        former = self._links.find(node_id)
        is_another = former is not None and not (boot_id and boot_id == former.profile.boot_id)
        # Asked also when Redis has forgotten it.
        if former is not None and is_another and former.owner != owner and await former.peer.answers(PING_WITHIN_S):
            return True
        if holder is None or holder.owner == owner or (boot_id and boot_id == holder.boot_id):
            return False
        if holder.owner.instance == self._links.instance or self._holders is None:
            # Ours, and judged above; or left by a former life of this instance.
            return False
        return await self._holders.is_there(holder.owner, node_id)

    def _denied(self, node_id: str, told: str) -> Refusal:
        REGISTRATIONS["refused"].inc()
        _log.warning("node.not_permitted", node_id=node_id[:64])
        return Refusal(ErrorCode.PERMISSION_DENIED, told)

    def _conflict(self, node_id: str) -> Refusal:
        REGISTRATIONS["conflict"].inc()
        _log.warning("node.id_conflict", node_id=node_id)
        return Refusal(ErrorCode.NODE_ID_CONFLICT, f"another node is connected as {node_id}; choose another id")


def _may_follow(principal: Principal, former: NodeLink) -> bool:
    """Whether its key is bound to the id, and no node of another tenant has that."""
    return bool(principal.node_id) and (not former.belongs_to or former.peer.principal.tenant == principal.tenant)
