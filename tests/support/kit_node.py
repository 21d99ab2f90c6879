"""A small node that keeps to the protocol, and one fault at a time that it can be given."""

import asyncio
import contextlib
import json
import time
from collections.abc import Coroutine
from typing import Any

import aiohttp

from tests.support.peers import Frame, heartbeat, registration, result_of

HEARTBEAT_S = 0.2
SLOTS = 2
DISMISSED = frozenset({4003, 4004, 4007})


class KitNode:
    """A program to the conformance kit, in the test's own loop. `fault` names what is wrong with it; empty: nothing."""

    def __init__(self, port: int, fault: str = "") -> None:
        self._port = port
        self._fault = fault
        self._task: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def output(self) -> str:
        return ""

    async def start(self) -> None:
        await self.stop()
        self.node_id: str | None = None
        self.boot_id = f"boot-{time.monotonic_ns()}"
        self.is_leaving = False
        self.seen: set[str] = set()
        self.running: set[str] = set()
        self.kept: dict[str, Frame] = {}
        self.grants: dict[str, asyncio.Future[bool]] = {}
        self.accepts = True
        self._task = asyncio.create_task(self._live())

    def ask_to_leave(self) -> None:
        self.is_leaving = True
        if self._fault == "leaves at once" and self._task is not None:
            self._task.cancel()

    async def exit_code(self, within_s: float) -> int | None:
        assert self._task is not None
        await asyncio.wait((self._task,), timeout=within_s)
        return 0 if self._task.done() else None

    async def stop(self) -> None:
        tasks = [*self._work, *([self._task] if self._task else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _live(self) -> None:
        pause_s = 0.1
        async with aiohttp.ClientSession() as http:
            while not self.is_leaving:
                code = None
                try:
                    limit = 1 << 20 if self._fault == "small frames" else 0
                    url = f"ws://127.0.0.1:{self._port}/ws/node"
                    async with http.ws_connect(url, max_msg_size=limit, autoping=self._fault != "no pong") as socket:
                        pause_s = 0.1
                        await self._converse(socket)
                        code = socket.close_code
                except (aiohttp.ClientError, OSError):
                    pass
                if code in DISMISSED and self._fault != "comes back":
                    return
                if self._fault == "never comes back" or self.is_leaving:
                    return
                await asyncio.sleep(0 if self._fault == "hammers" else pause_s)
                pause_s = min(0.2, 2 * pause_s)

    async def _converse(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        await self._register()
        beating = self._spawn(self._beat_on()) if self._fault != "no heartbeat" else None
        leaving = self._spawn(self._leave())
        try:
            async for frame in socket:
                if frame.type is aiohttp.WSMsgType.TEXT:
                    await self._take(json.loads(frame.data))
        finally:
            leaving.cancel()
            if beating is not None:
                beating.cancel()

    async def _leave(self) -> None:
        while not self.is_leaving or self.running:
            await asyncio.sleep(0.01)
        await self._socket.close()

    async def _register(self) -> None:
        known = None if self._fault == "forgets its id" else self.node_id
        said = registration(
            node_id=known,
            boot_id=self.boot_id,
            max_concurrent_jobs=SLOTS,
            heartbeat_interval_ms=int(HEARTBEAT_S * 1000),
            advanced_features=["job_ack", "drain"],
            accept_public_jobs=self.accepts,
            running_job_ids=sorted(self.running),
        )
        if self._fault == "register without hardware":
            del said["hardware"]
        await self._send(said)

    async def _beat_on(self) -> None:
        while True:
            if self.node_id is not None:
                usage = {"cpu_percent": 1, "mem_percent": 1, "running_jobs": len(self.running)}
                listed = self.seen if self._fault == "lists what is over" else self.running
                await self._send(heartbeat(self.node_id, resource_usage=usage, running_job_ids=sorted(listed)))
            await asyncio.sleep(HEARTBEAT_S)

    async def _take(self, said: Frame) -> None:
        match said["type"]:
            case "node_register_ack":
                self.node_id = said["node_id"]
                for result in self.kept.values():
                    await self._send(result)
            case "job_assign":
                await self._assigned(said)
            case "job_grant":
                grant = self.grants.get(said["job_id"])
                if grant is not None and not grant.done():
                    grant.set_result(said["verdict"] == "granted" or self._fault == "ignores stale")
            case "result_ack":
                self.kept.pop(said["job_id"], None)
            case "node_control" if said["command"] in ("drain", "resume"):
                self.accepts = said["command"] == "resume"
                await self._register()
            case "conformance_unknown" if self._fault == "dies of the unknown":
                await self._socket.close()

    async def _assigned(self, job: Frame) -> None:
        if self._fault == "strict fields" and "conformance_unknown" in job:
            return
        if job["job_id"] in self.seen:
            return
        self.seen.add(job["job_id"])
        if len(self.running) >= SLOTS and self._fault != "too many":
            await self._send(self._result(job, success=False, error={"code": "NODE_OVERLOADED", "message": "full"}))
            return
        self.running.add(job["job_id"])
        self._spawn(self._run(job))

    async def _run(self, job: Frame) -> None:
        about = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")}
        try:
            if self._fault != "starts unasked":
                grant = self.grants[job["job_id"]] = asyncio.get_running_loop().create_future()
                await self._send({"type": "job_ack", "node_id": self.node_id} | about)
                if not await grant:
                    return
            await self._send({"type": "job_started", "node_id": self.node_id} | about)
            if self._fault == "dies of bad audio" and job["audio_format"] == "opus":
                await self._socket.close()
                return
            await asyncio.sleep(0.02)
        finally:
            self.running.discard(job["job_id"])
        result = self._result(job)
        if self._fault == "wrong session":
            result["session_id"] = "s-00000000"
        if self._fault == "makes up the attempt":
            result["attempt_id"] = 1
        if self._fault == "success without text":
            del result["text_asr"], result["text_translated"]
        if self._fault != "forgets results":
            self.kept[job["job_id"]] = result
        await self._send(result)
        if self._fault == "answers twice":
            await self._send(result)

    def _result(self, job: Frame, **more: Any) -> Frame:
        return result_of(job, self.node_id or "", **more)

    async def _send(self, frame: Frame) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_str(json.dumps(frame))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task
