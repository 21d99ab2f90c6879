"""Going on with a session elsewhere: what has to be written down, and where to begin again."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class OpenOutcome(StrEnum):
    OPENED = "opened"
    TAKEN = "taken"


class ClaimOutcome(StrEnum):
    CLAIMED = "claimed"
    HELD = "held"
    UNKNOWN = "unknown"


class OwnedOutcome(StrEnum):
    """Whether what an owner wanted to write was written."""

    NOTED = "noted"
    PARKED = "parked"
    CLOSED = "closed"
    TAKEN = "taken"  # somebody else owns the session by now
    GONE = "gone"  # Redis has lost the record, which has to be written again


class CutNote(NamedTuple):
    """Of which numbered frames an utterance was made: from `first_seq` up to, not with, `end_seq`."""

    utterance_index: int
    first_seq: int
    end_seq: int
    turn: int
    closes_turn: bool


class Beginning(NamedTuple):
    """Where a session goes on: what is cut or comes next has this number, made of frames from this one on."""

    next_index: int = 0
    next_seq: int = 0
    turn: int = 0
    # Whether the turn goes on that began before.
    continues_turn: bool = False


def beginning(cuts: Sequence[CutNote], last_heard: int) -> Beginning:
    """Everything up to `last_heard` has reached the client; all after it has to be said again."""
    heard = [cut for cut in cuts if cut.utterance_index <= last_heard]
    unheard = [cut for cut in cuts if cut.utterance_index > last_heard]
    next_seq = unheard[0].first_seq if unheard else heard[-1].end_seq if heard else 0
    if not heard:
        return Beginning(last_heard + 1, next_seq, max((cut.turn + 1 for cut in cuts), default=0))
    last = heard[-1]
    if not last.closes_turn:
        return Beginning(last_heard + 1, next_seq, last.turn, continues_turn=True)
    # Turns that were begun after it are not heard of again, but a node may remember their names.
    return Beginning(last_heard + 1, next_seq, max(cut.turn for cut in cuts) + 1)


def heard_without_gap(last_heard: int, parked: Sequence[int]) -> int:
    """How far the outcomes reach that the client has or that wait for it, without one missing in between."""
    waiting = set(parked)
    while last_heard + 1 in waiting:
        last_heard += 1
    return last_heard
