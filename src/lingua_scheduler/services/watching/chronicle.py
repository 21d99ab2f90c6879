"""The chronicle: events, curves and alarms of the whole fleet. The leader writes it, every instance reads it."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.watching.chronicle import FleetMemory, untold
from lingua_scheduler.domain.watching.figures import Figures
from lingua_scheduler.domain.watching.picture import Alarm, Event, Moment
from lingua_scheduler.store.watching.chronicle import EVENTS_MAX, MOMENTS_KEEP_MS, MOMENTS_MAX, ChronicleStore

# A chronicle without a new moment for so long has no writer: the leader is of a release that writes none.
SILENT_S = 30.0
# What this instance saw itself and may have to write, should it become the leader.
KEPT_MS = 60_000
# The memory is written when the alarms change, and so often for those who look whether it is fresh.
REMEMBER_MS = 10_000


class Chronicle:
    """`is_leading` tells whether this instance is the leader, as far as it knows."""

    def __init__(self, store: ChronicleStore, is_leading: Callable[[], bool], clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self.is_leading = is_leading
        self._clock = clock
        self.events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._moments: deque[Moment] = deque(maxlen=MOMENTS_MAX)
        # As they are in Redis; own events that may not be written yet; those shown before they were written.
        self._read: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._own: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._shown: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._is_loaded = False
        self._has_led = False
        self._heard_at_s = clock()
        self._written: FleetMemory | None = None
        # The alarms that the fleet had raised before this instance began to look.
        self.known_alarms: list[Alarm] = []
        # Whether a person watches the fleet through another instance.
        self._is_watched = False

    @property
    def is_hurried(self) -> bool:
        """The leader looks as often as the instance that is being watched."""
        return self._is_watched and self.is_leading()

    @property
    def history(self) -> list[Moment]:
        """The last half hour, oldest first."""
        return list(self._moments)

    async def recall(self) -> FleetMemory | None:
        """What the leader remembers; None on the leader itself, which knows it. Raises RedisAway."""
        if not self._is_loaded:
            self._read.extend(await self._store.events.news())
            self.events.extend(self._read)
            self._moments.extend(await self._store.moments.news())
            memory = await self._store.memory()
            self.known_alarms = memory.alarms if memory is not None else []
            self._is_loaded = True
            return memory
        return None if self.is_leading() else await self._store.memory()

    def heard(self, living: Iterable[Figures]) -> None:
        self._is_watched = any(figures.is_watched for figures in living)

    async def turn(self, moment: Moment, own: Sequence[Event], memory: FleetMemory) -> list[Event]:
        """Take what was seen at a moment, write it if it is ours to write, and return what is new. Raises RedisAway."""
        self._own.extend(own)
        if self.is_leading():
            # A new leader has seen what its predecessor wrote, or did not live to write.
            events = list(self._own) if self._has_led else untold(self._own, self._read)
            await self._store.write(events, moment, memory if self._must_write(memory) else None)
            self._own.clear()
        self._has_led = self.is_leading()
        moments = await self._store.moments.news()
        news = await self._store.events.news()
        if moments:
            self._heard_at_s = self._clock()
        if self._clock() - self._heard_at_s > SILENT_S:
            moments = [*moments, moment]
            self.away(own)
            shown = list(own)
        else:
            # What was written twice, because the reply got lost, is told once.
            shown = [event for event in untold(news, self._shown) if event not in self._read]
            self.events.extend(shown)
        self._read.extend(news)
        for kept in (self._own, self._shown):
            while kept and moment.at_ms - kept[0].at_ms > KEPT_MS:
                kept.popleft()
        self._remember(moments, moment.at_ms)
        return shown

    def away(self, own: Sequence[Event]) -> list[Event]:
        """What is seen while Redis is away is shown at once, and written by the leader when Redis is back."""
        self._own.extend(own)
        self._shown.extend(own)
        self.events.extend(own)
        return list(own)

    def _must_write(self, memory: FleetMemory) -> bool:
        written = self._written
        is_due = written is None or memory.at_ms - written.at_ms >= REMEMBER_MS or memory.alarms != written.alarms
        if is_due:
            self._written = memory
        return is_due

    def _remember(self, moments: Sequence[Moment], now_ms: int) -> None:
        self._moments.extend(moments)
        while self._moments and now_ms - self._moments[0].at_ms > MOMENTS_KEEP_MS:
            self._moments.popleft()
