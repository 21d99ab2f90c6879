"""HTTP for monitoring: the picture, its time series and events, and a stream of changes."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator

import msgspec
from aiohttp import web

from lingua_scheduler.console.answers import CALLER, PRINCIPAL
from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.console.queries import ACCESS_TOKEN
from lingua_scheduler.domain.access.principals import ANONYMOUS, Denied, Principal
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.domain.guards.addresses import NOBODY
from lingua_scheduler.domain.watching.changes import delta
from lingua_scheduler.domain.watching.picture import Picture
from lingua_scheduler.protocol.http_watching import Events, EventsQuery, History
from lingua_scheduler.services.access.live import LiveCallers
from lingua_scheduler.services.watching.snapshot import (
    STEPS_KEPT,
    PictureStep,
    Snapshots,
    TooManyOfAddress,
    TooManyWatchers,
    Watcher,
)
from lingua_scheduler.services.watching.views import Views
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.errors import ErrorCode, HttpCode

_TAG = "watching"
BEAT_S = 15.0
RETRY_MS = 2_000
# A reader that takes nothing for so long is cut off; it comes back by itself.
STALLED_S = 30.0
FIRST_EVENTS = 50
NODES_TOGETHER = 500
# Tenants whose pictures are kept encoded.
TENANTS_MAX = 64
_REFUSED = metrics.DOOR_REFUSALS.labels("watchers")
_BEAT = b": beat\n\n"
_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class _Encoded:
    """What one tenant is sent, or all (None); what is sent to several is encoded once."""

    def __init__(self, snapshots: Snapshots, views: Views, tenant: str | None) -> None:
        self._snapshots = snapshots
        self._views = views
        self.tenant = tenant
        self._picture = (0, b"")
        self._whole = (0, b"")
        self._encoding = asyncio.Lock()
        self._changes: dict[int, bytes] = {}

    async def picture(self, picture: Picture) -> bytes:
        """Encoded in slices: a large fleet must not hold up the jobs of others."""
        async with self._encoding:
            serial, body = self._picture
            if serial != picture.serial:
                body = await encoded(self._views.of(picture, self.tenant))
                self._picture = (picture.serial, body)
            return body

    async def whole(self, picture: Picture) -> bytes:
        body = await self.picture(picture)
        serial, message = self._whole
        if serial != picture.serial:
            events = self._views.events(self.tenant)[-FIRST_EVENTS:]
            whole = {"picture": msgspec.Raw(body), "history": self._snapshots.history, "events": events}
            message = _message("picture", whole, picture.serial)
            self._whole = (picture.serial, message)
        return message

    def change(self, step: PictureStep) -> bytes:
        serial = step.after.serial
        message = self._changes.get(serial)
        if message is None:
            change = delta(self._views.of(step.before, self.tenant), self._views.of(step.after, self.tenant))
            if events := self._views.events_of(step.events, self.tenant):
                change["events"] = events
            message = self._changes[serial] = _message("change", change, serial)
            while len(self._changes) > STEPS_KEPT:
                del self._changes[min(self._changes)]
        return message


class Watching:
    def __init__(self, snapshots: Snapshots, views: Views, live: LiveCallers) -> None:
        self._snapshots = snapshots
        self._views = views
        self._live = live
        self._all = _Encoded(snapshots, views, None)
        self._of_tenants: OrderedDict[str, _Encoded] = OrderedDict()

    def _encoded_for(self, principal: Principal) -> _Encoded:
        tenant = principal.limited_to
        if tenant is None:
            return self._all
        known = self._of_tenants.get(tenant)
        if known is None:
            known = self._of_tenants[tenant] = _Encoded(self._snapshots, self._views, tenant)
            if len(self._of_tenants) > TENANTS_MAX:
                # Streams that have it go on with it; a later caller gets another.
                self._of_tenants.popitem(last=False)
        return known

    def add_to(self, app: web.Application) -> None:
        # A HEAD would be a stream without a reader.
        app.router.add_get("/v1/watch", self.watch, allow_head=False)

    @property
    def operations(self) -> tuple[Operation, ...]:
        away = KnownProblem(
            503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is unavailable, and no state is known yet"
        )
        return (
            Operation(
                method="GET",
                path="/v1/picture",
                needs=(Scope.FLEET_READ,),
                tag=_TAG,
                summary="The state of the whole deployment: nodes, pairs, instances, jobs, alarms",
                description=(
                    "Updated every few seconds (`watch.interval_ms`) and answered from memory, without asking Redis. "
                    "While Redis is unavailable it is the last known state, marked `is_stale`. "
                    "An operator of one tenant sees its own nodes, jobs and alarms, and sums of the rest. "
                    "`GET /v1/watch` streams changes."
                ),
                handle=self._one_picture,
                answer=Picture,
                problems=(away,),
            ),
            Operation(
                method="GET",
                path="/v1/history",
                needs=(Scope.FLEET_READ,),
                tag=_TAG,
                summary="Time series of the last 30 minutes",
                handle=self._history,
                answer=History,
            ),
            Operation(
                method="GET",
                path="/v1/events",
                needs=(Scope.FLEET_READ,),
                tag=_TAG,
                summary="Recent events, newest first",
                handle=self._latest_events,
                query=EventsQuery,
                answer=Events,
            ),
        )

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events until the reader leaves or the scheduler stops."""
        if request.query.keys() - {"only", ACCESS_TOKEN} or request.query.get("only", "events") != "events":
            raise Problem(400, ErrorCode.INVALID_MESSAGE, 'invalid query: only "only=events" is allowed')
        picture = await self._snapshots.read()
        caller = request.get(CALLER, NOBODY)
        try:
            watcher = self._snapshots.subscribe(caller.meter)
        except TooManyOfAddress:
            _REFUSED.inc()
            detail = f"{caller.address} has too many watch streams (watch.max_watchers_per_address); close some"
            raise Problem(429, HttpCode.RATE_LIMITED, detail, retry_after_s=10) from None
        except TooManyWatchers:
            detail = "too many open watch streams (watch.max_watchers); try again later, or poll GET /v1/picture"
            raise Problem(503, HttpCode.SERVICE_UNAVAILABLE, detail, retry_after_s=10) from None

        def end(_: Denied) -> None:
            if request.transport is not None:
                request.transport.close()
            watcher.news.set()

        principal = request.get(PRINCIPAL, ANONYMOUS)
        encoded_for = self._encoded_for(principal)
        with watcher, self._live.present(principal, end):
            response = web.StreamResponse(headers=_HEADERS)
            try:
                await response.prepare(request)
                await self._send(response, b"retry: %d\n\n" % RETRY_MS)
                messages = self._messages_of(watcher, picture, encoded_for, only_events="only" in request.query)
                async for message in messages:
                    await self._send(response, message)
                await response.write_eof()
            except TimeoutError:
                if request.transport is not None:
                    request.transport.abort()
            except ConnectionResetError:
                pass  # the reader has left
        return response

    async def _send(self, response: web.StreamResponse, message: bytes) -> None:
        async with asyncio.timeout(STALLED_S):
            await response.write(message)

    def _messages_of(
        self, watcher: Watcher, picture: Picture, encoded_for: _Encoded, *, only_events: bool
    ) -> AsyncIterator[bytes]:
        if only_events:
            return self._events_of(watcher, encoded_for.tenant)
        return self._steps_of(watcher, picture, encoded_for)

    async def _steps_of(self, watcher: Watcher, picture: Picture, encoded_for: _Encoded) -> AsyncIterator[bytes]:
        async for _ in self._news_of(watcher):
            steps = watcher.steps()
            if steps is None:
                picture = self._snapshots.latest or picture
                yield await encoded_for.whole(picture)
                continue
            for step in steps:
                yield encoded_for.change(step)
            if not steps:
                yield _BEAT

    async def _events_of(self, watcher: Watcher, tenant: str | None) -> AsyncIterator[bytes]:
        async for _ in self._news_of(watcher):
            events = self._views.events_of(watcher.events(), tenant)
            yield _message("events", {"events": events}) if events else _BEAT

    async def _news_of(self, watcher: Watcher) -> AsyncIterator[None]:
        """Whenever there may be something, and now and then when there is nothing, to see who is still there."""
        while not self._snapshots.is_closed:
            try:
                async with asyncio.timeout(BEAT_S):
                    await watcher.news.wait()
            except TimeoutError:
                pass
            watcher.news.clear()
            if not self._snapshots.is_closed:
                yield

    async def _one_picture(self, call: Call[None, None]) -> msgspec.Raw:
        return msgspec.Raw(await self._encoded_for(call.principal).picture(await self._snapshots.read()))

    async def _history(self, _: Call[None, None]) -> History:
        return History(moments=self._snapshots.history)

    async def _latest_events(self, call: Call[None, EventsQuery]) -> Events:
        return Events(events=self._views.events(call.principal.limited_to)[::-1][: call.query.limit])


async def encoded(picture: Picture) -> bytes:
    parts = []
    for first in range(0, len(picture.nodes), NODES_TOGETHER):
        parts.append(msgspec.json.encode(picture.nodes[first : first + NODES_TOGETHER])[1:-1])
        await asyncio.sleep(0)
    rest = {name: getattr(picture, name) for name in Picture.__struct_fields__}
    return msgspec.json.encode(rest | {"nodes": msgspec.Raw(b"[" + b",".join(parts) + b"]")})


def _message(name: str, data: object, serial: int | None = None) -> bytes:
    head = f"event: {name}\n" if serial is None else f"event: {name}\nid: {serial}\n"
    return head.encode() + b"data: " + msgspec.json.encode(data) + b"\n\n"
