"""A scene of both scripts: tries to connect that are refused, which a peer has to space out."""

from collections.abc import Sequence
from typing import Protocol

from lingua_scheduler.conformance.book import Book
from lingua_scheduler.conformance.listening import Entrance, Line
from lingua_scheduler.conformance.play import Play

MIN_MEAN_PAUSE_S = 0.05


class Talk(Protocol):
    @property
    def door(self) -> Entrance: ...

    @property
    def book(self) -> Book: ...

    @property
    def play(self) -> Play: ...

    @property
    def line(self) -> Line | None: ...

    async def meet(self, within_s: float) -> bool: ...


async def refuse(talk: Talk) -> bool:
    """Cut the connection and refuse the next tries; whether the peer is connected again."""
    assert talk.line is not None
    talk.door.tried_s.clear()
    talk.door.refusals = talk.play.refusals
    talk.line.cut()
    if not await talk.meet(talk.play.reconnect_within_s * 2):
        talk.book.failed("backs-off", f"another try after {talk.play.refusals} refusals", "none")
        return False
    pause_s = mean_pause_s(talk.door.tried_s)
    expected = f"{MIN_MEAN_PAUSE_S * 1000:.0f} ms or more between tries"
    talk.book.judge("backs-off", pause_s >= MIN_MEAN_PAUSE_S, expected, f"{pause_s * 1000:.0f} ms on average")
    return True


def mean_pause_s(tried_s: Sequence[float]) -> float:
    """Between tries; they are in order of time."""
    return (tried_s[-1] - tried_s[0]) / (len(tried_s) - 1)
