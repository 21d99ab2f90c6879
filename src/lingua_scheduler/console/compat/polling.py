"""HTTP for pages and scripts that poll: answered from the picture, encoded once for all callers."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from lingua_scheduler.console.compat.http_stats import ClusterStats, FlatFigures, Stats
from lingua_scheduler.console.compat.polled_stats import cluster_of, figures_of, stats_of
from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.domain.watching.picture import Picture
from lingua_scheduler.services.nodes.model_hub import Catalogue
from lingua_scheduler.services.watching.snapshot import Snapshots
from lingua_scheduler.services.watching.views import Views
from lingua_sdk.domain.errors import ErrorCode

_TAG = "watching"
# One for each tenant that polls.
BODIES_MAX = 64
_AWAY = KnownProblem(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is unavailable")
_OLD = "The `Age` header is its age in seconds. It is answered from memory, without asking Redis."


class _Page:
    """One encoded body for all callers, until there is another picture."""

    def __init__(self, write: Callable[[Picture], Awaitable[object]]) -> None:
        self._write = write
        # By tenant; None stands for all.
        self._bodies: dict[str | None, tuple[tuple[int, int], bytes]] = {}
        self._writing = asyncio.Lock()

    async def body(self, picture: Picture, catalogue_serial: int, tenant: str | None) -> bytes:
        of = (picture.serial, catalogue_serial)
        known, body = self._bodies.get(tenant, ((0, 0), b""))
        if known == of:
            return body
        async with self._writing:
            known, body = self._bodies.pop(tenant, ((0, 0), b""))
            if known != of:
                body = msgspec.json.encode(await self._write(picture))
            self._bodies[tenant] = (of, body)
            while len(self._bodies) > BODIES_MAX:
                del self._bodies[next(iter(self._bodies))]
        return body


class Polling:
    """`is_ready` tells whether Redis is there now; a picture may be some seconds old."""

    def __init__(self, snapshots: Snapshots, views: Views, catalogue: Catalogue, is_ready: Callable[[], bool]) -> None:
        self._snapshots = snapshots
        self._views = views
        self._is_ready = is_ready
        self._catalogue = catalogue
        self._stats = _Page(lambda picture: stats_of(picture, catalogue.services))
        self._figures = _Page(_figures)
        self._cluster = _Page(cluster_of)

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/api/v1/stats",
                needs=(Scope.FLEET_READ,),
                tag=_TAG,
                summary="Clients, languages, services and computing power, for pages that poll",
                description=f"{_OLD} While Redis is unavailable it is the last known state, marked `stale`.",
                handle=self._tell_stats,
                answer=Stats,
            ),
            Operation(
                method="GET",
                path="/api/v1/metrics",
                needs=(Scope.FLEET_READ,),
                tag=_TAG,
                summary="The figures of all instances together, as flat JSON",
                description=f"{_OLD} For Prometheus there is `/metrics`.",
                handle=self._tell_figures,
                answer=FlatFigures,
            ),
            Operation(
                method="GET",
                path="/api/v1/cluster",
                needs=(Scope.CLUSTER_READ,),
                tag=_TAG,
                summary="Instances and nodes, for pages that poll",
                description=_OLD,
                handle=self._tell_cluster,
                answer=ClusterStats,
                problems=(_AWAY,),
            ),
        )

    async def _tell_stats(self, call: Call[None, None]) -> web.Response:
        return await self._narrowed(self._stats, call)

    async def _tell_figures(self, call: Call[None, None]) -> web.Response:
        return await self._narrowed(self._figures, call)

    async def _tell_cluster(self, _: Call[None, None]) -> web.Response:
        picture = await self._snapshots.read()
        if picture.is_stale or not self._is_ready():
            detail = "Redis is unavailable; GET /v1/picture returns the last known state"
            raise Problem(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, detail)
        return await self._answer(self._cluster, picture)

    async def _narrowed(self, page: _Page, call: Call[None, None]) -> web.Response:
        tenant = call.principal.limited_to
        return await self._answer(page, await self._views.read(tenant), tenant)

    async def _answer(self, page: _Page, picture: Picture, tenant: str | None = None) -> web.Response:
        body = await page.body(picture, self._catalogue.serial, tenant)
        age_s = max(0, int(self._snapshots.age_s))
        return web.Response(body=body, content_type="application/json", headers={"Age": str(age_s)})


async def _figures(picture: Picture) -> FlatFigures:
    return figures_of(picture)
