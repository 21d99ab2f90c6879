"""Requests to the instance that holds a node's connection: check that the node responds, or disconnect it."""

import asyncio
from contextlib import suppress

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.protocol.signals import AskHolder, HolderSays, NodeVerb
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.store.cluster.signals import Signals
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

PING_WITHIN_S = 2.0
# A ping, and the way there and back.
ANSWER_WITHIN_S = PING_WITHIN_S + 0.5
# Signals may be lost, and an eviction must not be.
EVICT_WITHIN_S = 1.0
EVICT_TRIES = 3


class Holders:
    """Uses signals, which may be lost; an instance that does not answer is judged by its heartbeats in Redis."""

    def __init__(
        self, links: NodeLinks, presence: Presence, signals: Signals, beat_ms: int, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clock = clock
        self._links = links
        self._presence = presence
        self._signals = signals
        self._beat_ms = beat_ms
        self._asked: dict[tuple[str, str], asyncio.Future[bool]] = {}
        self._pings = Nursery("holders")

    async def is_there(self, owner: Owner, node_id: str) -> bool:
        """Whether the node responds on the connection that another instance holds; True if that is unknown."""
        if await self._silent_ms(owner.instance) > 2 * self._beat_ms:
            return False
        asked_at_s = self._clock()
        said = await self._ask(owner, node_id, NodeVerb.PING, ANSWER_WITHIN_S)
        if said is not None:
            return said
        # The signal was lost, the instance is of an older release, or it is dead; then it has not beaten since.
        waited_ms = (self._clock() - asked_at_s) * 1000
        return await self._silent_ms(owner.instance) < max(waited_ms, self._beat_ms)

    async def evict(self, owner: Owner, node_id: str) -> None:
        """Close its connection there. Retried until confirmed: the node's next heartbeat there would restore it."""
        for _ in range(EVICT_TRIES):
            if not await self._presence.is_alive(owner.instance):
                return
            if await self._ask(owner, node_id, NodeVerb.EVICT, EVICT_WITHIN_S) is not None:
                return
        _log.warning("node.not_sent_away", node_id=node_id, instance=owner.instance)

    def superseded(self, owner: Owner, node_id: str) -> None:
        """The node is connected here now; its former connection need not wait for its next beat to learn that."""
        with suppress(RedisAway):
            self._say(owner, node_id, NodeVerb.SUPERSEDE)

    def asked(self, signal: AskHolder) -> None:
        self._pings.start(self._answer(signal))

    def answered(self, signal: HolderSays) -> None:
        waiting = self._asked.get((signal.node_id, signal.link))
        if waiting is not None and not waiting.done():
            waiting.set_result(signal.is_there)

    async def close(self) -> None:
        await self._pings.close()

    async def _ask(self, owner: Owner, node_id: str, verb: NodeVerb, within_s: float) -> bool | None:
        """None: no answer came."""
        key = (node_id, owner.link)
        waiting = self._asked.get(key)
        if waiting is None:
            waiting = self._asked[key] = asyncio.get_running_loop().create_future()
        try:
            self._say(owner, node_id, verb)
            await asyncio.wait((waiting,), timeout=within_s)
        finally:
            if self._asked.get(key) is waiting:
                del self._asked[key]
        return waiting.result() if waiting.done() else None

    def _say(self, owner: Owner, node_id: str, verb: NodeVerb) -> None:
        asking = AskHolder(self._presence.instance, node_id, owner.link, verb)
        self._signals.publish(asking, to=owner.instance)

    async def _answer(self, signal: AskHolder) -> None:
        link = self._links.find(signal.node_id)
        is_there = False
        if link is not None and link.owner.link == signal.link:
            match signal.verb:
                case NodeVerb.PING:
                    is_there = await link.peer.answers(PING_WITHIN_S)
                    if not is_there:
                        link.peer.close(CloseCode.SUPERSEDED, "the node connected again")
                case NodeVerb.SUPERSEDE:
                    link.peer.close(CloseCode.SUPERSEDED, "the node is connected elsewhere")
                case NodeVerb.EVICT:
                    self._links.send_away(link)
        try:
            await self._signals.publish(HolderSays(signal.node_id, signal.link, is_there), to=signal.instance)
        except RedisAway:
            _log.info("holder.unheard", node_id=signal.node_id)

    async def _silent_ms(self, instance: str) -> float:
        found = (await self._presence.look()).get(instance)
        return float("inf") if found is None else found.silent_ms
