"""A scheduler in a process of its own, where nobody else makes garbage and nobody collects it."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from lingua_sdk.processes import die_with_parent, stop

GRACE_S = 0.1
ROUNDS = 3
SETTINGS = {"sessions__grace_ms": int(GRACE_S * 1000), "sessions__hangover_manual_ms": 20}


class Watched:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.port = 0

    async def said(self, word: str) -> Any:
        assert self._process.stdout is not None
        while True:
            line = json.loads(await asyncio.wait_for(self._process.stdout.readline(), 120))
            if word in line:
                return line[word]

    async def cycles_each_time(self, go: Callable[[int], Awaitable[object]], times: int) -> dict[str, int]:
        """What is left when `go` is called with so many times: fewer objects than that, or so many each time.

        On a busy machine what is done for the first time, such as a race that is rare, may come in any round."""
        found: dict[str, int] = {}
        for _ in range(ROUNDS):
            await go(times)
            found = await self.cycles()
            if sum(found.values()) < times:
                break
        return found

    async def cycles(self) -> dict[str, int]:
        """What only a collector frees of what was left since the last time, by type."""
        await asyncio.sleep(2.5 * GRACE_S)  # the grace period of sessions whose socket is gone
        self._process.send_signal(signal.SIGUSR1)
        found: dict[str, int] = await self.said("cycles")
        return found


@asynccontextmanager
async def watched(url: str, **settings: Any) -> AsyncIterator[Watched]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.cycles", url, json.dumps(SETTINGS | settings)),
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    try:
        found = Watched(process)
        found.port = await found.said("port")
        yield found
    finally:
        await stop(process, 10)
