"""The way to a node: through its socket here, or by letter to the instance that holds it."""

from contextlib import suppress
from typing import Protocol

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.node import JobAssign, JobCancel
from lingua_scheduler.services.cluster.mailroom import Posted
from lingua_scheduler.services.dispatch.relay import Relay
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.registry import NodeLink, Registry
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.nodes.nodes import Nodes, Owner


class Route(Protocol):
    async def send(self, attempt: Attempt, order: JobAssign) -> bool:
        """False when it did not leave."""

    def cancel(self, attempt: Attempt, order: JobCancel) -> None: ...

    async def reports_jobs(self, attempt: Attempt) -> bool:
        """Whether the node tells what it runs, so that its slot is not free before it lets go."""

    def freed(self, attempt: Attempt) -> None:
        """The slot is free; whoever waits for it here may know."""


class Here:
    __slots__ = ("_link", "_waiting")

    def __init__(self, link: NodeLink, waiting: WaitingRoom) -> None:
        self._link = link
        self._waiting = waiting

    async def send(self, attempt: Attempt, order: JobAssign) -> bool:
        self._link.remember(attempt)
        return self._link.peer.post(order)

    def cancel(self, attempt: Attempt, order: JobCancel) -> None:
        self._link.forget(attempt, order.reason or "")
        self._link.peer.post(order)

    async def reports_jobs(self, attempt: Attempt) -> bool:  # noqa: ARG002
        return self._link.profile.reports_jobs

    def freed(self, attempt: Attempt) -> None:
        self._link.sent.pop(attempt.job_id, None)
        self._waiting.slot_freed(self._link.node_id, self._link.serves)


class Elsewhere:
    """Slots that become free there are announced from there."""

    __slots__ = ("_nodes", "_owner", "_registry", "_relay")

    def __init__(self, owner: Owner, relay: Relay, nodes: Nodes, registry: Registry) -> None:
        self._owner = owner
        self._relay = relay
        self._nodes = nodes
        self._registry = registry

    async def send(self, attempt: Attempt, order: JobAssign) -> bool:
        posted = await self._relay.assign(self._owner, attempt, codec.encode(order), order.traceparent or "")
        if posted is Posted.GONE:
            # Its instance is dead, and with it the node's connection: nobody else need find that out.
            with suppress(RedisAway):
                await self._registry.remove_orphan(attempt.shard, attempt.node_id, self._owner)
        return posted is Posted.SENT

    def cancel(self, attempt: Attempt, order: JobCancel) -> None:
        self._relay.cancel(self._owner, attempt, order.reason or "")

    async def reports_jobs(self, attempt: Attempt) -> bool:
        return await self._nodes.reports_jobs(attempt.node_id, attempt.shard)

    def freed(self, attempt: Attempt) -> None:
        pass


class Routes:
    def __init__(self, instance: str, registry: Registry, relay: Relay, nodes: Nodes, waiting: WaitingRoom) -> None:
        self._instance = instance
        self._registry = registry
        self._relay = relay
        self._nodes = nodes
        self._waiting = waiting

    def find(self, attempt: Attempt, owner: Owner) -> Route | None:
        """None when the node should be here and is not."""
        if owner.instance != self._instance:
            return Elsewhere(owner, self._relay, self._nodes, self._registry)
        link = self._registry.find(attempt.node_id)
        return Here(link, self._waiting) if link is not None and link.owner == owner else None
