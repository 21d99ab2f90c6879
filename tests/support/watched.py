"""A server that shows the real dashboard a made-up scheduler: pictures, changes, silence, as a test wants them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from lingua_scheduler.console.dashboard import add_dashboard
from lingua_scheduler.domain.picture import Event, Moment, Picture


class Watched:
    """`pages` answers what else the page asks for, by path."""

    def __init__(self, picture: Picture, history: Sequence[Moment] = (), events: Sequence[Event] = ()) -> None:
        self.picture = picture
        self.history = history
        self.events = events
        self.pages: dict[str, Any] = {}
        self.posted: list[str] = []
        self.port = 0
        self._serial = picture.serial
        self._watchers: set[asyncio.Queue[bytes | None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/dashboard"

    def show(self, picture: Picture) -> None:
        """Another whole picture, as to a reader who was too slow."""
        self.picture = picture
        self._serial = picture.serial
        self._send(self._first())

    def change(self, now: Moment, **parts: Any) -> None:
        self._serial += 1
        told = {"serial": self._serial, "at_ms": now.at_ms, "is_stale": False, "now": now} | parts
        self._send(_message("change", told))

    def cut(self) -> None:
        self._send(None)

    def _send(self, message: bytes | None) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(message)

    def _first(self) -> bytes:
        told = {"picture": self.picture, "history": self.history, "events": self.events}
        return _message("picture", told)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        unread: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._watchers.add(unread)
        self._serial = self.picture.serial
        try:
            await response.write(b"retry: 200\n\n" + self._first())
            while (message := await unread.get()) is not None:
                await response.write(message)
        except ConnectionResetError:
            pass
        finally:
            self._watchers.discard(unread)
        return response

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            self.posted.append(request.path)
        found = self.pages.get(request.path, {"error": "NOT_FOUND", "detail": "nothing here"})
        status = 404 if "error" in found else 200
        return web.Response(body=msgspec.json.encode(found), content_type="application/json", status=status)


def _message(kind: str, told: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(told))


@asynccontextmanager
async def watched(picture: Picture, **more: Any) -> AsyncIterator[Watched]:
    shown = Watched(picture, **more)
    app = web.Application()
    app.router.add_get("/v1/watch", shown.watch)
    add_dashboard(app)
    app.router.add_route("*", "/v1/{rest:.*}", shown.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    shown.port = runner.addresses[0][1]
    try:
        yield shown
    finally:
        shown.cut()
        await runner.cleanup()
