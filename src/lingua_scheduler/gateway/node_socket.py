"""GET /ws/node: a node dials in, registers, beats and works."""

import asyncio
from time import monotonic

from aiohttp import web

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.rates import Bucket
from lingua_scheduler.gateway.outbox import Outbox
from lingua_scheduler.gateway.sockets import Frame, Sockets, refuse
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.codec import UnreadableFrame
from lingua_scheduler.protocol.links import NodePhase, node_refusal
from lingua_scheduler.protocol.node import (
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
from lingua_scheduler.services.peers import CloseCode
from lingua_scheduler.services.progress import Progress
from lingua_scheduler.services.registry import REGISTRATIONS, NodeLink, Refusal, Registry
from lingua_scheduler.services.sessions import now_ms
from lingua_scheduler.settings import ServerSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

REGISTER_WITHIN_S = 30.0

_SOCKETS = metrics.SOCKETS.labels("node")


class NodeSocket:
    def __init__(self, sockets: Sockets, registry: Registry, progress: Progress, settings: ServerSettings) -> None:
        self._sockets = sockets
        self._registry = registry
        self._progress = progress
        self._max_nodes = settings.max_nodes
        # One second's worth may come at once.
        self._gate = Bucket(settings.max_registrations_per_s, settings.max_registrations_per_s)
        self.is_open = True

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        if not self.is_open:
            raise web.HTTPServiceUnavailable(text="the scheduler is stopping; try again shortly\n")
        if len(self._registry) >= self._max_nodes:
            raise web.HTTPServiceUnavailable(text=f"{self._max_nodes} nodes are connected, no more are taken here\n")
        socket, outbox = await self._sockets.accept(request)
        conversation = _Conversation(self._registry, self._progress, outbox, self._sockets.link_id(), self._gate)
        patience = asyncio.get_running_loop().call_later(REGISTER_WITHIN_S, conversation.give_up_waiting)
        _SOCKETS.inc()
        try:
            async for frame in self._sockets.frames(socket, outbox, "node"):
                # One after the other: a result must never overtake the acknowledgement before it, and a node
                # that floods us waits for itself alone.
                await conversation.take(frame)
        finally:
            _SOCKETS.dec()
            patience.cancel()
            if conversation.link is not None:
                await self._registry.gone(conversation.link)
        return socket


class _Conversation:
    """One node on one socket."""

    def __init__(self, registry: Registry, progress: Progress, outbox: Outbox, link_id: str, gate: Bucket) -> None:
        self._gate = gate
        self._registry = registry
        self._progress = progress
        self._outbox = outbox
        self._link_id = link_id
        self.link: NodeLink | None = None

    def give_up_waiting(self) -> None:
        if self.link is None:
            self._outbox.close(CloseCode.TRY_LATER, "no node_register came")

    async def take(self, frame: Frame) -> None:
        try:
            message = codec.decode_node(frame.data)
        except UnreadableFrame as error:
            refuse(self._outbox, "node", str(error))
            return
        phase = NodePhase.CONNECTED if self.link is None else NodePhase.REGISTERED
        if complaint := node_refusal(phase, message):
            refuse(self._outbox, "node", complaint)
            return
        try:
            await self._handle(message, frame.data)
        except RedisAway as error:
            _log.warning("node.message_refused", kind=type(message).__name__, error=str(error))
            refuse(self._outbox, "node", "Redis is away", ErrorCode.SCHEDULER_DEPENDENCY_DOWN)
            if isinstance(message, NodeRegister):
                self._outbox.close(CloseCode.TRY_LATER, "Redis is away; connect again")

    async def _handle(self, message: NodeIncoming, frame: bytes) -> None:
        if isinstance(message, NodeRegister):
            await self._register(message)
            return
        link = self.link
        if link is None:
            return
        match message:
            case NodeHeartbeat():
                await self._registry.heartbeat(link, message)
                if link.profile.acknowledges:
                    link.peer.post(NodeHeartbeatAck(node_id=link.node_id, timestamp=int(now_ms())))
            case JobAck():
                await self._progress.ack(link, message)
            case JobStarted():
                await self._progress.started(link, message)
            case JobResult():
                await self._progress.result(link, message, frame)
            case AsrPartial():
                self._progress.partial(link, message)
            case NodeError():
                self._progress.trouble(link, message)

    async def _wait_for_turn(self, wait_s: float) -> None:
        """After an outage the whole fleet comes back at once; Redis gets it in portions, and nobody is turned away."""
        REGISTRATIONS["delayed"].inc()
        await asyncio.sleep(wait_s)

    async def _register(self, message: NodeRegister) -> None:
        if self.link is not None and message.node_id not in (None, self.link.node_id):
            refuse(self._outbox, "node", f"this connection is registered as {self.link.node_id} already")
            return
        if self.link is not None:
            message.node_id = self.link.node_id
        if wait_s := self._gate.take(1, monotonic()):
            await self._wait_for_turn(wait_s)
        registered = await self._registry.register(self._outbox, self._link_id, message)
        if isinstance(registered, Refusal):
            refuse(self._outbox, "node", registered.message, registered.code)
            # An unregistered node would wait for work for ever; one that comes back may find the reason gone.
            self._outbox.close(CloseCode.TRY_LATER, registered.message[:100])
            return
        self.link = registered
        logs.bind(node_id=registered.node_id)
        self._outbox.post(
            NodeRegisterAck(node_id=registered.node_id, message="registered successfully", status="registering")
        )
