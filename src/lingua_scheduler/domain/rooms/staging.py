"""Staging of WebRTC frames, so that existing browsers connect: both sides of a pair offer at once, and lose early
candidates. Sans-IO: frames and time in, frames to pass out. There is one for each room on each instance."""

from enum import Enum
from typing import Generic, NamedTuple, TypeVar

F = TypeVar("F")

# How long a member that joins waits for the offers of those who are there.
ENTRANCE_S = 1.5
# How long an offer stands against one in the other direction.
CROSSING_S = 10.0
# Candidates wait until the receiver has surely applied the answer, also if a person thinks long about the microphone.
SETTLE_S = 0.3
UNANSWERED_S = 60.0
# Candidates held for one receiver from one sender; a link has 4 to 20.
MAX_HELD = 64


class Ruling(Enum):
    PASS = "pass"
    HOLD = "hold"
    DROP = "drop"


class Passing(NamedTuple, Generic[F]):
    """Frames that may go to a member now; `is_entering`: first it is acknowledged that it is in the room."""

    receiver: str
    frames: tuple[F, ...]
    is_entering: bool = False


class _Entrance(Generic[F]):
    __slots__ = ("awaited", "frames", "until_s")

    def __init__(self, awaited: frozenset[str], until_s: float) -> None:
        self.awaited = set(awaited)
        self.until_s = until_s
        # The latest offer of each sender.
        self.frames: dict[str, F] = {}


class _Link(Generic[F]):
    """Two members, since the last offer between them."""

    __slots__ = ("answered_s", "held", "is_away", "offered_by", "offered_s")

    def __init__(self, offered_by: str, offered_s: float, is_away: bool) -> None:
        self.offered_by = offered_by
        self.offered_s = offered_s
        # Whether the offer left for another instance, where one from the other side may have been on its way.
        self.is_away = is_away
        self.answered_s: float | None = None
        self.held: dict[str, list[F]] = {}

    @property
    def ends_s(self) -> float:
        """When candidates need not wait any longer: they pass after an answer, and are dropped without one."""
        return self.offered_s + UNANSWERED_S if self.answered_s is None else self.answered_s + SETTLE_S


class Staging(Generic[F]):
    """`is_away` of a frame: its receiver is at another instance, which holds what has to wait."""

    def __init__(self) -> None:
        self._entrances: dict[str, _Entrance[F]] = {}
        # Each in the order in which they end: each frame asks for the next end, and a room may have many links.
        self._offered: dict[tuple[str, str], _Link[F]] = {}
        self._answered: dict[tuple[str, str], _Link[F]] = {}

    def enter(self, joiner: str, awaited: frozenset[str], now_s: float) -> None:
        """A member joins. It enters when all offers have come, or after a while."""
        self._entrances[joiner] = _Entrance(awaited, now_s + ENTRANCE_S if awaited else now_s)

    def is_entering(self, session_id: str) -> bool:
        return session_id in self._entrances

    def offer(
        self, sender: str, receiver: str, frame: F, now_s: float, *, is_away: bool = False, is_from_away: bool = False
    ) -> Ruling:
        pair = _pair(sender, receiver)
        link = self._find(pair)
        is_crossing = link is not None and link.offered_by == receiver and _stands(link, now_s)
        # Two offers that crossed between two instances meet at both: both must let the same one pass.
        is_first = link is not None and link.is_away and is_from_away and sender < receiver
        if is_crossing and not is_first:
            return Ruling.DROP
        self._drop(pair)
        held = {} if link is None or link.answered_s is not None else link.held
        link = self._offered[pair] = _Link(sender, now_s, is_away)
        # What was sent behind an offer that gave way to this one may still help the answer.
        link.held = held
        entrance = self._entrances.get(receiver)
        if is_away or entrance is None:
            return Ruling.PASS
        entrance.frames[sender] = frame
        entrance.awaited.discard(sender)
        return Ruling.HOLD

    def answer(self, sender: str, receiver: str, now_s: float) -> Ruling:
        pair = _pair(sender, receiver)
        link = self._offered.get(pair)
        if link is not None and link.offered_by == receiver:
            link.answered_s = now_s
            self._answered[pair] = self._offered.pop(pair)
        return Ruling.PASS

    def candidate(self, sender: str, receiver: str, frame: F, now_s: float, *, is_away: bool = False) -> Ruling:
        link = self._find(_pair(sender, receiver))
        if is_away or link is None or now_s >= link.ends_s:
            return Ruling.PASS
        held = link.held.setdefault(receiver, [])
        if len(held) >= MAX_HELD:
            return Ruling.DROP
        held.append(frame)
        return Ruling.HOLD

    def forget(self, session_id: str) -> None:
        """It is not a member any more."""
        self._entrances.pop(session_id, None)
        for entrance in self._entrances.values():
            entrance.awaited.discard(session_id)
        for pair in [pair for pair in (*self._offered, *self._answered) if session_id in pair]:
            self._drop(pair)

    def due(self, now_s: float, *, is_shown: bool = True) -> list[Passing[F]]:
        """What may pass now, once. `is_shown`: whether the others see all who have joined, so that these may enter."""
        passing: list[Passing[F]] = []
        for joiner, entrance in list(self._entrances.items()):
            if is_shown and (not entrance.awaited or now_s >= entrance.until_s):
                del self._entrances[joiner]
                passing.append(Passing(joiner, tuple(entrance.frames.values()), is_entering=True))
        for links in (self._offered, self._answered):
            while links and now_s >= (link := next(iter(links.values()))).ends_s:
                if link.answered_s is not None:
                    passing += [Passing(receiver, tuple(held)) for receiver, held in link.held.items() if held]
                del links[next(iter(links))]
        return passing

    def next_s(self, *, is_shown: bool = True) -> float | None:
        """When `due` has something to say, if nothing comes before."""
        entrances = self._entrances.values() if is_shown else ()
        times = [entrance.until_s if entrance.awaited else 0.0 for entrance in entrances]
        times += [next(iter(links.values())).ends_s for links in (self._offered, self._answered) if links]
        return min(times, default=None)

    def _find(self, pair: tuple[str, str]) -> _Link[F] | None:
        return self._offered.get(pair) or self._answered.get(pair)

    def _drop(self, pair: tuple[str, str]) -> None:
        self._offered.pop(pair, None)
        self._answered.pop(pair, None)


def _stands(link: _Link[F], now_s: float) -> bool:
    return link.answered_s is None and now_s < link.offered_s + CROSSING_S


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)
