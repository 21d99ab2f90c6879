"""Handling letters: in order within a lane, many lanes concurrently, with a bound on the letters in progress."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, NamedTuple

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.protocol.bus import KINDS, AnyMessage, BusMessage, UnreadableLetter, decode
from lingua_scheduler.protocol.sealing import BrokenSeal, OtherKey
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.cluster.pulse import Pulse
from lingua_scheduler.services.cluster.repeats import Repeats
from lingua_scheduler.services.cluster.seals import Seals
from lingua_scheduler.setting_sections.instances import InboxSettings
from lingua_scheduler.store.cluster.inbox import InboxEntry, Inboxes, limits_of
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

_DEAD = metrics.by(
    metrics.DEAD_LETTERS, "unknown_kind", "unreadable", "other_key", "no_handler", "never_done", "failed"
)
_LETTERS = {
    (kind, outcome): metrics.LETTERS.labels(kind, outcome)
    for kind in (*KINDS, "unknown")
    for outcome in ("handled", "adopted", "failed", "dead")
}

OTHER_KEY = "other_key"
MOST_IN_HAND = 512
DONE_TOGETHER = 256
TRY_AGAIN_S = 0.1


# What a handler cannot do at once it returns, to be waited for.
Handler = Callable[[Any, Letter], Awaitable[None] | None]
OnDead = Callable[[BusMessage | None, Letter, str], Awaitable[None]]


class _InHand(NamedTuple):
    letter: Letter
    # Whose inbox it lies in, and where; a local letter lies in none.
    inbox: str
    entry: InboxEntry | None
    message: AnyMessage | None
    # Why it cannot be handled, or empty.
    flaw: str
    is_let_go: asyncio.Future[None]

    @property
    def key(self) -> tuple[str, str]:
        return self.inbox, self.entry.entry_id if self.entry else self.letter.uid


class Desk:
    """Dispatches letters to handlers.

    Delivery is at least once, after a failure or a crash, so handlers are idempotent.
    """

    def __init__(
        self, instance: str, inboxes: Inboxes, settings: InboxSettings, seals: Seals, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clock = clock
        self._instance = instance
        self._inboxes = inboxes
        self._settings = settings
        self._seals = seals
        self._limits = limits_of(settings)
        self._handlers: dict[type[BusMessage], Handler] = {}
        self._in_hand: dict[tuple[str, str], _InHand] = {}
        self._lanes: dict[str, deque[_InHand]] = {}
        self._done: dict[str, list[_InHand]] = {}
        self._repeats = Repeats()
        self._has_done = asyncio.Event()
        self._has_room = asyncio.Event()
        self._work = Nursery("letters")
        self._chores = Nursery("letters_done")
        self.on_dead: OnDead | None = None
        self.pulse = Pulse(clock)

    def handle(self, message: type[BusMessage], handler: Handler) -> None:
        self._handlers[message] = handler

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Kept, because looking it up costs a call of the system each time."""
        return asyncio.get_running_loop()

    @property
    def room(self) -> int:
        return max(0, MOST_IN_HAND - len(self._in_hand))

    async def wait_for_room(self) -> int:
        while not self.room:
            self._has_room.clear()
            await self._has_room.wait()
        return self.room

    def start(self) -> None:
        self._chores.start(self._flush())

    async def close(self, timeout_s: float) -> None:
        """Finish letters in progress, for a limited time; the rest stay in the inbox."""
        deadline = self._clock() + timeout_s
        await self._work.settle(timeout_s)
        await self._work.close()
        if self._done:
            waiting = [held.is_let_go for done in self._done.values() for held in done]
            await asyncio.wait(waiting, timeout=max(0.0, deadline - self._clock()))
        await self._chores.close()

    def take(self, inbox: str, entry: InboxEntry) -> asyncio.Future[None] | None:
        """Queue a letter. The future is done when the letter is. None: it is already in progress."""
        if (inbox, entry.entry_id) in self._in_hand:
            return None
        adopted_from = "" if inbox == self._instance else inbox
        message, flaw = self._read(inbox, entry)
        is_repeat = message is not None and not adopted_from and self._repeats.has_come(entry)
        letter = Letter(
            entry.uid, entry.sender, entry.kind, entry.deliveries, adopted_from, self.pulse.is_behind, is_repeat
        )
        return self._queue(letter, inbox, entry, message, flaw)

    def take_local(self, message: AnyMessage, uid: str) -> bool:
        """A letter to ourselves; False if too many are in progress."""
        if not self.room:
            return False
        flaw = "" if type(message) in self._handlers else "no_handler"
        self._queue(Letter(uid, self._instance, message.kind), "", None, message, flaw)
        return True

    def _read(self, inbox: str, entry: InboxEntry) -> tuple[AnyMessage | None, str]:
        """The message, and what is wrong with it."""
        if entry.kind not in KINDS:
            return None, "unknown_kind"
        try:
            message = decode(self._seals.open(inbox, entry))
        except (UnreadableLetter, BrokenSeal):
            return None, "unreadable"
        except OtherKey:
            return None, OTHER_KEY
        if type(message) not in self._handlers:
            return message, "no_handler"
        # Delivered, but neither done nor failed: the process that handled it crashed.
        return message, "never_done" if entry.deliveries > self._settings.max_deliveries else ""

    def _queue(
        self, letter: Letter, inbox: str, entry: InboxEntry | None, message: AnyMessage | None, flaw: str
    ) -> asyncio.Future[None]:
        is_let_go: asyncio.Future[None] = self._loop.create_future()
        held = _InHand(letter, inbox, entry, message, flaw, is_let_go)
        self._in_hand[held.key] = held
        name = (message.lane if message is not None else "") or letter.sender
        lane = self._lanes.get(name)
        if lane is not None:
            lane.append(held)
        # The sender of a local letter does not expect the answer before its own call has returned.
        elif entry is None or (rest := self._open(held)) is not None:
            lane = self._lanes[name] = deque((held,))
            self._work.start(self._serve(name, lane, None if entry is None else rest))
        return is_let_go

    async def _serve(self, name: str, lane: deque[_InHand], rest: Awaitable[None] | None) -> None:
        """A lane from the moment its first letter has to be waited for."""
        try:
            while lane:
                rest = rest or self._open(lane[0])
                if rest is not None:
                    await rest
                lane.popleft()
                rest = None
        finally:
            del self._lanes[name]

    def _open(self, held: _InHand) -> Awaitable[None] | None:
        """What has to be waited for; most letters are handled at once."""
        letter = held.letter
        if held.flaw == OTHER_KEY and letter.adopted_from and letter.deliveries < self._settings.max_deliveries:
            # Another of the living may have the key, and adopts the inbox next time.
            self._let_go(held)
            return None
        if held.flaw or held.message is None:
            return self._bury(held, held.flaw)
        try:
            rest = self._handlers[type(held.message)](held.message, held.letter)
        except Exception as error:
            return self._failed(held, error)
        if rest is not None:
            return self._wait_for(held, rest)
        self._handled(held)
        return None

    async def _wait_for(self, held: _InHand, rest: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._settings.handle_timeout_ms / 1000):
                await rest
        except Exception as error:
            await self._failed(held, error)
        else:
            self._handled(held)

    def _handled(self, held: _InHand) -> None:
        _count(held.letter, "adopted" if held.letter.adopted_from else "handled")
        if held.entry is None:
            self._let_go(held)
        else:
            self._done.setdefault(held.inbox, []).append(held)
            self._has_done.set()

    async def _failed(self, held: _InHand, error: Exception) -> None:
        letter = held.letter
        # Only its name: what an error says may hold what the letter holds.
        failure = type(error).__name__
        _count(letter, "failed")
        _log.warning("letter.failed", kind=letter.kind, uid=letter.uid, tries=letter.deliveries, error=failure)
        # A local letter lies nowhere where it could wait for another try.
        if held.entry is None or letter.deliveries >= self._settings.max_deliveries:
            await self._bury(held, "failed")
        else:
            self._let_go(held)

    async def _bury(self, held: _InHand, reason: str) -> None:
        """Notify the waiters of the letter first; if Redis fails in between, the whole step is repeated."""
        letter = held.letter
        _log.error("letter.dead", kind=letter.kind, uid=letter.uid, sender=letter.sender, reason=reason)
        try:
            if self.on_dead is not None:
                await self.on_dead(held.message, letter, reason)
        except RedisAway:
            self._let_go(held)
            return
        except Exception as error:
            _log.error("letter.dead_unheard", uid=letter.uid, error=type(error).__name__)
        try:
            if held.entry is not None:
                about = held.message
                keeps_body = self._settings.keep_speech or (about is not None and not about.carries_speech)
                subject = about.lane if about is not None else ""
                await self._inboxes.bury(
                    held.inbox, held.entry, reason, self._limits, subject=subject, keeps_body=keeps_body
                )
            _DEAD[reason].inc()
            _count(letter, "dead")
        except Exception as error:
            # A failure must not affect the letters behind it in its lane.
            _log.warning("letter.not_buried", uid=letter.uid, error=type(error).__name__)
        finally:
            self._let_go(held)

    async def _flush(self) -> None:
        """Acknowledge in batches: while one batch is being written, the next one gathers."""
        while True:
            await self._has_done.wait()
            self._has_done.clear()
            for inbox in list(self._done):
                while batch := self._done[inbox][:DONE_TOGETHER]:
                    await self._insist_done(inbox, batch)
                    del self._done[inbox][: len(batch)]
                del self._done[inbox]

    async def _insist_done(self, inbox: str, batch: list[_InHand]) -> None:
        """Until Redis has heard it these stay in hand, so that they are not handled again."""
        is_heard = False
        while not is_heard:
            try:
                await self._inboxes.done(inbox, [held.entry.entry_id for held in batch if held.entry])
                is_heard = True
            except RedisAway:
                if inbox != self._instance:
                    # It may lie on another server of a Cluster than our own, and must not hold that up.
                    break
                await asyncio.sleep(TRY_AGAIN_S)
            except Exception as error:
                # Redis is there and refuses. They come again, and so does all that is done from now on.
                _log.error("letters.not_done", letters=len(batch), error=type(error).__name__)
                break
        for held in batch:
            self._let_go(held)

    def _let_go(self, held: _InHand) -> None:
        del self._in_hand[held.key]
        if not held.is_let_go.done():
            held.is_let_go.set_result(None)
        self._has_room.set()


def _count(letter: Letter, outcome: str) -> None:
    _LETTERS[letter.kind if letter.kind in KINDS else "unknown", outcome].inc()
