"""HTTP edge: health, metrics, documents, and a front page that lists everything there is."""

from collections.abc import Iterable
from functools import cached_property

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from lingua_scheduler.console import openapi, reference
from lingua_scheduler.console.answers import json_response
from lingua_scheduler.console.cached import Cached
from lingua_scheduler.console.compat.metric_aliases import aliases
from lingua_scheduler.console.operations import OPERATIONS, Operation
from lingua_scheduler.console.siblings import Siblings
from lingua_scheduler.protocol.schema import asyncapi
from lingua_scheduler.services.sessions.intake import Intake
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import figures, metrics

_PAGES = (
    ("GET", "/ws/session", "clients connect here (WebSocket)"),
    ("GET", "/ws/node", "nodes connect here (WebSocket)"),
    ("GET", "/talk", "speak and hear the translation, in a browser"),
    ("GET", "/dashboard", "dashboard for people on call"),
    ("GET", "/health", "liveness: OK while the process runs"),
    ("GET", "/health/ready", "readiness: 200 if Redis accepts writes, else 503"),
    ("GET", "/metrics", "metrics for Prometheus"),
    ("GET", "/v1/watch", "live changes (server-sent events); ?only=events omits the picture"),
    ("GET", "/docs", "reference of the operations below"),
    ("GET", "/openapi.json", "the operations below as OpenAPI 3.1"),
    ("GET", "/asyncapi.json", "every WebSocket message as AsyncAPI 3.0 with JSON Schemas"),
)


class Pages:
    """With `siblings`, metrics are those of all workers together."""

    def __init__(self, store: Store, intake: Intake, version: str, siblings: Siblings | None = None) -> None:
        self._store = store
        self._intake = intake
        self._version = version
        self._siblings = siblings
        self._figures = Cached(self._make_figures)
        self._operations: list[Operation] = []

    def add_to(self, app: web.Application) -> None:
        self._operations = app[OPERATIONS]
        app.router.add_get("/", self._index)
        app.router.add_get("/health", self._health)
        app.router.add_get("/health/ready", self._ready)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/docs", self._docs)
        app.router.add_get("/openapi.json", self._openapi)
        app.router.add_get("/asyncapi.json", self._asyncapi)

    async def _index(self, _: web.Request) -> web.Response:
        return web.Response(text=front_page(self._operations))

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _ready(self, _: web.Request) -> web.Response:
        reasons = []
        if not self._store.is_ready:
            reasons.append("Redis accepts no writes" if self._store.is_refused else "Redis does not answer")
        if not self._intake.is_open:
            reasons.append("the scheduler is stopping")
        return json_response({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._figures.get(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _make_figures(self) -> bytes:
        if self._siblings is None:
            families = figures.snapshot(metrics.REGISTRY)
        else:
            families = (await self._siblings.together()).families
        return figures.page([*families, *aliases(families)])

    async def _docs(self, request: web.Request) -> web.Response:
        return web.Response(text=self._reference.page(str(request.url.origin())), content_type="text/html")

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.Response(body=self._document, content_type="application/json")

    @cached_property
    def _reference(self) -> reference.Reference:
        return reference.Reference(openapi.document(self._operations, self._version))

    @cached_property
    def _document(self) -> bytes:
        return openapi.openapi(self._operations, self._version)

    async def _asyncapi(self, _: web.Request) -> web.Response:
        return web.Response(body=asyncapi(self._version), content_type="application/json")


def front_page(operations: Iterable[Operation]) -> str:
    rows = [*_PAGES, *((operation.method, operation.path, operation.summary) for operation in operations)]
    width = max(len(path) for _, path, _ in rows)
    return "Lingua Scheduler\n\n" + "".join(f"  {verb:<4} {path:<{width}}  {told}\n" for verb, path, told in rows)
