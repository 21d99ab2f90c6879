"""The mailbox of a node that uses HTTP: a bounded queue of messages until they are polled or posted to its callback."""

import asyncio
from collections.abc import Callable

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.node import JobAssign, JobCancel, JobGrant, NodeControl, NodeHeartbeatAck, ResultAck
from lingua_sdk.protocol.shapes import Message

Mail = JobAssign | JobCancel | NodeControl

# What these say is the answer to the request that caused them.
_ANSWERED = (JobGrant, ResultAck, NodeHeartbeatAck)
_ENVELOPE_BYTES = 2_048


class Mailbox:
    """Implements the peer that services write to. It never blocks: a job that does not fit goes to another node."""

    def __init__(self, max_bytes: int, clock: Clock = SYSTEM_CLOCK, principal: Principal = LOCAL) -> None:
        self._clock = clock
        self.principal = principal
        self._max_bytes = max_bytes
        self._waiting: list[Mail] = []
        self._bytes = 0
        self._bell = asyncio.Event()
        self._polls = 0
        self._seen_at = self._clock()
        # How often the node promised to call.
        self.interval_s = 0.0
        # Set when messages are posted to a callback; otherwise they wait for a poll.
        self.forward: Callable[[], None] | None = None
        self.closed: Callable[[], None] | None = None
        self.close_code: CloseCode | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def post(self, message: Message) -> bool:
        if self.close_code is not None:
            return False
        if isinstance(message, JobCancel) and self._withdraw(message.job_id):
            return True
        if not isinstance(message, JobAssign | JobCancel | NodeControl):
            return isinstance(message, _ANSWERED)
        if self._bytes + weight(message) > self._max_bytes:
            metrics.OVERFLOWS.inc()
            return False
        self._waiting.append(message)
        self._bytes += weight(message)
        if self.forward is not None:
            self.forward()
        else:
            self._bell.set()
        return True

    def post_frame(self, payload: bytes) -> bool:
        message = codec.decode_for_node(payload)
        return message is not None and self.post(message)

    def close(self, code: CloseCode, reason: str) -> None:  # noqa: ARG002 (an HTTP node learns it from its next request)
        if self.close_code is None:
            self.close_code = code
            self._bell.set()
            if self.closed is not None:
                self.closed()

    @property
    def is_open(self) -> bool:
        return self.close_code is None

    @property
    def is_heard(self) -> bool:
        """Its own messages say how often it beats."""
        return False

    async def answers(self, within_s: float) -> bool:  # noqa: ARG002 (there is nothing to ask: a node calls, or not)
        """Whether it called within its interval."""
        return self.close_code is None and self.silent_s() < self.interval_s

    def show_life(self) -> None:
        self._seen_at = self._clock()

    def silent_s(self) -> float:
        return self._clock() - self._seen_at

    def take(self) -> list[Mail]:
        """All waiting messages. A caller that delivers them keeps them counted with `hold`."""
        taken, self._waiting = self._waiting, []
        self._bytes -= sum(map(weight, taken))
        self._bell.clear()
        return taken

    def hold(self, message: Mail) -> None:
        self._bytes += weight(message)

    def let_go(self, message: Mail) -> None:
        self._bytes -= weight(message)

    def begin_poll(self) -> int:
        """The number of this poll; an earlier one that still waits is woken, to end empty."""
        self._polls += 1
        self._bell.set()
        return self._polls

    def is_last_poll(self, number: int) -> bool:
        return number == self._polls

    async def wait(self, timeout_s: float) -> None:
        """Until there may be something, the box is closed, or time is up."""
        if not self._waiting and self.close_code is None:
            self._bell.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._bell.wait()
            except TimeoutError:
                pass

    def _withdraw(self, job_id: str) -> bool:
        """A job that was not fetched yet needs no cancel message."""
        for order in self._waiting:
            if isinstance(order, JobAssign) and order.job_id == job_id:
                self._waiting.remove(order)
                self._bytes -= weight(order)
                return True
        return False


def weight(message: Mail) -> int:
    """About what it takes as JSON."""
    if not isinstance(message, JobAssign):
        return _ENVELOPE_BYTES
    return _ENVELOPE_BYTES + len(message.audio) * 4 // 3 + len(message.text_input or "")
