"""Nodes that are driven over HTTP, by polling or by being called."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.support.peers import Field, Frame

LANGUAGES = {"semantic_langs": ["en", "zh"], "tts_langs": ["en", "zh"]}


class HttpNode:
    """One registered node; every step is the test's own."""

    def __init__(self, peers: Field, node_id: str) -> None:
        self.peers = peers
        self.node_id = node_id

    async def post(self, path: str, **body: Any) -> tuple[int, Any]:
        return await self.peers.post(path, {"node_id": self.node_id} | body)

    async def poll(self, wait_ms: int = 0) -> Frame:
        status, body = await self.post("/v1/node/poll", wait_ms=wait_ms)
        assert status == 200, body
        return body  # type: ignore[no-any-return]

    async def fetch(self) -> Frame:
        """The next job, which is sure to come."""
        while not (jobs := (await self.poll(5_000))["assignments"]):
            pass
        (job,) = jobs
        return job  # type: ignore[no-any-return]

    async def report(self, verb: str, job: Frame, **more: Any) -> tuple[int, Any]:
        return await self.post(f"/v1/job/{verb}", job_id=job["job_id"], attempt_id=job["attempt_id"], **more)

    async def do(self, job: Frame) -> None:
        assert await self.report("ack", job) == (200, {"ok": True})
        assert await self.report("done", job, **said_of(job)) == (200, {"ok": True})


def said_of(job: Frame) -> Frame:
    return {"text_asr": f"heard {job['utterance_index']}", "text_translated": f"said {job['utterance_index']}"}


async def http_node(peers: Field, **says: Any) -> HttpNode:
    status, body = await peers.post("/v1/node/register", {"health": "ok"} | LANGUAGES | says)
    assert status == 200, body
    return HttpNode(peers, body["node_id"])


Answer = Callable[[Frame], Awaitable[int]]


class Door:
    """An address that is called with messages, and answers as the test says."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[Frame] = []
        self.calls_elsewhere = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        message = json.loads(await request.read())
        self.calls.append(message)
        status = await self.answer(message)
        return web.Response(status=status, headers={"Location": "/elsewhere"} if 300 <= status < 400 else None)

    async def handle_elsewhere(self, _: web.Request) -> web.Response:
        """Takes anything; but nobody should come here."""
        self.calls_elsewhere += 1
        return web.Response(status=204)


@asynccontextmanager
async def door(answer: Answer) -> AsyncIterator[Door]:
    opened = Door(answer)
    app = web.Application()
    app.router.add_post("/jobs", opened.handle)
    app.router.add_route("*", "/elsewhere", opened.handle_elsewhere)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    opened.url = f"http://127.0.0.1:{runner.addresses[0][1]}/jobs"
    try:
        yield opened
    finally:
        await runner.cleanup()


async def take(_: Frame) -> int:
    return 204


async def never(_: Frame) -> int:
    await asyncio.Event().wait()
    return 200
