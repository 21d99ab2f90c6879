"""Outcomes of speech in rooms that are kept for listeners who come back: bounded in bytes and time."""

from typing import NamedTuple

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.guards.rates import MinuteAllowances
from lingua_scheduler.protocol.bus import RoomSaid


class _Kept(NamedTuple):
    at_s: float
    said: RoomSaid
    is_ours: bool


# How often a session gets them: they may be many megabytes, from each instance. A connection may break several times.
ASKED_PER_MIN = 20
# Of an outcome without its frame.
ENVELOPE_BYTES = 1_024


class Replays:
    """Of all rooms of the process; the oldest go first."""

    def __init__(self, max_bytes: int, keep_s: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._max_bytes = max_bytes
        self._keep_s = keep_s
        self._clock = clock
        self._allowances = MinuteAllowances(ASKED_PER_MIN)
        # By room, number and language, the oldest first.
        self._kept: dict[tuple[str, int, str], _Kept] = {}
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def may_ask(self, session_id: str) -> bool:
        return self._allowances.take(session_id, self._clock())

    def add(self, said: RoomSaid, *, is_ours: bool = False) -> bool:
        """False if it was known. `is_ours`: it was said at this instance."""
        key = said.room_id, said.utterance.seq, said.language
        if key in self._kept:
            return False
        now_s = self._clock()
        self._kept[key] = _Kept(now_s, said, is_ours)
        self.held_bytes += _size(said)
        while self._kept:
            oldest = next(iter(self._kept))
            if self.held_bytes <= self._max_bytes and self._kept[oldest].at_s >= now_s - self._keep_s:
                break
            self.held_bytes -= _size(self._kept.pop(oldest).said)
        return True

    def is_ours(self, said: RoomSaid) -> bool:
        kept = self._kept.get((said.room_id, said.utterance.seq, said.language))
        return kept is not None and kept.is_ours

    def since(self, room_id: str, seq: int, most: int) -> list[RoomSaid]:
        """What was said in a room after `seq`, in its order; the latest, if it is more than `most`."""
        oldest_s = self._clock() - self._keep_s
        found = [
            kept.said
            for kept in self._kept.values()
            if kept.said.room_id == room_id and kept.said.utterance.seq > seq and kept.at_s >= oldest_s
        ]
        return sorted(found, key=lambda said: said.utterance.seq)[-most:]


def _size(said: RoomSaid) -> int:
    return ENVELOPE_BYTES + len(said.frame)
