"""Nodes that use HTTP: treated like all others, with a mailbox instead of a socket."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from time import thread_time

from lingua_scheduler.clock import LEAST_WAIT_S, SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.domain.guards.addresses import NOBODY, AddressBook, Caller
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.nodes import BeatOutcome
from lingua_scheduler.domain.pools.pools import Admission, why_unpooled
from lingua_scheduler.protocol.http import NodeBeat, NodeRegistration
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.nodes.capabilities import is_new
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.services.nodes.http.messages import (
    HttpNodeClaim,
    Stranger,
    TooFast,
    complaint_about,
    complaint_about_languages,
    heartbeat_of,
    registration_of,
)
from lingua_scheduler.services.nodes.http.outbox import Mail, Mailbox
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.services.nodes.toll import Toll
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import JobAssign
from lingua_sdk.protocol.shapes import Message

_log = logs.get()

# A node with a slow door waits for itself alone.
CALLBACKS_AT_ONCE = 8
CLOSE_TIMEOUT_S = 1.0
# Until one that changed its lists too often may try again.
READ_AGAIN_S = 15

TOO_MANY = "this address has too many nodes and connections (server.max_sockets_per_address); close some"
# Of connections over HTTP; those of sockets begin with another letter.
_LINK = "h"

Carry = Callable[[str, Message], Awaitable[bool]]


class HttpNode:
    """A registered node: its link, how it is reached, and its declared capabilities."""

    __slots__ = ("address", "beaten_at", "box", "claim", "hands", "link", "meter", "on_gone", "turn")

    def __init__(self, link: NodeLink, box: Mailbox, claim: HttpNodeClaim, caller: Caller, now_s: float) -> None:
        self.link = link
        self.address = caller.address
        # Under which it takes a place of its address, as a socket does.
        self.meter = caller.meter
        self.box = box
        self.claim = claim
        # When Redis heard of it last.
        self.beaten_at = now_s
        # Beats of one node are handled one after the other, as on a socket.
        self.turn = asyncio.Lock()
        self.hands = asyncio.Semaphore(CALLBACKS_AT_ONCE)
        self.on_gone: Callable[[], None] | None = None


class HttpNodes:
    def __init__(
        self,
        connected: ConnectedNodes,
        endings: Endings,
        carry: Carry,
        destinations: Destinations,
        addresses: AddressBook,
        settings: Settings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._connected = connected
        self._addresses = addresses
        self._endings = endings
        self._carry = carry
        self._destinations = destinations
        self._admission = Admission(settings.pools.admission)
        self._missed_heartbeats = settings.nodes.missed_heartbeats
        self._callback_timeout_s = settings.nodes.callback_timeout_ms / 1000
        self._max_bytes = settings.server.outbox_max_bytes
        self._serials = count(1)
        self._nodes: dict[str, HttpNode] = {}
        self._errands = Nursery("http_nodes")
        self.is_open = True

    def __len__(self) -> int:
        return len(self._nodes)

    def find(
        self, node_id: str, boot_id: str | None, caller: Caller, principal: Principal = LOCAL
    ) -> HttpNode | Stranger:
        """The node that speaks: with its credential, it repeats its boot_id, or comes from where it registered."""
        node = self._nodes.get(node_id)
        if self._is_foreign(node_id, principal):
            return Stranger.FOREIGN
        if node is None:
            return Stranger.UNKNOWN if self._connected.links.find(node_id) is None else Stranger.ELSEWHERE
        if boot_id is not None and boot_id[:64] != node.link.profile.boot_id:
            return Stranger.ELSEWHERE
        if boot_id is None and caller.address != node.address:
            return Stranger.ELSEWHERE
        return node

    def _is_foreign(self, node_id: str, principal: Principal) -> bool:
        link = self._connected.links.find(node_id)
        is_other = link is not None and link.belongs_to != principal.owner_digest
        return is_other or (principal.node_id or node_id) != node_id

    async def elsewhere(self, node_id: str, boot_id: str | None, principal: Principal = LOCAL) -> str | Stranger:
        """The other instance with which the node registered; empty if it is connected here, or unknown.

        What cannot be of the node is not sent there: it may be large, and everyone knows the id. Whether a node that
        has no boot_id comes from its address is known there alone.
        """
        if self._is_foreign(node_id, principal):
            return Stranger.FOREIGN
        if node_id in self._nodes:
            return ""
        holder = await self._connected.registry.held_elsewhere(node_id)
        if holder is None:
            return ""
        if not holder.owner.link.startswith(_LINK) or (boot_id is not None and boot_id[:64] != holder.boot_id):
            return Stranger.ELSEWHERE
        return holder.owner.instance

    async def register(
        self, says: NodeRegistration, caller: Caller = NOBODY, principal: Principal = LOCAL
    ) -> HttpNode | Refusal:
        place = self._addresses.enter(caller.meter)
        registered: HttpNode | Refusal | None = None
        try:
            is_known = says.node_id in self._nodes  # it gives its former place back
            if place > self._addresses.max_sockets and not is_known:
                return Refusal(ErrorCode.NODE_UNAVAILABLE, TOO_MANY)
            registered = await self._register(says, caller, principal)
        finally:
            # Otherwise it is the node's, until its box is closed.
            if not isinstance(registered, HttpNode):
                self._addresses.leave(caller.meter)
        if isinstance(registered, HttpNode) and not registered.claim.is_healthy:
            link = registered.link
            await self._connected.heartbeats.take(link, heartbeat_of(link.node_id, says, registered.claim))
        return registered

    async def _register(self, says: NodeRegistration, caller: Caller, principal: Principal) -> HttpNode | Refusal:
        if not self.is_open:
            return Refusal(ErrorCode.NODE_UNAVAILABLE, "the scheduler is stopping; try again shortly")
        if complaint := complaint_about(says, self._destinations):
            return Refusal(ErrorCode.INVALID_MESSAGE, complaint)
        claim, box, toll = (
            HttpNodeClaim().changed_by(says),
            Mailbox(self._max_bytes, self._clock, principal),
            Toll(self._addresses, caller.meter, self._clock),
        )
        if refusal := await toll.wait():
            return refusal
        began_s = thread_time()
        refusal = complaint_about_languages(claim.languages)
        toll.pay(thread_time() - began_s)
        if refusal is not None:
            return refusal
        former = self._nodes.get(says.node_id or principal.node_id)
        register = registration_of(says, claim, caller.address)
        link = await self._connected.registry.register(box, f"{_LINK}{next(self._serials):x}", register)
        if isinstance(link, Refusal):
            return link
        node = self._nodes[link.node_id] = HttpNode(link, box, claim, caller, self._clock())
        box.interval_s = self.interval_ms(link) / 1000
        box.closed = partial(self._box_closed, node)
        self._route(node, says.callback_url)
        if former is not None and former.link.epoch == link.epoch:
            # The same process: its leases live on, and so do the orders it has not fetched.
            for message in former.box.take():
                box.post(message)
        return node

    async def heartbeat(self, node: HttpNode, says: NodeBeat) -> Refusal | Stranger | TooFast | None:
        """None when all is well."""
        if complaint := complaint_about(says, self._destinations):
            return Refusal(ErrorCode.INVALID_MESSAGE, complaint)
        node.box.show_life()
        languages = node.claim.changed_by(says).languages
        if languages != node.claim.languages:
            if is_new(languages) and not node.link.pace.may_read(languages):
                return TooFast(READ_AGAIN_S)
            if refusal := complaint_about_languages(languages):
                return refusal
        async with node.turn:
            node.claim = node.claim.changed_by(says)
            outcome = await self._connected.heartbeats.take(node.link, heartbeat_of(says.node_id, says, node.claim))
        node.beaten_at = self._clock()
        node.box.interval_s = self.interval_ms(node.link) / 1000
        if says.callback_url is not None:
            self._route(node, says.callback_url)
        return None if outcome in (BeatOutcome.ALIVE, BeatOutcome.PUT_OFF) else _why_closed(node.box)

    async def poll(self, node: HttpNode, wait_s: float, is_connected: Callable[[], bool]) -> list[Mail] | Stranger:
        """Long poll: messages as soon as there are any. A node that polls counts as alive."""
        box, clock = node.box, self._clock
        number = box.begin_poll()
        deadline = clock() + wait_s
        while is_connected() and box.is_last_poll(number):
            await self._show_life(node)
            if box.close_code is not None:
                return _why_closed(box)
            left_s = deadline - clock()
            if len(box) or left_s < LEAST_WAIT_S:
                return box.take()
            await box.wait(min(left_s, box.interval_s / 2))
        # What waits is for the next poll, not for a caller who left.
        return []

    def hint_about(self, link: NodeLink) -> str | None:
        """Why the node gets no jobs, in the names of its fields; None if it serves a pair."""
        if link.pools or not link.profile.takes_jobs:
            return None
        profile = link.profile
        return why_unpooled(profile.declared, self._admission, "{}_langs", takes_text=profile.features.text_input)

    def interval_ms(self, link: NodeLink) -> int:
        return link.alive_ms // self._missed_heartbeats

    async def sweep(self) -> None:
        """Remove nodes that neither sent a heartbeat nor polled in time, with their messages."""
        for node in list(self._nodes.values()):
            if node.box.silent_s() * 1000 > node.link.alive_ms:
                _log.info("node.silent", node_id=node.link.node_id)
                node.box.close(CloseCode.TRY_LATER, "no sign of life")

    async def close(self) -> None:
        await self._errands.settle(CLOSE_TIMEOUT_S)
        await self._errands.close()

    async def _show_life(self, node: HttpNode) -> None:
        """Write a heartbeat to Redis for some polls only, often enough to stay alive."""
        node.box.show_life()
        if self._clock() - node.beaten_at >= node.box.interval_s / 2:
            await self._connected.heartbeats.show_life(node.link)
            node.beaten_at = self._clock()

    def _route(self, node: HttpNode, callback_url: str | None) -> None:
        """From now on mail is carried to this address, or waits to be polled."""
        if not callback_url:
            node.box.forward = None
            return

        def forward() -> None:
            for message in node.box.take():
                node.box.hold(message)
                self._errands.start(self._deliver(node, callback_url, message))

        node.box.forward = forward
        forward()

    async def _deliver(self, node: HttpNode, callback_url: str, message: Mail) -> None:
        try:
            async with asyncio.timeout(self._callback_timeout_s), node.hands:
                is_delivered = await self._carry(callback_url, message)
        except TimeoutError:
            is_delivered = False
        finally:
            node.box.let_go(message)
        if is_delivered or not isinstance(message, JobAssign):
            return
        link = node.link
        _log.warning("callback.failed", node_id=link.node_id, job_id=message.job_id)
        try:
            await self._endings.end_unsent(Attempt(message.job_id, message.attempt_id, link.node_id, link.shard))
        except RedisAway:
            # It is never acknowledged, so its reservation ends by itself.
            _log.warning("attempt.left_behind", node_id=link.node_id, job_id=message.job_id)

    def _box_closed(self, node: HttpNode) -> None:
        if self._nodes.get(node.link.node_id) is node:
            del self._nodes[node.link.node_id]
        self._addresses.leave(node.meter)
        if node.on_gone is not None:
            node.on_gone()
        self._errands.start(self._connected.departures.gone(node.link))


def _why_closed(box: Mailbox) -> Stranger:
    return Stranger.ELSEWHERE if box.close_code is CloseCode.SUPERSEDED else Stranger.UNKNOWN
