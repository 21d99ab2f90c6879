"""Which outcome belongs to which streamed sentence of one session, also after a handover cut a sentence in two."""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from lingua_scheduler.sdk.results import Failed, Result

# Answered sentences that are kept, because a resumed session may show that the answer was only that of a first part.
MOST_KEPT = 64


class SentenceAnswer(NamedTuple):
    outcome: Result
    took_ms: float


@dataclass(slots=True)
class Sentence:
    # The number of its last chunk, and the number under which its last part is answered.
    final_seq: int
    index: int
    ended_s: float
    answer: SentenceAnswer | None = None


class Sentences:
    """The scheduler numbers what it cuts. Without a cut inside a sentence, the sentences are counted as they end."""

    def __init__(self) -> None:
        self._said: deque[Sentence] = deque()
        self._next_index = 0
        self._highest = -1
        # Parts that failed: their sentence counts as failed, even if its last part is translated.
        self._failed_parts: dict[int, Failed] = {}
        # Parts whose sentence has no answer yet. Those below this number ended with a handover.
        self._parts: set[int] = set()
        self._continued_at = 0
        # The scheduler cut a sentence although the session stayed where it was.
        self.is_cut = False

    @property
    def unanswered(self) -> int:
        return sum(sentence.answer is None for sentence in self._said)

    def say(self, final_seq: int, ended_s: float) -> None:
        # If the scheduler cut the sentence for its length, its first parts took the numbers up to this one.
        index = max(self._next_index, self._highest + 1)
        self._said.append(Sentence(final_seq, index, ended_s))
        self._next_index = index + 1
        while len(self._said) > MOST_KEPT and self._said[0].answer is not None:
            self._said.popleft()

    def continue_at(self, next_seq: int, next_index: int) -> list[SentenceAnswer]:
        """The session was resumed: `next_index` is the number of the utterance that is cut next.

        Returns answers that were counted too early: they were those of a first part.
        """
        self._continued_at = max(self._continued_at, next_index)
        received = [sentence for sentence in self._said if sentence.final_seq < next_seq]
        # A sentence that has ended may not have been cut yet.
        index = next_index + sum(sentence.index >= next_index for sentence in received)
        withdrawn = []
        for sentence in list(self._said)[len(received) :]:
            if sentence.index != index and sentence.answer is not None:
                withdrawn.append(sentence.answer)
                self._keep_if_failed(sentence.answer.outcome)
                sentence.answer = None
            sentence.index = index
            index += 1
        self._next_index = index
        return withdrawn

    def hear(self, outcome: Result, now_s: float) -> SentenceAnswer | None:
        """The answer to a sentence; None if it is that of a part of one."""
        number = outcome.utterance_index
        self._highest = max(self._highest, number)
        for sentence in self._said:
            if sentence.index == number and sentence.answer is None:
                self.is_cut = self.is_cut or any(self._continued_at <= part < number for part in self._parts)
                self._parts.clear()
                failed = [self._failed_parts.pop(part) for part in sorted(self._failed_parts) if part < number]
                sentence.answer = SentenceAnswer(
                    failed[0] if failed else outcome, max(0.0, now_s - sentence.ended_s) * 1000
                )
                return sentence.answer
        self._parts.add(number)
        self._keep_if_failed(outcome)
        return None

    def _keep_if_failed(self, outcome: Result) -> None:
        if isinstance(outcome, Failed):
            self._failed_parts[outcome.utterance_index] = outcome
