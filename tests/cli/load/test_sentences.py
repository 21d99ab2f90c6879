"""Each sentence has one answer: that of its last part, however many parts a handover or its length made of it."""

import pytest

from lingua_scheduler.cli.load.sentences import MOST_KEPT, Sentences
from lingua_sdk.results import Failed, Translation


def translation(index: int) -> Translation:
    return Translation(index, f"text {index}", "")


@pytest.fixture
def said() -> Sentences:
    """Two sentences of ten chunks, of which the first is answered."""
    said = Sentences()
    said.say(9, 1.0)
    said.hear(translation(0), 1.5)
    return said


def test_a_sentence_is_answered_under_its_number(said: Sentences) -> None:
    said.say(19, 3.0)
    assert said.unanswered == 1
    assert said.hear(translation(1), 3.5) == (translation(1), 500.0)
    assert said.unanswered == 0


def test_a_part_that_was_answered_before_the_session_was_resumed_is_withdrawn(said: Sentences) -> None:
    """The instance that stops translates what it has of the sentence, while the client says the rest of it."""
    said.say(19, 3.0)
    early = said.hear(translation(1), 3.01)
    assert said.continue_at(15, 2) == ([early], [])
    assert said.hear(translation(2), 4.0) == (translation(2), 1000.0)
    said.say(29, 5.0)
    assert said.hear(translation(3), 5.5) == (translation(3), 500.0)
    assert said.unanswered == 0


def test_a_part_that_is_answered_after_the_session_was_resumed_is_not_the_sentence(said: Sentences) -> None:
    assert said.continue_at(15, 2) == ([], [])
    said.say(19, 3.0)
    assert said.hear(translation(1), 3.01) is None
    assert said.hear(translation(2), 4.0) == (translation(2), 1000.0)


def test_a_sentence_that_ended_while_the_connection_was_broken_gets_its_new_number(said: Sentences) -> None:
    said.say(19, 3.0)
    said.say(29, 5.0)
    said.continue_at(15, 2)
    assert said.hear(translation(1), 6.0) is None
    assert said.hear(translation(2), 6.0) == (translation(2), 3000.0)
    assert said.hear(translation(3), 6.0) == (translation(3), 1000.0)


def test_a_broken_connection_alone_cuts_nothing(said: Sentences) -> None:
    """The instance is the same, and the sentence that has ended waits for its hangover."""
    said.say(19, 3.0)
    assert said.continue_at(22, 1) == ([], [])
    said.say(29, 5.0)
    assert said.hear(translation(1), 6.0) == (translation(1), 3000.0)
    assert said.hear(translation(2), 6.0) == (translation(2), 1000.0)


def test_parts_that_are_said_again_as_one_after_a_crash_are_one_sentence(said: Sentences) -> None:
    said.continue_at(15, 2)
    said.say(19, 3.0)
    said.continue_at(10, 1)
    assert said.hear(translation(1), 4.0) == (translation(1), 1000.0)
    assert said.unanswered == 0


def test_a_sentence_of_which_a_part_failed_has_failed(said: Sentences) -> None:
    said.say(19, 3.0)
    failed = Failed(1, "JOB_TIMEOUT", "")
    said.hear(failed, 3.1)
    assert [early.outcome for early in said.continue_at(15, 2).withdrawn] == [failed]
    assert said.hear(translation(2), 4.0) == (failed, 1000.0)


def test_a_sentence_that_is_cut_for_its_length_is_answered_by_its_last_part(said: Sentences) -> None:
    assert said.hear(translation(1), 2.5) is None
    said.say(19, 3.0)
    assert said.hear(translation(2), 3.5) == (translation(2), 500.0)
    assert said.is_cut


# Of the second sentence, chunks 10 to 19, the last three are silence, and the session is resumed in that silence.


def test_silence_alone_after_a_handover_is_no_part_of_a_sentence_that_is_answered_later(said: Sentences) -> None:
    said.say(19, 3.0, 16)
    assert said.continue_at(17, 2) == ([], [])
    said.say(29, 5.0, 26)
    assert said.hear(translation(1), 3.5) == (translation(1), 500.0)
    assert said.hear(translation(2), 5.5) == (translation(2), 500.0)


def test_an_answer_is_not_withdrawn_when_only_silence_is_said_to_the_next_instance(said: Sentences) -> None:
    said.say(19, 3.0, 16)
    said.hear(translation(1), 3.5)
    assert said.continue_at(17, 2) == ([], [])
    said.say(29, 5.0, 26)
    assert said.hear(translation(2), 5.5) == (translation(2), 500.0)


def test_a_part_before_the_end_of_its_sentence_is_the_answer_if_only_silence_follows_the_handover(
    said: Sentences,
) -> None:
    assert said.hear(translation(1), 2.9) is None
    said.say(19, 3.0, 16)
    said.say(29, 5.0, 26)
    assert said.continue_at(17, 2) == ([], [(translation(1), 0.0)])
    assert said.hear(translation(2), 5.5) == (translation(2), 500.0)
    assert (said.unanswered, said.is_cut) == (0, False)


@pytest.mark.parametrize("is_answered_first", [True, False])
def test_a_sentence_that_ends_after_a_handover_in_its_silence_has_the_number_of_its_speech(
    said: Sentences, is_answered_first: bool
) -> None:
    if is_answered_first:
        said.hear(translation(1), 2.9)
    said.continue_at(17, 2)
    assert said.say(19, 3.0, 16) == ((translation(1), 0.0) if is_answered_first else None)
    if not is_answered_first:
        assert said.hear(translation(1), 3.5) == (translation(1), 500.0)
    said.say(29, 5.0, 26)
    assert said.hear(translation(2), 5.5) == (translation(2), 500.0)
    assert (said.unanswered, said.is_cut) == (0, False)


@pytest.mark.parametrize("is_said_first", [True, False])
def test_a_connection_that_breaks_in_the_silence_leaves_the_sentence_its_number(
    said: Sentences, is_said_first: bool
) -> None:
    """The instance is the same, and cuts the sentence when its end arrives."""
    if is_said_first:
        said.say(19, 3.0, 16)
    said.continue_at(17, 1)
    if not is_said_first:
        said.say(19, 3.0, 16)
    said.say(29, 5.0, 26)
    assert said.hear(translation(1), 3.5) == (translation(1), 500.0)
    assert said.hear(translation(2), 5.5) == (translation(2), 500.0)


def test_a_failed_part_is_counted_once_if_it_is_the_answer(said: Sentences) -> None:
    failed = Failed(1, "JOB_TIMEOUT", "")
    said.hear(failed, 2.9)
    said.continue_at(17, 2)
    assert said.say(19, 3.0, 16) == (failed, 0.0)
    said.say(29, 5.0, 26)
    assert said.hear(translation(2), 5.5) == (translation(2), 500.0)


def test_speech_that_is_lost_in_a_handover_is_missed(said: Sentences) -> None:
    """The rest of the sentence had speech in it, so a part without an answer is a fault of the scheduler."""
    said.say(19, 3.0, 16)
    said.hear(translation(1), 3.1)
    said.continue_at(16, 2)
    assert said.unanswered == 1


@pytest.mark.parametrize("is_answered_first", [True, False])
def test_a_handover_is_not_called_a_cut(said: Sentences, is_answered_first: bool) -> None:
    if is_answered_first:
        said.hear(translation(1), 2.5)
    said.continue_at(15, 2)
    if not is_answered_first:
        said.hear(translation(1), 2.5)
    said.say(19, 3.0)
    assert said.hear(translation(2), 3.5) == (translation(2), 500.0)
    assert not said.is_cut


def test_what_is_remembered_is_bounded() -> None:
    said = Sentences()
    for number in range(3 * MOST_KEPT):
        said.say(number, 0.0)
        said.hear(translation(number), 0.0)
    assert len(said._said) == MOST_KEPT
