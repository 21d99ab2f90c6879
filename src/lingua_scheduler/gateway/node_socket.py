"""GET /ws/node: the WebSocket endpoint for nodes."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from time import thread_time
from typing import Any, NamedTuple

from aiohttp import web

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.jobs.attempts import AdvanceOutcome, Attempt
from lingua_scheduler.domain.nodes.nodes import BeatOutcome
from lingua_scheduler.gateway.door import Door
from lingua_scheduler.gateway.outbox import Outbox
from lingua_scheduler.gateway.socket_pump import Frame, Manners, Sockets, refuse
from lingua_scheduler.gateway.valve import WEIGHED_BYTES, SocketRates
from lingua_scheduler.protocol.node_dialogue import NodeDialogue
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.dispatch.progress import Later, PendingResult, Progress, attempt_of, is_extension
from lingua_scheduler.services.nodes.capabilities import hint_about, refusal_of, weight_of
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.services.nodes.quarantine_notices import remind
from lingua_scheduler.services.nodes.toll import Toll
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.bulk import OF_NODES, Bulk
from lingua_sdk.protocol.codec import UnreadableFrame
from lingua_sdk.protocol.node import (
    AsrPartial,
    JobAck,
    JobResult,
    JobStarted,
    NodeError,
    NodeHeartbeat,
    NodeHeartbeatAck,
    NodeIncoming,
    NodeRegister,
    NodeRegisterAck,
)

_log = logs.get()

# What all slots of a large node have to say at once: acknowledgements, starts and results.
BURST_S = 1.0
# After a heartbeat that came too fast nothing is read for so long; after one with thousands of pairs longer.
TOO_FAST_S = 0.05
# What a report costs behind the socket, about: a call of a script and its answer.
STRAY_S = 0.0001

_SOCKETS = metrics.SOCKETS.labels("node")
_CUT_OFF = metrics.CUT_OFF.labels("unregistered")


class NodeSocket:
    def __init__(
        self, door: Door, sockets: Sockets, connected: ConnectedNodes, progress: Progress, settings: Settings
    ) -> None:
        nodes = settings.nodes
        self._door = door
        self._sockets = sockets
        self._connected = connected
        self._progress = progress
        self._max_nodes = settings.server.max_nodes
        self._rates = SocketRates(nodes.max_frames_per_s, nodes.max_bytes_per_s, BURST_S)
        self._most = OF_NODES
        self._register_within_s = nodes.register_within_ms / 1000
        self.is_open = True

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        if not self.is_open:
            raise web.HTTPServiceUnavailable(text="the scheduler is stopping; try again shortly\n")
        if len(self._connected.links) >= self._max_nodes:
            raise web.HTTPServiceUnavailable(
                text=f"{self._max_nodes} nodes are connected (server.max_nodes); try another instance\n"
            )
        socket, outbox = await self._sockets.accept(request, self._rates, self._door.principal(request))
        manners = self._sockets.manners(socket, outbox, "node")
        link_id = self._sockets.link_id()
        terms = _Terms(manners, self._most, self._door.toll(request))
        conversation = _Conversation(self._connected, self._progress, outbox, terms, link_id)
        patience = asyncio.get_running_loop().call_later(self._register_within_s, conversation.give_up_waiting)
        _SOCKETS.inc()
        try:
            async for frame in self._sockets.frames(
                socket, outbox, manners, conversation.take_at_once, on_too_fast=conversation.too_fast
            ):
                await conversation.take(frame)
            # What the node said before it left counts, and its work is not lost with it.
            await conversation.settle()
        finally:
            _SOCKETS.dec()
            patience.cancel()
            await conversation.close()
            if conversation.link is not None:
                await self._connected.departures.gone(conversation.link)
        return socket


class _Terms(NamedTuple):
    """How a node's frames are read, and what its address pays for them before it is registered."""

    manners: Manners
    most: Bulk
    toll: Toll


class _Conversation:
    """One node on one socket: carries out what `NodeDialogue` allows."""

    def __init__(
        self, connected: ConnectedNodes, progress: Progress, outbox: Outbox, terms: _Terms, link_id: str
    ) -> None:
        self._manners, self._most, self._toll = terms
        # A message that was read and has to wait for its turn, or why it cannot be read, and the frame it came in.
        self._latest: tuple[bytes, NodeIncoming | str] | None = None
        self._was_too_fast = False
        self._connected = connected
        self._progress = progress
        self._outbox = outbox
        self._link_id = link_id
        self.link: NodeLink | None = None
        # A node_register came. It may have to wait for its turn, which is not the node's fault; nor is it while
        # something that it said has not been read.
        self._has_asked = False
        self._is_in_line = False
        self._is_late = False
        self._dialogue = NodeDialogue()
        self._all_settled: asyncio.Future[None] | None = None
        self._follow_ups = Nursery("node_socket")
        # Replies come to the line to Redis; what is logged then still names the node.
        self._context = copy_context()

    def give_up_waiting(self) -> None:
        self._is_late = True
        self._close_if_late()

    def _close_if_late(self) -> None:
        if self._is_late and not self._has_asked and not self._is_in_line:
            _CUT_OFF.inc()
            self._outbox.close(CloseCode.TRY_LATER, "node_register did not arrive in time")

    def too_fast(self) -> None:
        """Log it for the operator. The node gets no message, because existing nodes have none for this."""
        if not self._was_too_fast:
            self._was_too_fast = True
            _log.warning("node.too_fast", node_id=self.link.node_id if self.link else None)

    def take_at_once(self, frame: bytes, _is_text: bool) -> bool:
        """Handle a message whose call to Redis need not wait for the previous reply; False for all others."""
        link = self.link
        if link is None or not self._dialogue.is_open or not self._progress.is_ready:
            return False
        try:
            message = self._read(frame)
        except UnreadableFrame as error:
            self._latest = frame, str(error)
            return False
        if not self._dialogue.passes(message):
            self._latest = frame, message
            return False
        try:
            match message:
                case JobResult():
                    report = PendingResult(link, message, frame)
                    self._progress.end(report).add_done_callback(partial(self._ended, report), context=self._context)
                    self._dialogue.asked(message)
                case JobAck() | JobStarted():
                    attempt = attempt_of(link, message)
                    answer = self._progress.advance(link, attempt, message)
                    answer.add_done_callback(partial(self._advanced, link, attempt, message), context=self._context)
                    self._dialogue.asked(message)
                case AsrPartial():
                    self._progress.partial(link, message)
        except RedisAway:
            return False
        return True

    async def take(self, frame: Frame) -> None:
        if self.take_at_once(frame.data, frame.is_text):
            # It only had to wait for others. If each of a line waited for its answer too, the line would never end.
            return
        await self.settle()
        try:
            message = self._read(frame.data) if self.link is not None else await self._read_stranger(frame.data)
        except UnreadableFrame as error:
            self._manners.refuse(str(error), len(frame.data))
            return
        if message is None:
            return
        if complaint := self._dialogue.refusal(message):
            self._manners.refuse(complaint)
            return
        try:
            await self._handle(message, frame.data)
        except RedisAway as error:
            self._put_off(message, error)

    def _read(self, frame: bytes) -> NodeIncoming:
        latest = self._latest
        if latest is None:
            if len(frame) <= WEIGHED_BYTES:
                return codec.decode_node(frame, self._most)
            return self._manners.weigh(frame, codec.decode_node, self._most)
        self._latest = None
        if latest[0] is not frame:
            return self._manners.weigh(frame, codec.decode_node, self._most)
        if isinstance(latest[1], str):
            raise UnreadableFrame(latest[1])
        return latest[1]

    async def _read_stranger(self, frame: bytes) -> NodeIncoming | None:
        """None when it is turned away, or has left meanwhile."""
        self._is_in_line = True
        try:
            refusal = await self._toll.wait()
            if refusal is not None:
                self._turn_away(refusal)
            if refusal is not None or not self._outbox.is_open:
                return None
            return self._read_at_its_cost(frame)
        finally:
            self._is_in_line = False
            self._close_if_late()

    def _read_at_its_cost(self, frame: bytes) -> NodeIncoming:
        """Its languages too: to read thousands of pairs takes longer than to decode them, and they are remembered."""
        began_s = thread_time()
        try:
            message = self._read(frame)
            if isinstance(message, NodeRegister):
                self._has_asked = True
                refusal_of(message.language_capabilities)
            return message
        finally:
            self._toll.pay(thread_time() - began_s)

    async def settle(self) -> None:
        """Wait until nothing is under way. Nothing is begun meanwhile: a frame is being worked on, or was the last."""
        if self._dialogue.under_way:
            self._all_settled = asyncio.get_running_loop().create_future()
            await self._all_settled

    async def close(self) -> None:
        await self._follow_ups.close()

    def _advanced(
        self, link: NodeLink, attempt: Attempt, message: JobAck | JobStarted, answer: asyncio.Future[Any]
    ) -> None:
        again = None
        try:
            outcome = answer.result()
            self._progress.advanced(link, attempt, message, outcome)
            if outcome is not AdvanceOutcome.ADVANCED or is_extension(message):
                self._strayed(link)
        except RedisAway:
            again = partial(self._progress.insist_on_advance, link, attempt, message)
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self._surprised(error)
        finally:
            if again is None:
                self._answered(message)
            else:
                self._follow_ups.start(self._follow_up(message, again))

    def _ended(self, report: PendingResult, answer: asyncio.Future[Any]) -> None:
        rest: bool | Later = True
        try:
            rest = self._progress.ended(report, answer.result())
            if rest is False:
                self._strayed(report.link)
        except RedisAway:
            rest = partial(self._progress.insist, report)
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self._surprised(error)
        finally:
            if isinstance(rest, bool):
                self._answered(report.message)
            else:
                self._follow_ups.start(self._follow_up(report.message, rest))

    def _strayed(self, link: NodeLink) -> None:
        """A report changed nothing. Redis was asked all the same, and the node could send them without end."""
        self._manners.spend(STRAY_S)
        wait_s = link.pace.stray()
        if wait_s is None:
            self._manners.cut_off("strays", "too many messages about jobs that the node does not have; connect again")
        elif wait_s:
            self._manners.rest(wait_s)

    async def _follow_up(
        self, message: JobResult | JobAck | JobStarted, rest: Callable[[], Coroutine[Any, Any, object]]
    ) -> None:
        try:
            await rest()
        except RedisAway as error:
            self._put_off(message, error)
        except Exception as error:
            self._surprised(error)
        finally:
            self._answered(message)

    def _answered(self, message: JobResult | JobAck | JobStarted) -> None:
        self._dialogue.answered(message)
        if not self._dialogue.under_way and self._all_settled is not None:
            if not self._all_settled.done():
                self._all_settled.set_result(None)
            self._all_settled = None

    def _surprised(self, error: Exception) -> None:
        _log.error("frame.surprised", side="node", exc_info=error)
        self._outbox.close(CloseCode.TRY_LATER, "internal error; connect again")

    def _put_off(self, message: NodeIncoming, error: RedisAway) -> None:
        _log.warning("node.message_refused", kind=type(message).__name__, error=str(error))
        refuse(self._outbox, "node", "Redis is unavailable", ErrorCode.SCHEDULER_DEPENDENCY_DOWN)
        if isinstance(message, NodeRegister):
            self._outbox.close(CloseCode.TRY_LATER, "Redis is unavailable; connect again")

    async def _handle(self, message: NodeIncoming, frame: bytes) -> None:
        if isinstance(message, NodeRegister):
            await self._register(message)
            return
        link = self.link
        if link is None:
            return
        match message:
            case NodeHeartbeat():
                if await self._connected.heartbeats.take(link, message) is BeatOutcome.PUT_OFF:
                    # Reading it alone costs something, so it is read more slowly.
                    await asyncio.sleep(TOO_FAST_S * weight_of(message.language_capabilities))
                if link.profile.acknowledges:
                    link.peer.post(NodeHeartbeatAck(node_id=link.node_id, timestamp=int(wall_ms())))
            case JobAck() | JobStarted():
                await self._progress.insist_on_advance(link, attempt_of(link, message), message)
            case JobResult():
                await self._progress.result(link, message, frame)
            case AsrPartial():
                self._progress.partial(link, message)
            case NodeError():
                self._progress.trouble(link, message)

    async def _register(self, message: NodeRegister) -> None:
        if self.link is not None and message.node_id not in (None, self.link.node_id):
            refuse(self._outbox, "node", f"this connection is already registered as {self.link.node_id}")
            return
        if self.link is not None:
            message.node_id = self.link.node_id
            if not self.link.pace.may_change(message.language_capabilities):
                self._manners.refuse("this connection registered too often")
                return
        registered = await self._connected.registry.register(self._outbox, self._link_id, message)
        if isinstance(registered, Refusal):
            self._turn_away(registered)
            return
        self.link = registered
        self._dialogue.is_registered = True
        logs.bind(node_id=registered.node_id)
        self._context = copy_context()
        self._outbox.post(
            NodeRegisterAck(node_id=registered.node_id, message="registered successfully", status="registering")
        )
        registered.hint(hint_about(message.language_capabilities))
        remind(registered, wall_ms())

    def _turn_away(self, refusal: Refusal) -> None:
        """An unregistered node would wait for work for ever; one that comes back may find the reason gone, unless its
        credential is not for this node."""
        refuse(self._outbox, "node", refusal.message, refusal.code)
        is_for_good = refusal.code is ErrorCode.PERMISSION_DENIED
        self._outbox.close(CloseCode.REVOKED if is_for_good else CloseCode.TRY_LATER, refusal.message[:100])
