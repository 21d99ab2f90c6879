"""One client's conversation, sans-IO: speech, time, playback and outcomes in; utterances and outcomes in order out."""

from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import Generic, NamedTuple, TypeVar

from lingua_scheduler.domain.sessions.handover import Beginning, CutNote
from lingua_scheduler.domain.sessions.ordering import Ordering, Released
from lingua_scheduler.domain.sessions.result_groups import Context, Groups, TurnPart
from lingua_scheduler.domain.sessions.utterances import Cut, CutRules, Cutter
from lingua_sdk.domain.received_frames import Received

T = TypeVar("T")

# Utterances of one conversation that may be under way; live speech never gets near it.
MAX_UNDER_WAY = 64
# What is cut next is numbered after it, so there must be numbers left.
MAX_INDEX = 2**31


class UtteranceEntry(Enum):
    """What becomes of a whole utterance."""

    TAKEN = auto()
    KNOWN = auto()  # its number was used already
    TOO_FAR = auto()  # numbers end before it
    TOO_MANY = auto()  # more are under way than may be
    CLOSED = auto()


class Due(NamedTuple, Generic[T]):
    """What time has brought: utterances to be translated, and outcomes that may leave."""

    cuts: list[Cut]
    released: list[Released[T]]


class Conversation(Generic[T]):
    """`T` is an outcome. Every utterance that begins here ends here, once, in order.

    Times are milliseconds of any clock that does not jump, but for `group_*`, which name groups and use the wall clock.
    """

    __slots__ = (
        "_cuts",
        "_cutter",
        "_groups",
        "_has_begun",
        "_ordering",
        "_received",
        "_uncut",
        "is_closed",
        "was_resumed",
    )

    def __init__(self, session_id: str, rules: CutRules, hold_ms: int, max_held: int) -> None:
        self._cutter = Cutter(rules)
        self._ordering: Ordering[T] = Ordering(hold_ms, max_held)
        self._groups = Groups(session_id)
        self._received = Received()
        # Whether the first number is known: from its first frame, or from a resumed session.
        self._has_begun = False
        # A client that resumed knows which frames we have, and must continue their numbers.
        self.was_resumed = False
        # The frames whose audio is not part of an utterance yet, and those of the latest utterances.
        self._uncut: list[int] = []
        self._cuts: deque[CutNote] = deque(maxlen=MAX_UNDER_WAY)
        self.is_closed = False

    @property
    def is_over(self) -> bool:
        """Closed, and everything that was said has its outcome."""
        return self.is_closed and not len(self._ordering)

    @property
    def under_way(self) -> int:
        return len(self._ordering)

    @property
    def held_bytes(self) -> int:
        """Audio that is not part of an utterance yet."""
        return self._cutter.held_bytes

    @property
    def next_seq(self) -> int:
        return self._received.next

    @property
    def next_index(self) -> int:
        return self._cutter.next_index

    @property
    def turn(self) -> int:
        return self._cutter.turn

    @property
    def is_speaking(self) -> bool:
        """Whether an utterance has begun and not ended."""
        return self._cutter.has_speech

    @property
    def is_ending(self) -> bool:
        """Whether the end of an utterance is set; until then every chunk puts it off."""
        return self._cutter.is_ending

    @property
    def wake_at_ms(self) -> float | None:
        """When `tick` is due; None while there is nothing to wait for."""
        pause_ms, hold_ms = self._cutter.wake_at_ms, self._ordering.wake_at_ms
        if pause_ms is None or hold_ms is None:
            return hold_ms if pause_ms is None else pause_ms
        return min(pause_ms, hold_ms)

    @property
    def cuts(self) -> Sequence[CutNote]:
        """What another instance needs to continue this conversation."""
        return self._cuts

    def begin_at(self, beginning: Beginning) -> None:
        """Go on with a conversation that was held elsewhere."""
        self._has_begun = True
        self._cutter.begin_at(beginning.next_index, beginning.turn)
        self._received = Received(beginning.next_seq)
        if beginning.next_index:
            self._cuts.append(beginning.as_cut())

    def resumed(self) -> None:
        """The client knows which chunks we have; repeated chunks are ignored."""
        self.was_resumed = True

    def is_repeat(self, seq: int) -> bool:
        """Only clients that resume are held to their numbers: others may count as they like."""
        return self.was_resumed and seq in self._received

    def chunk(
        self, seq: int, audio: bytes, duration_ms: int, is_final: bool, now_ms: float, is_speech: bool = True
    ) -> list[Cut]:
        if self.is_closed:
            return []
        self.begin_with(seq)
        self._received.add(seq)
        if audio:
            self._uncut.append(seq)
        cuts = self._cutter.chunk(audio, duration_ms, now_ms, is_speech)
        if is_final:
            cuts += self._cutter.final(now_ms)
        if cuts:
            self._expected(cuts)
        if not is_speech:
            # Of silence before speech only the last moment is kept.
            del self._uncut[: max(0, len(self._uncut) - self._cutter.held_chunks)]
        return cuts

    def number_next(self, index: int) -> None:
        """The utterance that begins next has this number, if no later one was used.

        It may be any: of a long speech every piece has a number, and the whole of it is a few utterances.
        """
        if index <= MAX_INDEX:
            self._has_begun = True
            self._cutter.number_next(index)

    def utterance(self, index: int) -> UtteranceEntry:
        """A whole utterance with its own number, and a turn of its own: the current one, if it is taken."""
        if self.is_closed:
            return UtteranceEntry.CLOSED
        if index > MAX_INDEX or self._ordering.is_too_far_ahead(index):
            return UtteranceEntry.TOO_FAR
        if len(self._ordering) >= MAX_UNDER_WAY:
            return UtteranceEntry.TOO_MANY
        if not self._ordering.expect(index):
            return UtteranceEntry.KNOWN
        self._has_begun = True
        self._cutter.claim_index(index)
        return UtteranceEntry.TAKEN

    def number_other(self) -> int:
        """A number for the outcome of another one's speech: no outcome of this conversation has it."""
        index = self._cutter.next_index
        self._cutter.number_next(index + 1)
        return index

    def is_under_way(self, index: int) -> bool:
        return index in self._ordering

    def hold_at_most(self, index: int, hold_ms: int) -> None:
        """Later outcomes wait no longer than this for the outcome of `index`."""
        self._ordering.hold_at_most(index, hold_ms)

    def playback_started(self, now_ms: float) -> None:
        self._cutter.playback_started(now_ms)

    def playback_ended(self, now_ms: float, group_now_ms: float) -> None:
        self._cutter.playback_ended(now_ms)
        self._groups.playback_ended(group_now_ms)

    def settle(self, index: int, outcome: T, now_ms: float) -> list[Released[T]]:
        return self._ordering.settle(index, outcome, now_ms)

    def tick(self, now_ms: float) -> Due[T]:
        return Due(self._expected(self._cutter.tick(now_ms)), self._ordering.tick(now_ms))

    def flush(self) -> list[Cut]:
        """What was said so far is an utterance."""
        return self._expected(self._cutter.flush())

    def close(self) -> list[Cut]:
        """Nothing more will be said."""
        cuts = self.flush()
        self.is_closed = True
        return cuts

    def drop(self) -> int:
        """The client is gone. Returns how many bytes of its audio are dropped."""
        self.is_closed = True
        self._uncut.clear()
        return self._cutter.drop()

    def context(self, group_now_ms: float) -> Context | None:
        return self._groups.context(group_now_ms)

    def part(self, text: str, group_now_ms: float, heard_at: str | None = None) -> TurnPart:
        """A result with text leaves: its place in its group."""
        return self._groups.next_part(text, group_now_ms, heard_at)

    def begin_with(self, seq: int) -> None:
        """The first frame of a session has this number, and so has its first utterance.

        A client that comes back with a new session counts on, and hides results whose number it has shown before.
        """
        if self._has_begun:
            return
        self._has_begun = True
        if seq <= MAX_INDEX:
            # Numbers may have been given to what others said.
            self._cutter.begin_at(max(seq, self._cutter.next_index), 0)
            self._received = Received(seq)

    def _expected(self, cuts: list[Cut]) -> list[Cut]:
        for cut in cuts:
            self._ordering.expect(cut.utterance_index)
            frames, self._uncut = self._uncut[: cut.chunks], self._uncut[cut.chunks :]
            # A final that overtook its last chunk is sent again with it.
            end_seq = min(self._uncut, default=self._received.next)
            self._cuts.append(CutNote(cut.utterance_index, min(frames), end_seq, cut.turn, cut.reason.closes_turn))
        return cuts
