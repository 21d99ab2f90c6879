"""An event loop whose clock a test can put forward: timers ring at once, sockets stay real."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self._ahead_s

    async def jump(self, seconds: float, step_s: float = 2.0) -> None:
        """In steps, so that what is due in between happens in between: pings and their answers, for example."""
        for _ in range(int(seconds / step_s)):
            self._ahead_s += step_s
            await asyncio.sleep(0.005)


def run(story: Callable[[JumpingLoop], Awaitable[Any]]) -> None:
    loop = JumpingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_told(story, loop))


async def _told(story: Callable[[JumpingLoop], Awaitable[Any]], loop: JumpingLoop) -> None:
    await story(loop)
