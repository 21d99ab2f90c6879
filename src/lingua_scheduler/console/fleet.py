"""HTTP: the fleet: list nodes and pools; drain, resume, release and evict nodes."""

from typing import Any, NoReturn

from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.console.siblings import Siblings, status_of
from lingua_scheduler.domain.access.scopes import LANGUAGES, Scope
from lingua_scheduler.domain.nodes.nodes import DrainOutcome, ReleaseOutcome
from lingua_scheduler.protocol.http import (
    DrainAnswer,
    EvictAnswer,
    NodeDetail,
    NodeList,
    PoolDetail,
    PoolList,
    ReleaseAnswer,
    ResumeAnswer,
    Status,
)
from lingua_scheduler.services.nodes.departures import Departures
from lingua_scheduler.services.watching.overview import Overview
from lingua_sdk.domain.errors import HttpCode

_UNKNOWN = KnownProblem(404, HttpCode.UNKNOWN_NODE.value, "No such node")
_TAG = "fleet"


class FleetOperations:
    """With `siblings`, the status is that of all workers together."""

    def __init__(self, overview: Overview, departures: Departures, siblings: Siblings | None = None) -> None:
        self._overview = overview
        self._departures = departures
        self._siblings = siblings

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/v1/status",
                needs=(Scope.CLUSTER_READ,),
                tag=_TAG,
                summary="This instance, and a summary of the fleet",
                handle=self._status,
                answer=Status,
            ),
            Operation(
                method="GET",
                path="/v1/nodes",
                needs=(Scope.FLEET_READ,),
                tag=_TAG,
                summary="List all nodes; for an operator of one tenant, those of that tenant",
                handle=self._nodes,
                answer=NodeList,
            ),
            Operation(
                method="GET",
                path="/v1/nodes/{node_id}",
                needs=(Scope.FLEET_READ,),
                tag=_TAG,
                summary="One node: its state, its jobs, and how it has done in the last hour",
                handle=self._node,
                answer=NodeDetail,
                problems=(_UNKNOWN,),
            ),
            Operation(
                method="POST",
                path="/v1/nodes/{node_id}/drain",
                needs=(Scope.FLEET_OPERATE,),
                tag=_TAG,
                summary="Drain a node: no new jobs",
                description="Its running jobs finish. `GET /v1/nodes/{node_id}` shows how many are left.",
                handle=self._drain,
                answer=DrainAnswer,
                problems=(_UNKNOWN,),
            ),
            Operation(
                method="POST",
                path="/v1/nodes/{node_id}/resume",
                needs=(Scope.FLEET_OPERATE,),
                tag=_TAG,
                summary="Resume a drained node",
                handle=self._resume,
                answer=ResumeAnswer,
                problems=(_UNKNOWN,),
            ),
            Operation(
                method="POST",
                path="/v1/nodes/{node_id}/release",
                needs=(Scope.FLEET_OPERATE,),
                tag=_TAG,
                summary="Release a node from quarantine",
                description="It gets jobs again, and the failures that led to the quarantine are forgotten. If it goes "
                "on failing, it is quarantined again.",
                handle=self._release,
                answer=ReleaseAnswer,
                problems=(_UNKNOWN,),
            ),
            Operation(
                method="POST",
                path="/v1/nodes/{node_id}/evict",
                needs=(Scope.FLEET_OPERATE,),
                tag=_TAG,
                summary="Evict a node immediately",
                description="Its jobs are retried on other nodes, and its connection is closed. It may reconnect.",
                handle=self._evict,
                answer=EvictAnswer,
                problems=(_UNKNOWN,),
            ),
            Operation(
                method="GET",
                path="/v1/pools",
                needs=LANGUAGES,
                tag=_TAG,
                summary="List all language pairs, with the number of nodes that serve each",
                handle=self._pools,
                is_for_apps=True,
                answer=PoolList,
            ),
            Operation(
                method="GET",
                path="/v1/pools/{src}/{tgt}",
                needs=LANGUAGES,
                tag=_TAG,
                summary="The nodes that serve one language pair, or what is missing",
                handle=self._pool,
                is_for_apps=True,
                answer=PoolDetail,
            ),
        )

    async def _status(self, _: Call[None, None]) -> Status:
        status = await self._overview.status()
        return status if self._siblings is None else status_of(status, await self._siblings.together())

    async def _nodes(self, call: Call[None, None]) -> NodeList:
        return NodeList(nodes=await self._overview.nodes(call.principal.limited_to))

    async def _check_known(self, call: Call[None, None]) -> None:
        if await self._overview.is_unknown(call.path["node_id"], call.principal.limited_to):
            _unknown(call)

    async def _node(self, call: Call[None, None]) -> NodeDetail:
        node = await self._overview.node(call.path["node_id"], call.principal.limited_to)
        if node is None:
            _unknown(call)
        return node

    async def _drain(self, call: Call[None, None]) -> DrainAnswer:
        await self._check_known(call)
        outcome, running = await self._departures.drain(call.path["node_id"])
        node = None
        if outcome is not DrainOutcome.GONE:
            node = await self._overview.node(call.path["node_id"], call.principal.limited_to)
        if node is None:
            _unknown(call)
        return DrainAnswer(node_id=node.node_id, outcome=outcome.value, running=running, jobs=node.jobs)

    async def _resume(self, call: Call[None, None]) -> ResumeAnswer:
        await self._check_known(call)
        outcome, _ = await self._departures.drain(call.path["node_id"], resume=True)
        if outcome is DrainOutcome.GONE:
            _unknown(call)
        return ResumeAnswer(node_id=call.path["node_id"], outcome=outcome.value)

    async def _release(self, call: Call[None, None]) -> ReleaseAnswer:
        await self._check_known(call)
        outcome = await self._departures.release(call.path["node_id"])
        if outcome is ReleaseOutcome.GONE:
            _unknown(call)
        return ReleaseAnswer(node_id=call.path["node_id"], outcome=outcome.value)

    async def _evict(self, call: Call[None, None]) -> EvictAnswer:
        await self._check_known(call)
        lost = await self._departures.evict(call.path["node_id"])
        if lost is None:
            _unknown(call)
        jobs = await self._overview.shown_jobs([attempt.job_id for attempt in lost], call.principal.limited_to)
        return EvictAnswer(node_id=call.path["node_id"], outcome="evicted", jobs=sorted(jobs))

    async def _pools(self, call: Call[None, None]) -> PoolList:
        return await self._overview.pools(call.principal.limited_to)

    async def _pool(self, call: Call[None, None]) -> PoolDetail:
        return await self._overview.pool(call.path["src"], call.path["tgt"], call.principal.limited_to)


def _unknown(call: Call[Any, Any]) -> NoReturn:
    raise Problem(404, HttpCode.UNKNOWN_NODE, f"there is no node {call.path['node_id']}; GET /v1/nodes lists them")
