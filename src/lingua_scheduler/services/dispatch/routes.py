"""Routes to a node: its socket on this instance, or a letter to the instance that holds its socket."""

from contextlib import suppress
from typing import Protocol

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.services.cluster.mailroom import Posted
from lingua_scheduler.services.dispatch.relay import Relay
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import Jobs
from lingua_scheduler.store.nodes.node_views import NodeViews
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.node import JobAssign, JobCancel


class Route(Protocol):
    async def send(self, attempt: Attempt, order: JobAssign) -> bool:
        """False if the message could not be sent."""

    def cancel(self, attempt: Attempt, order: JobCancel) -> None: ...

    async def reports_jobs(self, attempt: Attempt) -> bool:
        """Whether the node reports its running jobs, so that its slot stays occupied until it releases it."""

    def forget(self, attempt: Attempt) -> None:
        """The attempt has ended and its slot is free."""


class Here:
    __slots__ = ("_jobs", "_link")

    def __init__(self, link: NodeLink, jobs: Jobs) -> None:
        self._link = link
        self._jobs = jobs

    def post(self, attempt: Attempt, order: JobAssign) -> bool:
        """As `send`, at once. False also if something has to be looked up before."""
        if self._link.is_in_doubt:
            return False
        self._link.remember(attempt)
        return self._link.peer.post(order)

    async def send(self, attempt: Attempt, order: JobAssign) -> bool:
        if self._link.is_in_doubt and not await self._has_lease(attempt):
            return False
        self._link.remember(attempt)
        return self._link.peer.post(order)

    async def _has_lease(self, attempt: Attempt) -> bool:
        try:
            return await self._jobs.has_lease(attempt)
        except RedisAway:
            return False

    def cancel(self, attempt: Attempt, order: JobCancel) -> None:
        self._link.forget(attempt, order.reason or "")
        self._link.peer.post(order)

    async def reports_jobs(self, attempt: Attempt) -> bool:  # noqa: ARG002 - the shape of a route
        return self._link.profile.reports_jobs

    def forget(self, attempt: Attempt) -> None:
        self._link.sent.pop(attempt.job_id, None)


class Elsewhere:
    """The other instance announces slots that become free there."""

    __slots__ = ("_connected", "_owner", "_relay", "_views")

    def __init__(self, owner: Owner, relay: Relay, views: NodeViews, connected: ConnectedNodes) -> None:
        self._owner = owner
        self._relay = relay
        self._views = views
        self._connected = connected

    async def send(self, attempt: Attempt, order: JobAssign) -> bool:
        posted = await self._relay.assign(self._owner, attempt, codec.encode(order), order.traceparent or "")
        if posted is Posted.GONE:
            # Its instance is dead, and with it the node's connection: fail without trying.
            with suppress(RedisAway):
                await self._connected.departures.remove_orphan(attempt.shard, attempt.node_id, self._owner)
        return posted is Posted.SENT

    def cancel(self, attempt: Attempt, order: JobCancel) -> None:
        self._relay.cancel(self._owner, attempt, order.reason or "")

    async def reports_jobs(self, attempt: Attempt) -> bool:
        return await self._views.reports_jobs(attempt.node_id, attempt.shard)

    def forget(self, attempt: Attempt) -> None:
        pass


class Routes:
    def __init__(self, instance: str, connected: ConnectedNodes, relay: Relay, views: NodeViews, jobs: Jobs) -> None:
        self._instance = instance
        self._connected = connected
        self._relay = relay
        self._views = views
        self._jobs = jobs

    def find(self, attempt: Attempt, owner: Owner) -> Route | None:
        """None when the node should be here and is not."""
        if owner.instance != self._instance:
            return Elsewhere(owner, self._relay, self._views, self._connected)
        return self.here(attempt, owner)

    def here(self, attempt: Attempt, owner: Owner) -> Here | None:
        """None when the node is not, or not any more, connected to this instance."""
        link = self._connected.links.find(attempt.node_id)
        return Here(link, self._jobs) if link is not None and link.owner == owner else None
