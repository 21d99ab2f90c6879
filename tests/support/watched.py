"""Pictures that are made up, and a scheduler that shows them to whoever watches."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from lingua_scheduler.domain.watching.picture import (
    Alarm,
    Event,
    InstanceLook,
    Level,
    Moment,
    NodeLook,
    PairLook,
    Picture,
)
from tests.support.pictures import judged_node, judged_pair

AT_MS = 1_800_000_000_000


def node(node_id: str = "node-1", **more: Any) -> NodeLook:
    said: dict[str, Any] = {"instance_id": "s1", "state": "ready", "shard": 0, "max_jobs": 4, "held": 1, "free": 3}
    times = {"seen_at_ms": AT_MS - 2_000, "alive_until_ms": AT_MS + 43_000}
    return judged_node(NodeLook(node_id=node_id, **(said | times | {"speech": ["en:zh"]} | more)))


def pair(name: str = "en:zh", **more: Any) -> PairLook:
    src, tgt = name.split(":")
    return judged_pair(PairLook(src=src, tgt=tgt, **({"nodes": 2, "slots": 8, "free": 6, "text_nodes": 2} | more)))


def instance(instance_id: str = "s1", **more: Any) -> InstanceLook:
    said: dict[str, Any] = {"is_alive": True, "is_leader": True, "host": "h", "pid": 7, "version": "0.1.0"}
    said |= {"address": "127.0.0.1:5010", "started_at_ms": AT_MS - 60_000, "silent_ms": 300}
    counts = ("inbox_letters", "inbox_pending", "dead_letters", "nodes", "sessions", "jobs_waiting")
    return InstanceLook(instance_id=instance_id, **(said | dict.fromkeys(counts, 0) | more))


def moment(at_ms: int = AT_MS, **more: Any) -> Moment:
    rates = ("done_per_s", "no_text_per_s", "failed_per_s", "cancelled_per_s", "retries_per_s")
    said: dict[str, Any] = dict.fromkeys(rates, 0.0) | {"done_per_s": 12.5}
    said |= {"p50_ms": 420.0, "p95_ms": 1_250.0, "p99_ms": 2_400.0}
    said |= {"sessions": 34, "jobs_waiting": 0, "slots_taken": 2, "slots_total": 8}
    return Moment(at_ms=at_ms, **(said | more))


def alarm(code: str, level: Level, subject: str = "", text: str = "", **more: Any) -> Alarm:
    return Alarm(code=code, level=level, subject=subject, text=text or code, **({"since_ms": AT_MS - 90_000} | more))


def event(kind: str, subject: str = "", level: Level = Level.NOTICE, at_ms: int = AT_MS, text: str = "") -> Event:
    return Event(at_ms=at_ms, kind=kind, level=level, subject=subject, text=text or f"{subject} {kind}")


def picture(serial: int = 1, **more: Any) -> Picture:
    said: dict[str, Any] = {
        "at_ms": AT_MS,
        "is_stale": False,
        "made_by": "s1",
        "release": "0.1.0",
        "redis_version": "Valkey 9.1.0",
        "key_prefix": "lingua:v1",
        "now": moment(),
        "jobs_ended": {"DONE": 1_000},
        "session_languages": {"en:zh": 34},
        "nodes": [node("node-1"), node("node-2")],
        "pairs": [pair()],
        "instances": [instance()],
        "leader": "s1",
        "map_version": 12,
        "map_made_at_ms": AT_MS - 3_000,
        "dead_letters": 0,
        "failures": [],
        "slow": [],
        "alarms": [],
    }
    return Picture(serial=serial, **(said | more))


class Watched:
    """A scheduler that can only be watched. What it says is what the test tells it to say."""

    def __init__(self, shown: Picture, history: Iterable[Moment] = ()) -> None:
        self.picture = shown
        self.history = list(history)
        # Oldest first.
        self.events: list[Event] = []
        self.refusal: tuple[int, Any] | None = None
        self.port = 0
        self.watchers: list[tuple[web.StreamResponse, str]] = []

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def change(self, **parts: Any) -> None:
        """Tell everybody what changed; `serial` and the like are those of the next picture unless given."""
        serial = self.picture.serial + 1
        self.picture = msgspec.structs.replace(self.picture, serial=serial)
        told = {"serial": serial, "at_ms": AT_MS + serial, "is_stale": False, "now": self.picture.now} | parts
        self.events += parts.get("events", [])
        for response, only in list(self.watchers):
            if only != "events":
                await self._send(response, "change", told)
            elif parts.get("events"):
                await self._send(response, "events", {"events": parts["events"]})

    async def happen(self, *events: Event) -> None:
        await self.change(events=list(events))

    async def say(self, text: str) -> None:
        for response, _ in self.watchers:
            await response.write(text.encode())

    def hang_up(self) -> None:
        for response, _ in self.watchers:
            transport = response._req.transport if response._req else None
            if transport is not None:
                transport.abort()
        self.watchers.clear()

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if self.refusal is not None:
            return self._refused()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        only = request.query.get("only", "")
        await response.prepare(request)
        await response.write(b"retry: 20\n\n: beat\n\n")
        if only != "events":
            whole = {"picture": self.picture, "history": self.history, "events": self.events[-50:]}
            await self._send(response, "picture", whole)
        self.watchers.append((response, only))
        await asyncio.Event().wait()
        return response

    async def _picture(self, _: web.Request) -> web.Response:
        return self._refused() if self.refusal else self._json(self.picture)

    async def _events(self, request: web.Request) -> web.Response:
        newest = self.events[::-1][: int(request.query["limit"])]
        return self._refused() if self.refusal else self._json({"events": newest})

    def _refused(self) -> web.Response:
        assert self.refusal is not None
        status, body = self.refusal
        return web.Response(status=status, text=json.dumps(body), content_type="application/json")

    def _json(self, body: Any) -> web.Response:
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    async def _send(self, response: web.StreamResponse, name: str, body: Any) -> None:
        with contextlib.suppress(ConnectionError):  # whoever has gone need not know
            await response.write(f"event: {name}\ndata: ".encode() + msgspec.json.encode(body) + b"\n\n")

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/watch", self._watch)
        app.router.add_get("/v1/picture", self._picture)
        app.router.add_get("/v1/events", self._events)
        return app


@asynccontextmanager
async def watched(shown: Picture | None = None, history: Iterable[Moment] = ()) -> AsyncIterator[Watched]:
    scheduler = Watched(shown or picture(), history)
    runner = web.AppRunner(scheduler.app(), access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    scheduler.port = runner.addresses[0][1]
    try:
        yield scheduler
    finally:
        scheduler.hang_up()
        await runner.cleanup()
