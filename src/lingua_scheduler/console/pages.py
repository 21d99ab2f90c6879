"""HTTP edge: health, metrics, and what people and scripts may read."""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from lingua_scheduler.console.operations import Problem
from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.protocol.schema import asyncapi
from lingua_scheduler.services.intake import Intake
from lingua_scheduler.services.overview import Overview
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_INDEX = """Lingua Scheduler

  /ws/session     clients talk and listen here (WebSocket)
  /ws/node        nodes dial in here (WebSocket)
  /health         OK while the process serves
  /health/ready   200 when Redis answers and scripts are loaded, 503 otherwise
  /v1/status      this instance and the fleet, as JSON
  /v1/nodes       the nodes
  /v1/pools       the language pairs and how many nodes serve each
  /v1/instances   the schedulers that share this Redis, and the mail that waits for each
  /v1/dead-letters  letters between them that could not be handled
  /metrics        for Prometheus
  /asyncapi.json  every message of both sockets, as AsyncAPI 3.0 with JSON Schemas
"""


class Pages:
    def __init__(self, store: Store, intake: Intake, overview: Overview, version: str) -> None:
        self._store = store
        self._intake = intake
        self._overview = overview
        self._version = version

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/", self._index)
        app.router.add_get("/health", self._health)
        app.router.add_get("/health/ready", self._ready)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/asyncapi.json", self._asyncapi)
        app.router.add_get("/v1/status", self._status)
        app.router.add_get("/v1/nodes", self._nodes)
        app.router.add_get("/v1/pools", self._pools)

    async def _index(self, _: web.Request) -> web.Response:
        return web.Response(text=_INDEX)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _ready(self, _: web.Request) -> web.Response:
        reasons = []
        if not self._store.is_ready:
            reasons.append("Redis does not answer")
        if not self._intake.is_open:
            reasons.append("the scheduler is stopping")
        return _json({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(metrics.REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _asyncapi(self, _: web.Request) -> web.Response:
        return web.Response(body=asyncapi(self._version), content_type="application/json")

    async def _status(self, _: web.Request) -> web.Response:
        return _json(await self._overview.status())

    async def _nodes(self, _: web.Request) -> web.Response:
        return _json({"nodes": await self._overview.nodes()})

    async def _pools(self, _: web.Request) -> web.Response:
        return _json(await self._overview.pools())


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """One shape for every error: a code, and a detail that helps."""
    try:
        return await handler(request)
    except Problem as problem:
        return _error(problem.status, problem.code, problem.detail)
    except RedisAway as error:
        return _error(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, f"Redis is away: {error}")
    except web.HTTPNotFound:
        return _error(404, "NOT_FOUND", f"there is nothing at {request.path}; GET / lists what there is")
    except web.HTTPMethodNotAllowed as error:
        return _error(405, "METHOD_NOT_ALLOWED", f"{request.path} takes {', '.join(sorted(error.allowed_methods))}")
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return _error(error.status, error.reason.upper().replace(" ", "_"), (error.text or error.reason).strip())


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)


def _error(status: int, code: str, detail: str) -> web.Response:
    return _json({"error": code, "detail": detail}, status)
