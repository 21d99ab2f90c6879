"""Which outcome belongs to which streamed sentence of one session, also after a handover cut a sentence in two."""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from lingua_sdk.results import Failed, Result

# Answered sentences that are kept, because a resumed session may show that the answer was only that of a first part.
MOST_KEPT = 64


class SentenceAnswer(NamedTuple):
    outcome: Result
    took_ms: float


class HeardPart(NamedTuple):
    outcome: Result
    heard_s: float


class Corrections(NamedTuple):
    """What a resumed session shows: answers that were those of a first part, and parts that were whole answers."""

    withdrawn: list[SentenceAnswer]
    found: list[SentenceAnswer]


@dataclass(slots=True)
class Sentence:
    # The numbers of its last chunk and of its last chunk with speech, and that under which its last part is answered.
    final_seq: int
    speech_seq: int
    index: int
    ended_s: float
    answer: SentenceAnswer | None = None

    def lacks_only_silence(self, next_seq: int) -> bool:
        """Whether its speech came before this chunk, and its end did not. Of silence no part is made."""
        return self.speech_seq < next_seq <= self.final_seq


class Sentences:
    """The scheduler numbers what it cuts. Without a cut inside a sentence, the sentences are counted as they end."""

    def __init__(self) -> None:
        self._said: deque[Sentence] = deque()
        self._next_index = 0
        self._highest = -1
        # Parts that failed: their sentence counts as failed, even if its last part is translated.
        self._failed_parts: dict[int, Failed] = {}
        # Parts whose sentence has no answer yet.
        self._parts: dict[int, HeardPart] = {}
        # Where the session was resumed last: the first chunk, and the number of the utterance that is cut next. Parts
        # below that number ended with a handover.
        self._continued_seq = self._continued_at = 0
        # The scheduler cut a sentence although the session stayed where it was.
        self.is_cut = False

    @property
    def unanswered(self) -> int:
        return sum(sentence.answer is None for sentence in self._said)

    def say(self, final_seq: int, ended_s: float, speech_seq: int | None = None) -> SentenceAnswer | None:
        """A sentence ends; without `speech_seq` there is speech in its last chunk. Returns its answer if that has come.

        It has if the session was resumed in the silence after the speech.
        """
        # If the scheduler cut the sentence for its length, its first parts took the numbers up to this one.
        index = max(self._next_index, self._highest + 1)
        sentence = Sentence(final_seq, final_seq if speech_seq is None else speech_seq, index, ended_s)
        if sentence.lacks_only_silence(self._continued_seq):
            sentence.index = self._index_of_all_speech(self._said[-1] if self._said else None)
        self._said.append(sentence)
        self._next_index = max(self._next_index, sentence.index + 1)
        while len(self._said) > MOST_KEPT and self._said[0].answer is not None:
            self._said.popleft()
        return self._answer_from_parts(sentence)

    def continue_at(self, next_seq: int, next_index: int) -> Corrections:
        """The session was resumed: `next_index` is the number of the utterance that is cut next."""
        self._continued_seq, self._continued_at = next_seq, next_index
        corrections = Corrections([], [])
        index = next_index
        before = None
        for sentence in self._said:
            if sentence.speech_seq >= next_seq:
                corrections.withdrawn.extend(self._renumber(sentence, index))
            elif sentence.lacks_only_silence(next_seq):
                corrections.withdrawn.extend(self._renumber(sentence, self._index_of_all_speech(before)))
                if (answer := self._answer_from_parts(sentence)) is not None:
                    corrections.found.append(answer)
            # A sentence that has ended may not have been cut yet.
            index += sentence.index >= next_index
            before = sentence
        self._next_index = index
        return corrections

    def hear(self, outcome: Result, now_s: float) -> SentenceAnswer | None:
        """The answer to a sentence; None if it is that of a part of one."""
        number = outcome.utterance_index
        self._highest = max(self._highest, number)
        self._parts[number] = HeardPart(outcome, now_s)
        for sentence in self._said:
            if sentence.index == number and sentence.answer is None:
                return self._answer_from_parts(sentence)
        self._keep_if_failed(outcome)
        return None

    def _index_of_all_speech(self, before: Sentence | None) -> int:
        """The number of the sentence after `before`, whose speech the scheduler had when the session was resumed.

        After a handover it was cut last. After a broken connection alone it is cut next, and follows the one before.
        """
        return max(before.index + 1 if before is not None else 0, self._continued_at - 1)

    def _renumber(self, sentence: Sentence, index: int) -> list[SentenceAnswer]:
        """Returns the answer that it no longer has."""
        answer = sentence.answer
        if sentence.index == index or answer is None:
            sentence.index = index
            return []
        self._keep_if_failed(answer.outcome)
        sentence.index, sentence.answer = index, None
        return [answer]

    def _answer_from_parts(self, sentence: Sentence) -> SentenceAnswer | None:
        """If its last part has come and it has no answer yet."""
        number = sentence.index
        if sentence.answer is not None or number not in self._parts:
            return None
        outcome, heard_s = self._parts[number]
        self.is_cut = self.is_cut or any(self._continued_at <= part < number for part in self._parts)
        self._parts = {part: heard for part, heard in self._parts.items() if part > number}
        failed = [self._failed_parts.pop(part) for part in sorted(self._failed_parts) if part <= number]
        took_ms = max(0.0, heard_s - sentence.ended_s) * 1000
        sentence.answer = SentenceAnswer(failed[0] if failed else outcome, took_ms)
        return sentence.answer

    def _keep_if_failed(self, outcome: Result) -> None:
        if isinstance(outcome, Failed):
            self._failed_parts[outcome.utterance_index] = outcome
