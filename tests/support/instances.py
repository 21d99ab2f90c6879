"""Several instances of one scheduler, each a process that can be killed, frozen and woken."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.schedulers import ServeProcess, serve_process
from tests.support.waiting import until

START_WITHIN_S = 60.0
# A frozen instance is asked like the others.
ANSWER_WITHIN = aiohttp.ClientTimeout(total=10.0)


class Instance:
    def __init__(self, name: str, serving: ServeProcess, http: aiohttp.ClientSession) -> None:
        self.name = name
        self.port = serving.port
        self._serving = serving
        self._http = http

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self._serving.log

    async def get(self, path: str) -> Any:
        async with self._http.get(f"http://{self.address}{path}", timeout=ANSWER_WITHIN) as response:
            return await response.json() if "json" in response.content_type else await response.text()

    async def kill(self) -> None:
        self._serving.process.kill()
        await self._serving.process.wait()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._serving.process.returncode is None:
            os.kill(self._serving.process.pid, number)


@asynccontextmanager
async def instances(folder: Path, redis_url: str, count: int, **settings: int | str) -> AsyncIterator[list[Instance]]:
    """`section__key=value` changes a setting of all of them. They are named i0, i1 …"""
    changed = [word for name, value in settings.items() for word in ("--set", f"{name.replace('__', '.')}={value}")]
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        processes = []
        for number in range(count):
            own = folder / f"i{number}"
            own.mkdir()
            named = ("--set", f"server.instance_id=i{number}", "--set", "server.stop_timeout_ms=1000")
            key = ("--set", f"privacy.cluster_key_file={folder / 'cluster.key'}")
            serving = serve_process(own, "--redis-url", redis_url, *named, *key, *changed)
            processes.append(await stack.enter_async_context(serving))
        await until(lambda: all(process.port for process in processes), START_WITHIN_S, "every instance ready")
        started = [Instance(f"i{number}", process, http) for number, process in enumerate(processes)]
        try:
            yield started
        finally:
            for instance in started:
                instance.wake()  # or it could not end


async def leader(instance: Instance) -> str | None:
    """Who leads, as this instance knows; None when it cannot be asked."""
    try:
        found: str | None = (await instance.get("/v1/pools"))["leader"]
    except (TimeoutError, aiohttp.ClientError):
        return None
    return found
