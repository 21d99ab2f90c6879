"""The last minutes of rooms as text, in memory: bounded by age, by room and in all. The oldest is forgotten first."""

from collections import deque
from collections.abc import Iterable
from sys import getsizeof

import msgspec

from lingua_scheduler.domain.pools.lookup import ServedTags

# Of one room; what it takes as a message is about as much.
MAX_ROOM_BYTES = 131_072
# Of a line without its texts.
LINE_BYTES = 512


class PastLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a member said, or wrote. `translations` are by language; of a written line there are none."""

    session_id: str
    name: str = ""
    # When it was said, by the wall clock.
    at_ms: int
    # As it was said or written, and the language of it if it was said.
    text: str
    lang: str = ""
    # Its place in the room, if it was said.
    seq: int | None = None
    translations: dict[str, str] = {}

    @property
    def key(self) -> tuple[str, int]:
        """The same wherever it is kept."""
        return (self.session_id, self.at_ms) if self.seq is None else ("", self.seq)

    def size(self) -> int:
        texts = (self.text, self.name, *self.translations, *self.translations.values())
        return LINE_BYTES + sum(map(getsizeof, texts))

    def text_in(self, language: str) -> tuple[str, str]:
        """In this language if it was translated into it or into a tag that stands for it, and else as it was said; and
        which language that is."""
        if language not in self.translations:
            language = next(iter(ServedTags(self.translations).candidates(language)), "")
        translated = self.translations.get(language)
        return (self.text, self.lang) if translated is None else (translated, language)


class RoomPast:
    """The lines of one room."""

    __slots__ = ("_lines", "size", "times")

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int], PastLine] = {}
        # When each was added here, by the loop's clock.
        self.times: dict[tuple[str, int], float] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._lines)

    def lines(self, before_s: float = float("inf")) -> list[PastLine]:
        """Oldest first; those that were added before this time."""
        kept = [line for key, line in self._lines.items() if self.times[key] <= before_s]
        return sorted(kept, key=lambda line: line.at_ms)

    def add(self, line: PastLine, now_s: float) -> bool:
        """Whether it was unknown; to one that is known its translations are added."""
        known = self._lines.get(line.key)
        if known is not None:
            self.size -= known.size()
            known.translations = {**known.translations, **line.translations}
            known.text, known.name = known.text or line.text, known.name or line.name
            self.size += known.size()
        else:
            # A copy: what is added to it later is not the caller's.
            self._lines[line.key] = msgspec.structs.replace(line)
            self.times[line.key] = now_s
            self.size += line.size()
        while self.size > MAX_ROOM_BYTES and len(self._lines) > 1:
            self.forget_first()
        return known is None

    def first_s(self) -> float:
        """When its oldest line was added."""
        return next(iter(self.times.values()), float("inf"))

    def forget_first(self) -> None:
        key = next(iter(self._lines))
        self.size -= self._lines.pop(key).size()
        del self.times[key]


class RoomPasts:
    """Of all rooms here, in the order in which their latest line came."""

    def __init__(self, keep_s: float, max_bytes: int) -> None:
        self._keep_s = keep_s
        self._max_bytes = max_bytes
        self._size = 0
        # One entry for each line that was added: the room whose oldest line is to go then.
        self._order: deque[tuple[float, RoomPast]] = deque()

    def add(self, past: RoomPast, lines: Iterable[PastLine], now_s: float) -> list[PastLine]:
        """Those that were unknown."""
        before = past.size
        unknown = [line for line in lines if past.add(line, now_s)]
        self._size += past.size - before
        self._order.extend((now_s, past) for _ in unknown)
        self.trim(now_s)
        return unknown

    def trim(self, now_s: float) -> None:
        while self._order and (self._order[0][0] <= now_s - self._keep_s or self._size > self._max_bytes):
            added_s, past = self._order.popleft()
            if past.first_s() <= added_s:
                self._size -= past.size
                past.forget_first()
                self._size += past.size

    def drop(self, past: RoomPast) -> None:
        """Its room is not here any more."""
        self._size -= past.size
        while len(past):
            past.forget_first()
