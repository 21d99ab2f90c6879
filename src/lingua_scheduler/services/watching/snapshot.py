"""The latest picture (snapshot): built periodically, read by all, and followed by watch streams."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.watching.changes import changes
from lingua_scheduler.domain.watching.chronicle import FleetMemory
from lingua_scheduler.domain.watching.event_limits import EventLimits
from lingua_scheduler.domain.watching.picture import Event, Moment, Picture
from lingua_scheduler.services.watching.chronicle import Chronicle
from lingua_scheduler.setting_sections.watching import WatchSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import SingleFlight

_log = logs.get()

# A request while there is no picture builds one for all, but not more often than this.
COLD_BUILD_S = 30.0
# A build may take no more than this share of the time.
REST_FACTOR = 20
# The same for a build that a caller waits for.
SOON_S, SOON_REST_FACTOR = 0.1, 4
# How long a reader waits for the picture that follows the return of Redis, and such a picture for the nodes that are
# being written again.
RETURN_S = 5.0
# Number of changes kept, which watchers can follow one by one.
STEPS_KEPT = 8


class Maker(Protocol):
    """What pictures come from."""

    async def make(self, before: Picture | None) -> Picture: ...

    def stale(self, before: Picture, now_ms: int) -> Picture: ...

    def memory(self, picture: Picture) -> FleetMemory: ...


class PictureStep(msgspec.Struct, frozen=True):
    """From one picture to the next."""

    before: Picture
    after: Picture
    events: list[Event]


class TooManyWatchers(Exception):
    """Too many watchers; one must stop first."""


class TooManyOfAddress(TooManyWatchers):
    """Others may still watch."""


class Watcher:
    """A watcher: it is notified of changes, and reads those it has not seen yet."""

    def __init__(self, snapshots: "Snapshots", meter: str = "") -> None:
        self._snapshots = snapshots
        self.meter = meter
        self._serial = 0
        self._events_seen = snapshots.events_total
        self.news = asyncio.Event()
        self.news.set()

    def __enter__(self) -> "Watcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._snapshots.leave(self)

    def steps(self) -> list[PictureStep] | None:
        """Since the last call, oldest first; None when it is too far behind, or new, and has to start over."""
        latest = self._snapshots.latest
        if latest is None:
            return []
        before, self._serial = self._serial, latest.serial
        missed = [step for step in self._snapshots.steps if step.after.serial > before]
        if before != latest.serial and (not missed or missed[0].before.serial != before):
            return None
        return missed

    def events(self) -> list[Event]:
        """Since the last call, oldest first, as far as they are kept."""
        missed = self._snapshots.events_total - self._events_seen
        self._events_seen = self._snapshots.events_total
        return list(self._snapshots.events)[-missed:] if missed else []


class Snapshots:
    """`clock` counts seconds; `latest` is None until the first picture is made."""

    def __init__(
        self, maker: Maker, settings: WatchSettings, chronicle: Chronicle, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._maker = maker
        self._settings = settings
        self._chronicle = chronicle
        self._clock = clock
        self.latest: Picture | None = None
        self.made_at_s = clock()
        self._event_limits = EventLimits()
        self.steps: deque[PictureStep] = deque(maxlen=STEPS_KEPT)
        self.events_total = 0
        self.is_closed = False
        # Called with every new picture; may do little.
        self.on_picture: list[Callable[[Picture], None]] = []
        self._watchers: set[Watcher] = set()
        self._of_address: Counter[str] = Counter()
        self.building = SingleFlight[Picture]()
        self._cold_at_s = float("-inf")
        self._took_s = 0.0
        self._hurry = asyncio.Event()
        self._is_due = False
        # Cleared while connected nodes are being written again: a picture of that moment would miss them.
        self.settled = asyncio.Event()
        self.settled.set()

    @property
    def history(self) -> list[Moment]:
        """The last half hour, oldest first."""
        return self._chronicle.history

    @property
    def events(self) -> Sequence[Event]:
        """The latest of the fleet, oldest first."""
        return self._chronicle.events

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    @property
    def age_s(self) -> float:
        """Since what the latest picture shows was so; before the first one, since we began."""
        return self._clock() - self.made_at_s

    async def read(self) -> Picture:
        """The latest picture. Raises RedisAway when there is none and none can be made now.

        A reader that knows from the readiness check that Redis is back must not be told that it is away: it waits for
        the picture that is due.
        """
        if self.latest is not None:
            return await self._renewed(self.latest) if self.latest.is_stale else self.latest
        if not self.building.is_running:
            if self._clock() - self._cold_at_s < COLD_BUILD_S:
                raise RedisAway("no state is known yet, and the last attempt to read it failed; try again shortly")
            self._cold_at_s = self._clock()
        return await self.build()

    async def _renewed(self, picture: Picture) -> Picture:
        with suppress(TimeoutError):
            async with asyncio.timeout(RETURN_S):
                while picture.is_stale and (self._is_due or self.building.is_running):
                    picture = await self.build()
        return picture

    async def build(self) -> Picture:
        """Build the next picture. Concurrent callers are coalesced into one build."""
        return await self.building.join(self._build)

    def subscribe(self, meter: str = "") -> Watcher:
        """To be used in a `with` block. Raises TooManyWatchers. Without a meter its address has no limit."""
        if meter and self._of_address[meter] >= self._settings.max_watchers_per_address:
            raise TooManyOfAddress
        if len(self._watchers) >= self._settings.max_watchers:
            raise TooManyWatchers
        watcher = Watcher(self, meter)
        self._watchers.add(watcher)
        if meter:
            self._of_address[meter] += 1
        # The builder may be in the middle of a longer pause.
        self._hurry.set()
        return watcher

    def leave(self, watcher: Watcher) -> None:
        if watcher not in self._watchers:
            return
        self._watchers.discard(watcher)
        if watcher.meter:
            self._of_address[watcher.meter] -= 1
            if not self._of_address[watcher.meter]:
                del self._of_address[watcher.meter]

    async def run(self) -> None:
        """Build pictures for ever, faster while there are watchers; a failure does not end it."""
        was_failing = False
        while True:
            try:
                await self.build()
                was_failing = False
            except RedisAway:
                pass  # already known, or reported to the caller
            except Exception as error:
                if not was_failing:
                    _log.error("snapshot.failed", exc_info=error)
                was_failing = True
            await self._pause()

    def build_soon(self) -> None:
        """Redis went or came back: what is shown is wrong now, not in a few seconds."""
        self._is_due = True
        self._hurry.set()

    def close(self) -> None:
        """No more pictures; watchers notice it through their `news`."""
        self.is_closed = True
        self.building.cancel()
        self._wake_watchers()

    async def _pause(self) -> None:
        began_s = self._clock()
        while (left_s := began_s + self._interval_s() - self._clock()) > 0:
            self._hurry.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._hurry.wait()
            except TimeoutError:
                return

    def _interval_s(self) -> float:
        settings = self._settings
        if self._is_due:
            return max(SOON_S, SOON_REST_FACTOR * self._took_s)
        is_hurried = self._watchers or self._chronicle.is_hurried
        wished_ms = settings.watched_interval_ms if is_hurried else settings.interval_ms
        return max(wished_ms / 1000, REST_FACTOR * self._took_s)

    async def _build(self) -> Picture:
        self._is_due = False
        with suppress(TimeoutError):
            async with asyncio.timeout(RETURN_S):
                await self.settled.wait()
        began_s = self._clock()
        before = self.latest
        try:
            picture = await self._maker.make(before)
        except RedisAway:
            if before is None:
                raise
            if before.is_stale:
                return before
            now_ms = int(wall_ms())
            picture = self._maker.stale(before, now_ms)
            own = [msgspec.structs.replace(event, at_ms=now_ms) for event in self._told(changes(before, picture))]
            events = self._chronicle.away(own)
        else:
            self._took_s = self._clock() - began_s
            self.made_at_s = self._clock()
            events = await self._chronicled(before, picture)
        self._publish(before, picture, events)
        return picture

    def _publish(self, before: Picture | None, picture: Picture, events: list[Event]) -> None:
        self.latest = picture
        self.events_total += len(events)
        if before is not None:
            self.steps.append(PictureStep(before, picture, events))
        for told in self.on_picture:
            told(picture)
        self._wake_watchers()

    async def _chronicled(self, before: Picture | None, picture: Picture) -> list[Event]:
        memory = self._maker.memory(picture)
        own = self._told(changes(before, picture, self._chronicle.known_alarms))
        try:
            return await self._chronicle.turn(picture.now, own, memory)
        except RedisAway:
            # It went away after the picture was made; the next one says so.
            return self._chronicle.away(own)

    def _told(self, events: list[Event]) -> list[Event]:
        return self._event_limits.told(events, self._clock())

    def _wake_watchers(self) -> None:
        for watcher in self._watchers:
            watcher.news.set()
