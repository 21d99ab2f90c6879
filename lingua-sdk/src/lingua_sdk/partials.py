"""Partial results: coalesced to the latest, and rate limited."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable


class Partials:
    """Called by an engine from any thread; at most one text waits, the latest."""

    def __init__(self, send: Callable[[str], Awaitable[None]], interval_ms: float) -> None:
        self._send = send
        self._interval_s = interval_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._latest: str | None = None
        self._sending: asyncio.Task[None] | None = None
        self._is_open = True

    def __call__(self, text: str) -> None:
        self._latest = text
        with contextlib.suppress(RuntimeError):  # of a loop that has ended; there is no reader then
            self._loop.call_soon_threadsafe(self._wake)

    async def close(self) -> None:
        """A result must not overtake what was understood on the way to it."""
        self.drop()
        if self._sending is not None:
            await asyncio.wait((self._sending,))
        await self._send_latest()

    def drop(self) -> None:
        """No further partial results are wanted."""
        self._is_open = False
        if self._sending is not None:
            self._sending.cancel()

    def _wake(self) -> None:
        if self._is_open and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._keep_sending())

    async def _keep_sending(self) -> None:
        while self._latest is not None:
            await self._send_latest()
            await asyncio.sleep(self._interval_s)

    async def _send_latest(self) -> None:
        text, self._latest = self._latest, None
        if text is not None:
            await self._send(text)
