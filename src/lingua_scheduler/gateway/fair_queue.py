"""A fair queue with one token bucket of event-loop time, shared by all HTTP connections and by throttled sockets.

It keeps time for live conversations, however many of these connections there are."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

from lingua_scheduler.domain.guards.rates import Bucket

# Burst of the token bucket.
BURST_S = 0.02
# Maximum time, and maximum number of connections served, in one iteration of the event loop: the cost of a request is
# known only after it was answered.
SLICE_S = 0.001
MOST_AT_ONCE = 4


class Turn:
    """A place in the queue."""

    __slots__ = ("go_on",)

    def __init__(self, go_on: Callable[[], object]) -> None:
        self.go_on: Callable[[], object] | None = go_on

    def cancel(self) -> None:
        self.go_on = None


class FairQueue:
    """A shared token bucket of time, and a round-robin queue.

    It counts elapsed time, not CPU time: if the machine gives us a quarter of a core, half a core is no limit. With a
    share of 1 there is no delay, but a single iteration of the loop does not serve all of them.
    """

    def __init__(self, share: float) -> None:
        self._bucket = Bucket(share, BURST_S)
        self._queue: deque[Turn] = deque()
        self._serving: asyncio.Handle | None = None

    def wait(self, go_on: Callable[[], object]) -> Turn:
        """Call `go_on` in its turn, and charge the time it takes. It returns True if most of that follows later."""
        turn = Turn(go_on)
        self._queue.append(turn)
        if self._serving is None:
            self._serving = asyncio.get_running_loop().call_soon(self._serve)
        return turn

    async def come(self) -> None:
        """Wait for a turn in the handler of a request, which is charged for its time step by step."""
        ready = asyncio.get_running_loop().create_future()

        def go_on() -> bool:
            if not ready.done():
                ready.set_result(None)
            return True

        turn = self.wait(go_on)
        try:
            await ready
        finally:
            turn.cancel()

    def spend(self, spent_s: float) -> None:
        """What was used outside the queue, such as for the answer to what was read in a turn."""
        self._bucket.take(spent_s, monotonic())

    def _serve(self) -> None:
        now_s = monotonic()
        wait_s = self._bucket.take(0, now_s)
        try:
            if not wait_s:
                wait_s = self._serve_some(now_s)
        finally:
            # Also after one that raised: the others are still waiting.
            loop = asyncio.get_running_loop()
            if not self._queue:
                self._serving = None
            elif wait_s:
                self._serving = loop.call_later(wait_s, self._serve)
            else:
                self._serving = loop.call_soon(self._serve)

    def _serve_some(self, began_s: float) -> float:
        """How long to wait before the next of them."""
        now_s = began_s
        # Who comes back meanwhile is not served twice.
        for _ in range(min(len(self._queue), MOST_AT_ONCE)):
            go_on = self._queue.popleft().go_on
            is_last = go_on is not None and go_on()
            now_s = monotonic()
            if is_last or now_s - began_s > SLICE_S:
                break
        return self._bucket.take(now_s - began_s, now_s)
