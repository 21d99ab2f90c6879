"""HTTP edge: health, metrics, documents, and a front page that lists everything there is."""

from collections.abc import Iterable
from functools import cached_property

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from lingua_scheduler.console import message_reference, openapi, reference
from lingua_scheduler.console.answers import json_response
from lingua_scheduler.console.assets import serve_folder
from lingua_scheduler.console.cached import Cached
from lingua_scheduler.console.compat.metric_aliases import aliases
from lingua_scheduler.console.operations import OPERATIONS, Operation
from lingua_scheduler.console.siblings import Siblings
from lingua_scheduler.protocol.schema import asyncapi, json_schema
from lingua_scheduler.services.sessions.intake import Intake
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import figures, metrics

_PAGES = (
    ("GET", "/ws/session", "clients connect here (WebSocket)"),
    ("GET", "/ws/node", "nodes connect here (WebSocket)"),
    ("GET", "/talk", "speak and hear the translation, in a browser"),
    ("GET", "/room", "talk with others, each in their own language, in a browser"),
    ("GET", "/dashboard", "dashboard for people on call"),
    ("GET", "/health", "liveness: OK while the process runs"),
    ("GET", "/health/ready", "readiness: 200 if Redis accepts writes, else 503"),
    ("GET", "/metrics", "metrics for Prometheus"),
    ("GET", "/v1/watch", "live changes (server-sent events); ?only=events omits the picture"),
    ("GET", "/v1/login/oidc", "log in to the dashboard through the identity provider (auth.oidc.issuer)"),
    ("GET", "/v1/login/oidc/callback", "where the identity provider sends people back"),
    ("GET", "/docs", "reference of the operations below"),
    ("GET", "/docs/messages", "reference of the WebSocket messages"),
    ("GET", "/docs/browse", "search the operations below, and try them"),
    ("GET", "/openapi.json", "the operations below as OpenAPI 3.1"),
    ("GET", "/asyncapi.json", "every WebSocket message as AsyncAPI 3.0 with JSON Schemas"),
    ("GET", "/messages.schema.json", "the same as JSON Schema 2020-12, to validate frames"),
)

_NOT_IN_A_FRAME = {"Content-Security-Policy": "frame-ancestors 'none'"}
# The viewer sets styles on its elements and draws its icons from data; a key that is typed into it can go nowhere else.
_BROWSING = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


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
        app.router.add_get("/docs/messages", self._messages)
        serve_folder(app, "/docs/browse", "browse", _BROWSING)
        app.router.add_get("/openapi.json", self._openapi)
        app.router.add_get("/asyncapi.json", self._asyncapi)
        app.router.add_get("/messages.schema.json", self._json_schema)

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
        page = self._reference.page(str(request.url.origin()))
        return web.Response(text=page, content_type="text/html", headers=_NOT_IN_A_FRAME)

    async def _messages(self, _: web.Request) -> web.Response:
        page = message_reference.page(self._version)
        return web.Response(text=page, content_type="text/html", headers=_NOT_IN_A_FRAME)

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

    async def _json_schema(self, _: web.Request) -> web.Response:
        return web.Response(body=json_schema(self._version), content_type="application/schema+json")


def front_page(operations: Iterable[Operation]) -> str:
    rows = [*_PAGES, *((operation.method, operation.path, operation.summary) for operation in operations)]
    width = max(len(path) for _, path, _ in rows)
    return "Lingua Scheduler\n\n" + "".join(f"  {verb:<4} {path:<{width}}  {told}\n" for verb, path, told in rows)
