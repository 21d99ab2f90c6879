"""Continuing a session on another instance: what must be stored, and where to resume."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class OpenOutcome(StrEnum):
    OPENED = "opened"
    TAKEN = "taken"


class SessionClaimOutcome(StrEnum):
    CLAIMED = "claimed"
    HELD = "held"
    UNKNOWN = "unknown"


class OwnedOutcome(StrEnum):
    """The outcome of an owner's write to a session record."""

    NOTED = "noted"
    PARKED = "parked"
    CLOSED = "closed"
    TAKEN = "taken"  # another owner has claimed the session
    GONE = "gone"  # Redis has lost the record, which has to be written again


class ResumeToken(NamedTuple):
    """What a client comes back with: its session, and a secret."""

    session_id: str
    secret: str

    def __str__(self) -> str:
        return f"{self.session_id}.{self.secret}"

    @classmethod
    def parse(cls, text: str) -> "ResumeToken":
        """Of what is no token the secret is empty."""
        return cls(*text.partition(".")[::2])


class SessionOwner(NamedTuple):
    """One hold on a session: an old one's writes never touch a later one's."""

    instance: str
    # The life of the instance; empty in records of a release that did not write it down.
    incarnation: str
    serial: str

    def __str__(self) -> str:
        return f"{self.instance} {self.incarnation}-{self.serial}"

    @classmethod
    def parse(cls, text: str) -> "SessionOwner":
        instance, _, hold = text.rpartition(" ")
        return cls(instance, *hold.rpartition("-")[::2])


class CutNote(NamedTuple):
    """Of which numbered frames an utterance was made: from `first_seq` up to, not with, `end_seq`."""

    utterance_index: int
    first_seq: int
    end_seq: int
    turn: int
    closes_turn: bool

    @property
    def last_heard_before(self) -> int:
        """What was made of no frames stands for all that the client had heard when its session was taken over."""
        return self.utterance_index - (self.first_seq < self.end_seq)


class Beginning(NamedTuple):
    """Where a session continues: the number of the next utterance, and its first frame."""

    next_index: int = 0
    next_seq: int = 0
    turn: int = 0
    # Whether the previous turn continues.
    continues_turn: bool = False

    def as_cut(self) -> CutNote:
        """For the next instance that takes the session over, though nothing is said until then: it continues here."""
        turn = self.turn if self.continues_turn else self.turn - 1
        return CutNote(self.next_index - 1, self.next_seq, self.next_seq, turn, closes_turn=not self.continues_turn)


def beginning(cuts: Sequence[CutNote], last_heard: int) -> Beginning:
    """Everything up to `last_heard` has reached the client; the client must send all after it again."""
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
