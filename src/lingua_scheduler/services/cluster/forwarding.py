"""HTTP requests between instances: any instance takes a request, and the one that has its node or job answers it."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.cluster.instances import FORWARDING
from lingua_scheduler.protocol.bus import ForwardedAnswer, ForwardedRequest
from lingua_scheduler.protocol.signals import RequestWithdrawn
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.cluster.mailroom import Mailroom, Posted
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.store.cluster.signals import Signals
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

# Of each kind: those that wait here for an answer, and those that are answered here.
MAX_REQUESTS = 20_000
# How soon it is noticed that the owner has died or the caller has left.
LOOK_EVERY_S = 0.5
# What a request may take beyond the time that its caller wants to wait.
MARGIN_S = 10.0
CLOSE_TIMEOUT_S = 1.0

# Answers a request; the second argument tells whether its caller still waits.
Answer = Callable[[ForwardedRequest, Callable[[], bool]], Awaitable[ForwardedAnswer]]


class Unanswered(Enum):
    """Why a forwarded request has no answer."""

    GONE = auto()  # the instance is dead, or has been restarted since
    UNABLE = auto()  # an instance of an older release is alive, which could not read the letter
    BUSY = auto()  # too many requests are being forwarded, or its inbox is full
    LATE = auto()  # it is alive, and did not answer in time
    LEFT = auto()  # the caller did not wait


class Forwarding:
    """`answer` serves what others forward to us; the console sets it."""

    def __init__(self, mailroom: Mailroom, presence: Presence, signals: Signals, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._mailroom = mailroom
        self._presence = presence
        self._signals = signals
        self._waiting: dict[str, asyncio.Future[ForwardedAnswer]] = {}
        # Requests of others that are being answered, and those of them whose caller has left.
        self.running: dict[str, bool] = {}
        self._work = Nursery("forwarding")
        self.answer: Answer | None = None
        mailroom.handle(ForwardedRequest, self._asked)
        mailroom.handle(ForwardedAnswer, self._answered)

    async def ask(
        self, request: ForwardedRequest, wait_s: float, is_connected: Callable[[], bool]
    ) -> ForwardedAnswer | Unanswered:
        """Forward a request to its owner and wait for the answer. Raises RedisAway."""
        owner = request.owner
        if not await self._presence.is_alive(owner):
            return Unanswered.GONE
        if not self._presence.all_can(FORWARDING):
            return Unanswered.UNABLE
        if len(self._waiting) >= MAX_REQUESTS:
            return Unanswered.BUSY
        incarnation = self._presence.incarnation_of(owner)
        waiting = self._waiting[request.request_id] = asyncio.get_running_loop().create_future()
        try:
            match await self._mailroom.post(owner, request):
                case Posted.GONE:
                    return Unanswered.GONE
                case Posted.FULL:
                    return Unanswered.BUSY
            return await self._wait(waiting, request, incarnation, wait_s, is_connected)
        finally:
            del self._waiting[request.request_id]
            if not waiting.done():
                with suppress(RedisAway):
                    self._signals.publish(RequestWithdrawn(request.request_id), to=owner)

    async def _wait(
        self,
        waiting: "asyncio.Future[ForwardedAnswer]",
        request: ForwardedRequest,
        incarnation: str,
        wait_s: float,
        is_connected: Callable[[], bool],
    ) -> ForwardedAnswer | Unanswered:
        clock = self._clock
        give_up_at = clock() + wait_s + MARGIN_S
        while not waiting.done():
            await asyncio.wait((waiting,), timeout=LOOK_EVERY_S)
            if waiting.done():
                break
            if not is_connected():
                return Unanswered.LEFT
            if clock() >= give_up_at:
                _log.warning("request.unanswered", instance=request.owner, operation=request.operation)
                return Unanswered.LATE
            if not await self._is_alive(request.owner, incarnation):
                return Unanswered.GONE
        answer = waiting.result()
        if answer.status:
            return answer
        # What follows, such as a repeat of the request, must find the same.
        await self._presence.look()
        return Unanswered.GONE

    async def _is_alive(self, owner: str, incarnation: str) -> bool:
        try:
            return await self._presence.is_alive(owner, incarnation)
        except RedisAway:
            # Unknown now; the answer, or the end of the wait, comes all the same.
            return True

    def withdrawn(self, signal: RequestWithdrawn) -> None:
        if signal.request_id in self.running:
            self.running[signal.request_id] = False

    async def close(self) -> None:
        """Those that wait for a result have it by now, or never will."""
        await self._work.settle(CLOSE_TIMEOUT_S)
        await self._work.close()

    def _answered(self, message: ForwardedAnswer, _: Letter) -> None:
        waiting = self._waiting.get(message.request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def _asked(self, message: ForwardedRequest, letter: Letter) -> None:
        """At once, because a long poll takes longer than a letter may; one that comes twice is answered once, because
        what a poll is given the second time no node would get."""
        if message.request_id not in self.running and not letter.is_repeat:
            self.running[message.request_id] = True
            self._work.start(self._serve(message, letter))

    async def _serve(self, message: ForwardedRequest, letter: Letter) -> None:
        request_id = message.request_id
        try:
            if letter.adopted_from or self.answer is None:
                reply = ForwardedAnswer(request_id, 0)
            elif len(self.running) > MAX_REQUESTS:
                reply = ForwardedAnswer(request_id, 503, b'{"error":"SERVICE_UNAVAILABLE","detail":"too busy"}', 1)
            else:
                reply = await self.answer(message, lambda: self.running[request_id])
            await self._mailroom.post(letter.sender, reply)
        except RedisAway:
            # The caller hears that there was no answer in time.
            _log.info("letter.unsent", kind=ForwardedAnswer.__struct_config__.tag)
        finally:
            del self.running[request_id]


def new_request_id() -> str:
    """Unguessable: only a peer that has it can withdraw or answer the request."""
    return secrets.token_hex(16)
