"""Where a conversation goes on elsewhere: nothing that was heard is said again, everything else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.sessions.conversation import Conversation
from lingua_scheduler.domain.sessions.handover import (
    Beginning,
    CutNote,
    ResumeToken,
    SessionOwner,
    beginning,
    heard_without_gap,
)
from lingua_scheduler.domain.sessions.utterances import Cut, CutRules

# Three utterances of one turn each, then a long speech in two parts.
CUTS = (
    CutNote(0, 0, 3, 0, True),
    CutNote(1, 3, 5, 1, True),
    CutNote(2, 6, 9, 2, True),
    CutNote(3, 9, 12, 3, False),
    CutNote(4, 12, 15, 3, False),
)


def test_a_conversation_nobody_heard_anything_of_begins_with_its_first_frame() -> None:
    assert beginning((), -1) == Beginning(0, 0, 0)
    assert beginning(CUTS, -1) == Beginning(0, 0, 4)


def test_it_goes_on_with_the_frames_of_the_first_utterance_that_was_not_heard() -> None:
    assert beginning(CUTS, 0) == Beginning(1, 3, 4)
    assert beginning(CUTS, 1) == Beginning(2, 6, 4)


def test_a_long_speech_goes_on_in_its_turn() -> None:
    assert beginning(CUTS, 3) == Beginning(4, 12, 3, continues_turn=True)
    assert beginning(CUTS, 4) == Beginning(5, 15, 3, continues_turn=True)


def test_what_is_too_old_to_be_remembered_was_heard() -> None:
    assert beginning(CUTS[2:], 1) == Beginning(2, 6, 4)


def test_outcomes_that_wait_count_as_heard_as_far_as_none_is_missing() -> None:
    assert heard_without_gap(4, []) == 4
    assert heard_without_gap(4, [5, 6, 8]) == 6
    assert heard_without_gap(4, [6]) == 4
    assert heard_without_gap(-1, [0]) == 0


RULES = CutRules(pause_ms=30, max_duration_ms=100, max_bytes=12, hangover_auto_ms=5, hangover_manual_ms=8)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6), st.integers(0, 60), st.booleans()), max_size=30),
    st.data(),
)
def test_wherever_it_breaks_every_byte_is_heard_once(
    frames: list[tuple[int, int, int, bool]], data: st.DataObject
) -> None:
    """A client sends numbered frames, instances die at some point, the client sends again what it is asked for."""
    said = [bytes((number * 7 + place) % 256 for place in range(size)) for number, (_, size, _, _) in enumerate(frames)]
    now_ms, begin, heard = 0.0, Beginning(), list[Cut]()
    for life in range(data.draw(st.integers(2, 4), "lives")):
        here = Conversation[str]("s", RULES, 1_000, 100)
        if life:
            here.begin_at(begin)
            here.resumed()
        cuts = list[Cut]()
        dies_at = data.draw(st.integers(begin.next_seq, max(begin.next_seq, len(frames))), "dies at")
        for seq in range(begin.next_seq, min(dies_at, len(frames))):
            pause_ms, _, length_ms, is_final = frames[seq]
            now_ms += pause_ms
            cuts += here.tick(now_ms).cuts
            cuts += here.chunk(seq, said[seq], length_ms, is_final, now_ms)
        assert [cut.utterance_index for cut in cuts] == list(range(len(heard), len(heard) + len(cuts)))
        heard += cuts[: data.draw(st.integers(0, len(cuts)), "heard")]
        begin = beginning(list(here.cuts), len(heard) - 1)

    last = Conversation[str]("s", RULES, 1_000, 100)
    last.begin_at(begin)
    last.resumed()
    again = list[Cut]()
    for seq, (pause_ms, _, length_ms, is_final) in enumerate(frames):
        if seq >= begin.next_seq:
            now_ms += pause_ms
            again += last.tick(now_ms).cuts
            again += last.chunk(seq, said[seq], length_ms, is_final, now_ms)
    again += last.close()
    assert b"".join(cut.audio for cut in [*heard, *again]) == b"".join(said)
    assert [cut.utterance_index for cut in again] == list(range(len(heard), len(heard) + len(again)))


@pytest.mark.parametrize("last_heard", range(5))
def test_what_was_heard_elsewhere_is_not_asked_for_again_though_nothing_was_said_here(last_heard: int) -> None:
    begin = beginning(CUTS, last_heard)
    here = Conversation[str]("s", RULES, 1_000, 100)
    here.begin_at(begin)
    assert beginning(list(here.cuts), last_heard) == begin


def test_a_token_is_the_session_and_its_secret() -> None:
    assert str(ResumeToken("s-1", "a.b")) == "s-1.a.b"
    assert ResumeToken.parse("s-1.a.b") == ("s-1", "a.b")
    assert ResumeToken.parse("s-1") == ("s-1", "")


def test_an_owner_names_the_life_of_its_instance_unless_it_is_of_an_older_release() -> None:
    assert str(SessionOwner("i-here", "c0ffee", "3")) == "i-here c0ffee-3"
    assert SessionOwner.parse("i-here c0ffee-3") == ("i-here", "c0ffee", "3")
    assert SessionOwner.parse("i-here 3") == ("i-here", "", "3")
