"""Sends a newer token over an open connection before the one that it was opened with expires."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable

from lingua_sdk.access import Access
from lingua_sdk.protocol.session import TokenRefresh

# A newer token is fetched so long before the end, or after this part of a shorter time.
AHEAD_S = 60.0
PART = 0.75
# So often a token is fetched at most; and if by our clock the present one has expired, so that our clock may be wrong.
MIN_PAUSE_S = 5.0
WRONG_CLOCK_PAUSE_S = 30.0
# Many clients may have got their tokens in the same moment.
JITTER = 0.1

_LOGGER = logging.getLogger("lingua.client")


def pause_s(left_s: float, dice: float) -> float:
    """How long to wait until a newer token is fetched, if the present one is valid for `left_s`."""
    if left_s <= 0:
        return WRONG_CLOCK_PAUSE_S
    latest_s = max(left_s - AHEAD_S, left_s * PART)
    return max(MIN_PAUSE_S, latest_s * (1 - JITTER * dice))


class Refresher:
    """If no newer token can be fetched, the scheduler closes the connection in the end, and the reconnect says why."""

    def __init__(self, access: Access, send: Callable[[TokenRefresh], Awaitable[None]]) -> None:
        self._access = access
        self._send = send
        self._task: asyncio.Task[None] | None = None

    def expires(self, at_ms: int) -> None:
        """When the present token does, in ms since 1970; 0 = never."""
        self.stop()
        if at_ms and self._access.can_refresh:
            self._task = asyncio.create_task(self._refresh(at_ms))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _refresh(self, at_ms: int) -> None:
        # Until the acknowledgement of the newer one begins the next turn.
        while True:
            await asyncio.sleep(pause_s(at_ms / 1000 - time.time(), random.random()))
            try:
                token = await self._access.newer()
            except Exception as error:
                # The application's function may raise anything; the connection is still good.
                _LOGGER.warning("the token was not refreshed: %s", error)
                continue
            if token:
                await self._send(TokenRefresh(token=token))
