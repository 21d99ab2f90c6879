"""A whole conversation with plain values and a hand-held clock: every word has one outcome, in order."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.domain.sessions.conversation import MAX_INDEX, MAX_UNDER_WAY, Conversation, UtteranceEntry
from lingua_scheduler.domain.sessions.utterances import Cut, CutReason, CutRules

RULES = CutRules(hangover_manual_ms=200)


def conversation(rules: CutRules = RULES, hold_ms: int = 1_000, max_held: int = 8) -> Conversation[str]:
    return Conversation("s", rules, hold_ms, max_held)


# Closing


def test_closing_makes_an_utterance_of_what_was_said_and_is_over_when_it_has_its_outcome() -> None:
    talk = conversation()
    talk.chunk(0, b"abc", 200, False, 0)
    (cut,) = talk.close()
    assert (cut.audio, cut.reason) == (b"abc", CutReason.IS_FINAL)
    assert not talk.is_over
    assert [place.item for place in talk.settle(0, "done", 100)] == ["done"]
    assert talk.is_over


def test_after_closing_nothing_is_taken_any_more() -> None:
    talk = conversation()
    talk.close()
    assert talk.is_over
    assert talk.chunk(0, b"abc", 200, True, 0) == []
    assert talk.utterance(0) == UtteranceEntry.CLOSED
    assert talk.held_bytes == 0


def test_what_nobody_will_hear_is_dropped_and_counted() -> None:
    talk = conversation()
    talk.chunk(0, b"abc", 200, False, 0)
    assert talk.drop() == 3
    assert talk.drop() == 0
    assert (talk.held_bytes, talk.wake_at_ms) == (0, None)


# Whole utterances


def test_whole_utterances_may_come_in_any_order_and_each_once() -> None:
    talk = conversation()
    assert [talk.utterance(index) for index in (2, 0, 2, 1)] == [
        UtteranceEntry.TAKEN,
        UtteranceEntry.TAKEN,
        UtteranceEntry.KNOWN,
        UtteranceEntry.TAKEN,
    ]
    for index in (2, 1):
        assert talk.settle(index, str(index), 0) == []
    assert [place.item for place in talk.settle(0, "0", 0)] == ["0", "1", "2"]
    assert talk.utterance(1) is UtteranceEntry.KNOWN


def test_every_whole_utterance_is_a_turn_of_its_own() -> None:
    talk = conversation()
    turns = []
    for index in range(3):
        turns.append(talk.turn)
        talk.utterance(index)
    (cut,) = talk.chunk(0, b"abc", 200, False, 0) + talk.flush()
    assert len({*turns, cut.turn}) == 4
    assert cut.utterance_index == 3


def test_numbers_and_utterances_under_way_end_somewhere() -> None:
    talk = conversation()
    assert talk.utterance(MAX_INDEX + 1) is UtteranceEntry.TOO_FAR
    for index in range(MAX_UNDER_WAY):
        assert talk.utterance(index) is UtteranceEntry.TAKEN
    assert talk.utterance(MAX_UNDER_WAY) is UtteranceEntry.TOO_MANY


# Coming back


def test_a_client_that_comes_back_may_send_again_what_we_have() -> None:
    talk = conversation()
    for seq in range(3):
        talk.chunk(seq, b"a", 20, False, 0)
    assert not talk.is_repeat(1)  # who never left may count as it likes
    talk.resumed()
    assert [talk.is_repeat(seq) for seq in (1, 2, 3)] == [True, True, False]


def test_a_final_that_overtook_the_last_chunk_is_no_reason_to_lose_the_chunk() -> None:
    talk = conversation()
    talk.chunk(0, b"a", 20, False, 0)
    talk.chunk(2, b"", 0, True, 20)
    assert talk.next_seq == 1
    talk.resumed()
    assert not talk.is_repeat(1)
    assert talk.is_repeat(2)


# Waking up


def test_it_wakes_for_the_pause_or_for_an_outcome_that_waited_whichever_is_first() -> None:
    talk = conversation(hold_ms=500)
    talk.utterance(0)
    talk.utterance(1)
    assert talk.wake_at_ms is None
    talk.settle(1, "1", 100)
    assert talk.wake_at_ms == 600
    talk.chunk(0, b"a", 20, True, 300)
    assert talk.wake_at_ms == 500
    due = talk.tick(500)
    assert [cut.utterance_index for cut in due.cuts] == [2]
    assert talk.wake_at_ms == 600
    assert [(place.utterance_index, place.item) for place in talk.tick(600).released] == [(1, "1")]
    assert [(place.utterance_index, place.is_late) for place in talk.settle(0, "0", 700)] == [(0, True)]


# Any order

SMALL = CutRules(pause_ms=30, max_duration_ms=100, max_bytes=12, hangover_auto_ms=5, hangover_manual_ms=8)

happenings = st.lists(
    st.tuples(
        st.integers(0, 40),  # how long after the one before
        st.one_of(
            st.tuples(st.just("chunk"), st.integers(0, 6), st.integers(0, 60), st.booleans()),
            st.tuples(st.just("utterance"), st.integers(0, 12)),
            st.tuples(st.just("result"), st.integers(0, 12)),
            st.tuples(st.just("play")),
            st.tuples(st.just("stop")),
        ),
    ),
    max_size=60,
)


class World:
    """Does what services do: wakes when asked, starts a job for each utterance, lets results come when they like."""

    def __init__(self) -> None:
        self.talk = conversation(SMALL, hold_ms=50, max_held=3)
        self.now_ms = 0.0
        self.seq = 0
        self.said = bytearray()
        self.cuts: list[Cut] = []
        self.begun: list[int] = []
        self.left: list[tuple[int, str, bool]] = []

    def pass_ms(self, ms: float) -> None:
        until_ms = self.now_ms + ms
        while (wake_at_ms := self.talk.wake_at_ms) is not None and wake_at_ms <= until_ms:
            self.now_ms = max(self.now_ms, wake_at_ms)
            due = self.talk.tick(self.now_ms)
            self.took(due.cuts)
            self.left += due.released
        self.now_ms = until_ms

    def took(self, cuts: list[Cut]) -> None:
        self.cuts += cuts
        self.begun += [cut.utterance_index for cut in cuts]

    def happen(self, verb: str, *numbers: int) -> None:
        match verb, numbers:
            case "chunk", [size, length_ms, is_final]:
                audio = bytes((len(self.said) + place) % 256 for place in range(size))
                self.said += audio
                self.took(self.talk.chunk(self.seq, audio, length_ms, bool(is_final), self.now_ms))
                self.seq += 1
            case "utterance", [index]:
                if self.talk.utterance(index) is UtteranceEntry.TAKEN:
                    self.begun.append(index)
            case "result", [place] if self.begun:
                self.settle(self.begun[place % len(self.begun)])
            case "play", _:
                self.talk.playback_started(self.now_ms)
            case "stop", _:
                self.talk.playback_ended(self.now_ms, self.now_ms)

    def settle(self, index: int) -> None:
        self.left += self.talk.settle(index, f"outcome {index}", self.now_ms)


@given(happenings)
@settings(max_examples=400)
def test_whatever_happens_every_byte_is_in_one_utterance_and_every_utterance_has_one_outcome(
    script: list[tuple[int, tuple[str, int]]],
) -> None:
    world = World()
    for pause_ms, (verb, *numbers) in script:
        world.pass_ms(pause_ms)
        world.happen(verb, *numbers)
    world.took(world.talk.close())
    for index in world.begun:
        world.settle(index)

    assert b"".join(cut.audio for cut in world.cuts) == world.said
    assert all(cut.audio for cut in world.cuts)
    # Numbers of what was cut only ever go on, and without whole utterances between them they are contiguous.
    indexes = [cut.utterance_index for cut in world.cuts]
    assert indexes == sorted(set(indexes))
    if len(world.begun) == len(world.cuts):
        assert indexes == list(range(len(indexes)))
    assert sorted(index for index, _, _ in world.left) == sorted(world.begun)
    assert all(item == f"outcome {index}" for index, item, _ in world.left)
    assert world.talk.is_over
    assert world.talk.wake_at_ms is None


@given(happenings)
def test_without_whole_utterances_outcomes_leave_in_order_unless_they_are_late(
    script: list[tuple[int, tuple[str, int]]],
) -> None:
    world = World()
    for pause_ms, (verb, *numbers) in script:
        world.pass_ms(pause_ms)
        if verb != "utterance":
            world.happen(verb, *numbers)
    world.took(world.talk.close())
    for index in world.begun:
        world.settle(index)
    in_time = [index for index, _, is_late in world.left if not is_late]
    assert in_time == sorted(in_time)
    assert sorted(index for index, _, _ in world.left) == list(range(len(world.cuts)))
    for earlier, later in pairwise(world.cuts):
        assert later.turn - earlier.turn == (1 if earlier.reason.closes_turn else 0)


# A day in the life


def test_five_minutes_of_silence_change_nothing() -> None:
    talk = conversation()
    talk.chunk(0, b"a", 500, True, 0)
    talk.tick(200)
    talk.settle(0, "first", 300)
    assert talk.wake_at_ms is None  # nobody wakes up for nothing
    talk.chunk(1, b"b", 500, True, 300_000)
    (cut,) = talk.tick(300_200).cuts
    assert (cut.utterance_index, cut.audio) == (1, b"b")
    assert [place.item for place in talk.settle(1, "second", 300_300)] == ["second"]


@pytest.mark.parametrize("late_ms", [2, 5, 10])
def test_the_tail_that_follows_its_final_belongs_to_it(late_ms: int) -> None:
    talk = conversation()
    talk.chunk(0, b"sentence ", 400, False, 0)
    talk.chunk(1, b"", 0, True, 400)
    talk.chunk(2, b"tail", 200, False, 400 + late_ms)
    (cut,) = talk.tick(600).cuts
    assert cut.audio == b"sentence tail"


# Numbers, and silence


def test_a_new_session_of_a_client_that_counts_on_begins_at_its_first_number() -> None:
    talk = conversation()
    talk.chunk(73, b"a", 500, True, 0)
    (cut,) = talk.tick(200).cuts
    assert cut.utterance_index == 73
    assert talk.next_seq == 74
    talk.chunk(74, b"b", 500, True, 1_000)
    assert [cut.utterance_index for cut in talk.tick(1_200).cuts] == [74]


def test_a_first_number_beyond_all_numbers_is_no_beginning() -> None:
    talk = conversation()
    talk.chunk(2**40, b"a", 500, True, 0)
    assert [cut.utterance_index for cut in talk.tick(200).cuts] == [0]


def test_pieces_have_the_number_of_the_first_of_them() -> None:
    talk = conversation()
    talk.number_next(7)
    talk.chunk(7, b"a", 200, False, 0)
    talk.chunk(8, b"b", 200, True, 200)
    assert [(cut.utterance_index, cut.audio) for cut in talk.tick(400).cuts] == [(7, b"ab")]
    talk.number_next(9)
    talk.chunk(9, b"c", 200, True, 1_000)
    assert [cut.utterance_index for cut in talk.tick(1_200).cuts] == [9]
    # Of a minute of speech only a few utterances are made, and the next piece is far ahead of them.
    talk.number_next(900)
    talk.chunk(900, b"d", 200, True, 2_000)
    assert [cut.utterance_index for cut in talk.tick(2_200).cuts] == [900]
    talk.number_next(2**40)
    assert talk.next_index == 901


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans()), max_size=80))
def test_whatever_is_silent_every_byte_of_speech_is_in_one_utterance_and_none_is_silence_alone(
    script: list[tuple[int, bool, bool]],
) -> None:
    talk = conversation(SMALL)
    said, cuts, held = bytearray(), list[Cut](), 0
    now_ms = 0.0
    for seq, (pause_ms, is_speech, is_final) in enumerate(script):
        until_ms = now_ms + pause_ms
        while (wake_at_ms := talk.wake_at_ms) is not None and wake_at_ms <= until_ms:
            cuts += talk.tick(max(now_ms, wake_at_ms)).cuts
            now_ms = max(now_ms, wake_at_ms)
        now_ms = until_ms
        audio = bytes((seq % 250 + 1,)) if is_speech else b"\0"
        said += audio.strip(b"\0")
        cuts += talk.chunk(seq, audio, 20, is_final, now_ms, is_speech)
        held = max(held, talk.held_bytes)
        for cut in talk.cuts:
            assert cut.first_seq < cut.end_seq <= seq + 1
    cuts += talk.close()
    assert b"".join(cut.audio for cut in cuts).replace(b"\0", b"") == said
    assert all(cut.audio.strip(b"\0") for cut in cuts)
    assert held <= SMALL.max_bytes + 20
