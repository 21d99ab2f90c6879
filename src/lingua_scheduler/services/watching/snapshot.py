"""One picture of everything for whoever looks: made by one builder, read by all, followed by those who watch."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Protocol

import msgspec

from lingua_scheduler.domain.watching.changes import changes
from lingua_scheduler.domain.watching.picture import Event, Moment, Picture
from lingua_scheduler.settings import WatchSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs

_log = logs.get()

HISTORY_MS = 30 * 60_000
EVENTS_KEPT = 500
# Whoever asks while there is no picture at all has one made for everybody, but not more often than this.
COLD_BUILD_S = 30.0
# A build may take no more than this share of the time.
REST_FACTOR = 20
# So far back those who watch can follow change by change.
STEPS_KEPT = 8


class Maker(Protocol):
    """What pictures come from."""

    async def make(self, before: Picture | None) -> Picture: ...

    def stale(self, before: Picture, now_ms: int) -> Picture: ...


class Step(msgspec.Struct, frozen=True):
    """From one picture to the next."""

    before: Picture
    after: Picture
    events: list[Event]


class TooManyWatchers(Exception):
    """Somebody else has to stop watching first."""


class TooManyOfAddress(TooManyWatchers):
    """Others may still watch."""


class Watcher:
    """Somebody who follows: hears that there is something, and asks for what it has not seen yet."""

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

    def steps(self) -> list[Step] | None:
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

    def __init__(self, maker: Maker, settings: WatchSettings, clock: Callable[[], float] = monotonic) -> None:
        self._maker = maker
        self._settings = settings
        self._clock = clock
        self.latest: Picture | None = None
        self.made_at_s = clock()
        self.steps: deque[Step] = deque(maxlen=STEPS_KEPT)
        self._history: deque[Moment] = deque(maxlen=settings.history)
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self.events_total = 0
        self.is_closed = False
        # Called with every new picture; may do little.
        self.on_picture: list[Callable[[Picture], None]] = []
        self._watchers: set[Watcher] = set()
        self._of_address: Counter[str] = Counter()
        self._building: asyncio.Task[Picture] | None = None
        self._cold_at_s = float("-inf")
        self._took_s = 0.0
        self._hurry = asyncio.Event()

    @property
    def history(self) -> list[Moment]:
        """The last half hour, oldest first."""
        return list(self._history)

    @property
    def age_s(self) -> float:
        """Since what the latest picture shows was so; before the first one, since we began."""
        return self._clock() - self.made_at_s

    async def read(self) -> Picture:
        """The latest picture. Raises RedisAway when there is none and none can be made now."""
        if self.latest is not None:
            return self.latest
        if self._building is None:
            if self._clock() - self._cold_at_s < COLD_BUILD_S:
                raise RedisAway("there is no picture yet, and a try to make one failed a moment ago")
            self._cold_at_s = self._clock()
        return await self.build()

    async def build(self) -> Picture:
        """Make the next picture; all who ask at the same time get the same one."""
        if self._building is None:
            self._building = asyncio.create_task(self._build())
            # Those who waited for it may all have left.
            self._building.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._building)

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
        """Build for ever, at the pace of those who watch; a failure is no reason to stop."""
        was_failing = False
        while True:
            try:
                await self.build()
                was_failing = False
            except RedisAway:
                pass  # known already, or to be told to whoever asks
            except Exception as error:
                if not was_failing:
                    _log.error("snapshot.failed", exc_info=error)
                was_failing = True
            await self._pause()

    def close(self) -> None:
        """No more pictures; those who watch are told by their `news`."""
        self.is_closed = True
        if self._building is not None:
            self._building.cancel()
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
        wished_ms = settings.watched_interval_ms if self._watchers else settings.interval_ms
        return max(wished_ms / 1000, REST_FACTOR * self._took_s)

    async def _build(self) -> Picture:
        began_s = self._clock()
        before = self.latest
        try:
            picture = await self._maker.make(before)
        except RedisAway:
            if before is None:
                raise
            if before.is_stale:
                return before
            now_ms = int(time.time() * 1000)
            picture = self._maker.stale(before, now_ms)
            events = [msgspec.structs.replace(event, at_ms=now_ms) for event in changes(before, picture)]
        else:
            self._took_s = self._clock() - began_s
            self.made_at_s = self._clock()
            events = changes(before, picture)
            self._remember(picture.now)
        finally:
            self._building = None
        self._publish(before, picture, events)
        return picture

    def _publish(self, before: Picture | None, picture: Picture, events: list[Event]) -> None:
        self.latest = picture
        self.events.extend(events)
        self.events_total += len(events)
        if before is not None:
            self.steps.append(Step(before, picture, events))
        for told in self.on_picture:
            told(picture)
        self._wake_watchers()

    def _remember(self, moment: Moment) -> None:
        self._history.append(moment)
        while moment.at_ms - self._history[0].at_ms > HISTORY_MS:
            self._history.popleft()

    def _wake_watchers(self) -> None:
        for watcher in self._watchers:
            watcher.news.set()
