"""Event loops whose clock runs ahead of life: timers ring as soon as nothing else is to be done, sockets stay real."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

# How long to wait in life for something to come in before time goes on, and by how much it then does.
LISTEN_S = 0.001
STEP_S = 0.025


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its time is that of life, and what a test puts it forward."""

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


class TellingLoop(asyncio.SelectorEventLoop):
    """Its time stands still while there is something to do, however slow the machine, and hurries when there is not."""

    def __init__(self) -> None:
        self._now_s = 1_000.0
        super().__init__(_HurryingSelector(self._hurry))

    def time(self) -> float:
        return self._now_s

    def _hurry(self, due_s: float) -> None:
        self._now_s += min(due_s, STEP_S)


class _HurryingSelector(selectors.DefaultSelector):
    def __init__(self, hurry: Callable[[float], None]) -> None:
        super().__init__()
        self._hurry = hurry

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        found = super().select(LISTEN_S)
        if not found:
            self._hurry(STEP_S if timeout is None else timeout)
        return found


def run(loop: asyncio.AbstractEventLoop, story: Callable[[], Awaitable[Any]]) -> None:
    async def told() -> None:
        await story()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(told())
