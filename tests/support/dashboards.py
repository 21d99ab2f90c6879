"""A server that shows the real dashboard a made-up scheduler: pictures, changes, silence, as a test wants them."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from lingua_scheduler.console.assets import serve_shared
from lingua_scheduler.console.dashboard import add_dashboard
from lingua_scheduler.domain.access.scopes import EVERYTHING
from lingua_scheduler.domain.watching.changes import delta
from lingua_scheduler.domain.watching.picture import Event, Moment, Picture
from tests.support.pictures import judged_whole
from tests.support.scenes import moment


class Watched:
    """`pages` answers what else the page asks for, by path."""

    def __init__(self, picture: Picture, history: Sequence[Moment] = (), events: Sequence[Event] = ()) -> None:
        self.picture = judged_whole(picture)
        self.history = history
        self.events = events
        self.pages: dict[str, Any] = {}
        self.posted: list[str] = []
        self.is_away = False
        self.port = 0
        self._watchers: set[asyncio.Queue[bytes | None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/dashboard"

    def show(self, picture: Picture) -> None:
        """Another whole picture, as to a reader who was too slow."""
        self.picture = judged_whole(picture)
        self._send(self._first())

    def change(self, *events: Event, **parts: Any) -> None:
        """The next picture, of which only what changed is sent."""
        at_ms = int(time.time() * 1000)
        fields = {"serial": self.picture.serial + 1, "at_ms": at_ms, "now": moment(at_ms)} | parts
        after = judged_whole(msgspec.structs.replace(self.picture, **fields))
        told = delta(self.picture, after) | ({"events": events} if events else {})
        self.picture = after
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
        if self.is_away:
            raise web.HTTPServiceUnavailable
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        unread: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._watchers.add(unread)
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


async def _whoami(_: web.Request) -> web.Response:
    """No key is needed there."""
    about = {
        "kind": "local",
        "tenant": "default",
        "key_id": "",
        "subject": "",
        "role": None,
        "scopes": sorted(EVERYTHING),
        "is_login": False,
        "auth_mode": "auto",
    }
    return web.json_response(about)


@asynccontextmanager
async def watched(shown: Watched | Picture, **more: Any) -> AsyncIterator[Watched]:
    if isinstance(shown, Picture):
        shown = Watched(shown, **more)
    app = web.Application()
    app.router.add_get("/v1/watch", shown.watch)
    app.router.add_get("/v1/whoami", _whoami)
    serve_shared(app)
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
