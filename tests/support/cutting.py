"""A connection between a client and a scheduler that breaks at a named frame, once."""

import asyncio
import json
from typing import NamedTuple

import aiohttp
from aiohttp import web


class Cut(NamedTuple):
    """At the first frame of this type (`binary` for a binary one), before it arrives or after it."""

    type: str
    is_before: bool


class Cutter:
    """Passes WebSocket frames on; each cut happens once, in their order."""

    def __init__(self, target: int, *cuts: Cut) -> None:
        self._target = target
        self.cuts = list(cuts)
        self.connections = 0
        self.port = 0

    def move(self, target: int) -> None:
        """Later connections lead to another port."""
        self._target = target

    async def __aenter__(self) -> "Cutter":
        self._http = aiohttp.ClientSession()
        app = web.Application()
        app.router.add_get("/ws/session", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._http.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.connections += 1
        near = web.WebSocketResponse(max_msg_size=0)
        await near.prepare(request)
        url = f"ws://127.0.0.1:{self._target}/ws/session"
        try:
            connecting = await self._http.ws_connect(url, max_msg_size=0)
        except aiohttp.ClientError:
            # What is behind it is being restarted.
            await near.close()
            return near
        async with connecting as far:
            pumps = [asyncio.create_task(self._pump(near, far)), asyncio.create_task(self._pump(far, near))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            # Without a closing handshake on either side.
            if request.transport is not None:
                request.transport.abort()
            connection = far._response.connection
            if connection is not None and connection.transport is not None:
                connection.transport.abort()
        return near

    async def _pump(
        self,
        source: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
        target: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
    ) -> None:
        async for frame in source:
            kind = json.loads(frame.data)["type"] if frame.type is aiohttp.WSMsgType.TEXT else "binary"
            cut = self.cuts.pop(0) if self.cuts and self.cuts[0].type == kind else None
            if cut is None or not cut.is_before:
                await (target.send_str(frame.data) if kind != "binary" else target.send_bytes(frame.data))
            if cut is not None:
                return
