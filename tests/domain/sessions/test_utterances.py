"""Cutting speech: every reason to end an utterance, which of them wins, and what comes with it."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.sessions.utterances import (
    FINAL_GRACE_MS,
    LEAD_CHUNKS,
    MAX_CHUNKS,
    Cut,
    CutReason,
    CutRules,
    Cutter,
)

RULES = CutRules(hangover_manual_ms=200)
CHUNK_MS = 200


def spoken(cuts: Iterable[Cut]) -> list[bytes]:
    return [cut.audio for cut in cuts]


def speak(cutter: Cutter, words: str, from_ms: float = 0.0, every_ms: int = CHUNK_MS) -> list[Cut]:
    """One chunk a letter, each as long as the time until the next."""
    cuts = []
    for number, letter in enumerate(words):
        cuts += cutter.chunk(letter.encode(), every_ms, from_ms + number * every_ms)
    return cuts


# The defaults are the wire contract


def test_the_rules_are_those_existing_clients_rely_on() -> None:
    assert (RULES.pause_ms, RULES.max_duration_ms, RULES.max_bytes) == (3_000, 10_000, 500 * 1024)


@pytest.mark.parametrize(
    ("reason", "hangover_ms", "padding_ms", "closes_turn"),
    [
        (CutReason.TIMEOUT, 150, 220, True),
        (CutReason.MAX_DURATION, 150, 220, False),
        (CutReason.IS_FINAL, 260, 280, True),
        (CutReason.MAX_LENGTH, 0, 220, False),
    ],
)
def test_every_reason_has_its_hangover_padding_and_effect_on_the_turn(
    reason: CutReason, hangover_ms: int, padding_ms: int, closes_turn: bool
) -> None:
    assert CutRules().hangover_ms(reason) == hangover_ms
    assert reason.padding_ms == padding_ms
    assert reason.closes_turn is closes_turn


def test_the_later_reason_is_the_greater() -> None:
    assert CutReason.TIMEOUT < CutReason.MAX_DURATION < CutReason.IS_FINAL < CutReason.MAX_LENGTH


# Pause


def test_a_pause_ends_an_utterance_after_its_hangover() -> None:
    cutter = Cutter(RULES)
    assert speak(cutter, "ab") == []
    assert cutter.tick(200 + 2_999) == []
    assert cutter.tick(200 + 3_000) == []
    assert cutter.tick(200 + 3_149) == []
    assert cutter.tick(200 + 3_150) == [Cut(0, 0, b"ab", 400, CutReason.TIMEOUT, 220, 2)]


def test_a_chunk_in_time_keeps_the_utterance_open() -> None:
    cutter = Cutter(RULES)
    for number in range(5):
        assert cutter.chunk(b"a", 20, number * 2_999) == []
    assert cutter.held_bytes == 5


def test_speech_that_resumes_after_a_pause_starts_the_next_utterance() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "ab")
    cutter.tick(3_200)
    cuts = cutter.chunk(b"c", CHUNK_MS, 3_250)  # within the hangover of the pause
    assert [(cut.audio, cut.reason) for cut in cuts] == [(b"ab", CutReason.TIMEOUT)]
    assert cutter.held_bytes == 1
    assert spoken(cutter.flush()) == [b"c"]


@pytest.mark.parametrize("now_ms", [3_200, 3_300, 3_350, 60_000])
def test_speech_that_resumes_before_anybody_looked_at_the_clock_starts_the_next_one_too(now_ms: int) -> None:
    cutter = Cutter(RULES)
    speak(cutter, "ab")
    cuts = cutter.chunk(b"c", CHUNK_MS, now_ms)
    assert [(cut.audio, cut.reason) for cut in cuts] == [(b"ab", CutReason.TIMEOUT)]
    assert spoken(cutter.flush()) == [b"c"]


def test_after_a_pause_the_next_pause_is_counted_from_the_new_speech() -> None:
    cutter = Cutter(RULES)
    cutter.chunk(b"a", CHUNK_MS, 0)
    cutter.chunk(b"b", CHUNK_MS, 3_100)
    assert cutter.wake_at_ms == 6_100


# Longest duration


def test_a_long_speech_is_cut_at_its_longest_duration() -> None:
    cutter = Cutter(RULES)
    assert speak(cutter, "x" * 50) == []
    assert cutter.wake_at_ms == 9_800 + 150
    assert cutter.tick(9_949) == []
    assert cutter.tick(9_950) == [Cut(0, 0, b"x" * 49, 9_800, CutReason.MAX_DURATION, 220, 49)]


def test_the_last_chunk_of_a_long_speech_is_kept_for_the_job_that_ends_its_turn() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "x" * 49 + "y")
    (part,) = cutter.tick(9_950)
    # Nothing more is said; the turn still ends with a job that says so.
    assert cutter.wake_at_ms == 9_800 + 3_000
    cutter.tick(12_800)
    assert cutter.tick(12_950) == [Cut(1, part.turn, b"y", CHUNK_MS, CutReason.TIMEOUT, 220, began_at_ms=9_800)]


def test_one_chunk_short_of_the_longest_duration_is_not_cut() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "x" * 49)
    assert cutter.wake_at_ms == 9_600 + 3_000


def test_speech_within_the_hangover_of_a_long_utterance_still_belongs_to_it() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "x" * 50)
    assert cutter.chunk(b"y", CHUNK_MS, 9_900) == []
    assert cutter.wake_at_ms == 9_950  # more speech does not put the cut off
    assert spoken(cutter.tick(9_950)) == [b"x" * 50]
    assert spoken(cutter.flush()) == [b"y"]


def test_speech_after_the_hangover_of_a_long_utterance_is_the_next_one() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "x" * 50)
    assert spoken(cutter.chunk(b"y", CHUNK_MS, 10_000)) == [b"x" * 49]
    assert cutter.held_bytes == 2


def test_a_single_chunk_longer_than_allowed_waits_for_what_ends_its_turn() -> None:
    cutter = Cutter(RULES)
    assert cutter.chunk(b"long", 25_000, 0) == []
    assert cutter.wake_at_ms == 3_000
    cutter.tick(3_000)
    assert [(cut.audio, cut.duration_ms, cut.reason) for cut in cutter.tick(3_150)] == [
        (b"long", 25_000, CutReason.TIMEOUT)
    ]


def test_a_single_chunk_longer_than_allowed_is_cut_when_more_is_said() -> None:
    cutter = Cutter(RULES)
    cutter.chunk(b"long", 25_000, 0)
    cutter.chunk(b"more", 200, 200)
    assert [(cut.audio, cut.reason) for cut in cutter.tick(350)] == [(b"long", CutReason.MAX_DURATION)]
    assert spoken(cutter.flush()) == [b"more"]


# Final


def test_a_final_ends_the_utterance_after_its_hangover() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "ab")
    assert cutter.final(300) == []
    assert cutter.tick(499) == []
    assert cutter.tick(500) == [Cut(0, 0, b"ab", 400, CutReason.IS_FINAL, 280, 2)]


def test_the_tail_chunk_that_comes_after_the_final_belongs_to_the_same_utterance() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "ab")
    cutter.final(3_195)
    assert cutter.chunk(b"c", CHUNK_MS, 3_205) == []
    assert spoken(cutter.tick(3_395)) == [b"abc"]


def test_a_chunk_when_the_hangover_of_a_final_is_over_is_the_next_utterance() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "ab")
    cutter.final(300)
    assert spoken(cutter.chunk(b"c", CHUNK_MS, 500)) == [b"ab"]
    assert spoken(cutter.flush()) == [b"c"]


def test_a_second_final_does_not_put_the_first_one_off() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "ab")
    cutter.final(300)
    assert cutter.final(450) == []
    assert spoken(cutter.tick(500)) == [b"ab"]


def test_a_final_when_the_hangover_of_the_last_one_is_over_only_ends_that() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "ab")
    cutter.final(300)
    assert spoken(cutter.final(600)) == [b"ab"]
    assert cutter.tick(10_000) == []


def test_nothing_said_is_no_utterance_and_uses_no_index() -> None:
    cutter = Cutter(RULES)
    assert cutter.final(0) == []
    assert cutter.chunk(b"", 0, 100) == []
    assert cutter.final(200) == []
    assert cutter.tick(100_000) == []
    assert cutter.flush() == []
    assert (cutter.next_index, cutter.held_bytes, cutter.wake_at_ms) == (0, 0, None)


def test_an_empty_chunk_is_no_speech_but_time_passes_with_it() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "ab")
    assert cutter.chunk(b"", 0, 3_200) == []  # the pause runs out, nothing resumed
    assert spoken(cutter.tick(3_350)) == [b"ab"]


# Longest in bytes


def test_too_many_bytes_are_cut_at_once() -> None:
    cutter = Cutter(CutRules(max_bytes=10, hangover_manual_ms=200))
    assert cutter.chunk(b"123456789", 20, 0) == []
    assert cutter.chunk(b"0", 20, 20) == [Cut(0, 0, b"123456789", 20, CutReason.MAX_LENGTH, 220)]
    assert cutter.held_bytes == 1


def test_a_single_chunk_of_too_many_bytes_waits_for_what_ends_its_turn() -> None:
    cutter = Cutter(CutRules(max_bytes=10, hangover_manual_ms=200))
    assert cutter.chunk(b"12345678901", 20, 0) == []
    assert spoken(cutter.chunk(b"2", 20, 20)) == [b"12345678901"]
    assert [(cut.audio, cut.reason) for cut in cutter.flush()] == [(b"2", CutReason.IS_FINAL)]


def test_a_final_whose_tail_is_too_long_still_ends_what_is_left() -> None:
    cutter = Cutter(CutRules(max_bytes=10, hangover_manual_ms=200))
    cutter.chunk(b"12345", 20, 0)
    cutter.final(20)
    assert [(cut.audio, cut.reason) for cut in cutter.chunk(b"67890", 20, 25)] == [(b"12345", CutReason.MAX_LENGTH)]
    assert cutter.wake_at_ms == 20 + 200
    assert [(cut.audio, cut.reason, cut.turn) for cut in cutter.tick(220)] == [(b"67890", CutReason.IS_FINAL, 0)]


# Which reason wins


@pytest.mark.parametrize(
    ("first", "then", "winner", "take_at_ms"),
    [
        ("pause", "final", CutReason.IS_FINAL, 3_050 + 200),
        ("duration", "final", CutReason.IS_FINAL, 50 + 200),
        ("final", "duration", CutReason.IS_FINAL, 200),
        ("final", "bytes", CutReason.MAX_LENGTH, 50),
        ("duration", "bytes", CutReason.MAX_LENGTH, 50),
    ],
)
def test_of_two_reasons_the_later_wins(first: str, then: str, winner: CutReason, take_at_ms: int) -> None:
    cutter = Cutter(CutRules(max_bytes=10, hangover_manual_ms=200))

    def happen(what: str, now_ms: int) -> list[Cut]:
        match what:
            case "pause":
                return cutter.tick(now_ms)
            case "duration":
                return cutter.chunk(b"b", 10_000, now_ms)
            case "bytes":
                return cutter.chunk(b"123456789", 20, now_ms)
            case _:
                return cutter.final(now_ms)

    start_ms = 3_000 if first == "pause" else 0
    cutter.chunk(b"a", 20, 0)
    assert happen(first, start_ms) == []
    cuts = happen(then, start_ms + 50)
    if start_ms + 50 < take_at_ms:
        assert cuts == []
        assert cutter.wake_at_ms == take_at_ms
        assert cutter.tick(take_at_ms - 1) == []
        cuts = cutter.tick(take_at_ms)
    assert [cut.reason for cut in cuts] == [winner]
    assert cuts[0].padding_ms == winner.padding_ms


# Flush


def test_when_nothing_more_will_come_what_was_said_is_an_utterance_at_once() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "ab")
    assert cutter.flush() == [Cut(0, 0, b"ab", 400, CutReason.IS_FINAL, 280, 2)]
    assert cutter.flush() == []


@pytest.mark.parametrize("pending", ["pause", "duration", "final"])
def test_a_flush_does_not_wait_for_a_hangover(pending: str) -> None:
    cutter = Cutter(RULES)
    cutter.chunk(b"a", 10_000 if pending == "duration" else 20, 0)
    if pending == "pause":
        cutter.tick(3_000)
    if pending == "final":
        cutter.final(0)
    assert [(cut.audio, cut.reason) for cut in cutter.flush()] == [(b"a", CutReason.IS_FINAL)]


# Numbers and turns


def test_indexes_count_the_utterances() -> None:
    cutter = Cutter(RULES)
    cuts = []
    for number in range(5):
        cuts += cutter.chunk(b"a", 20, number * 10_000)
        cuts += cutter.final(number * 10_000 + 1)
        cuts += cutter.final(number * 10_000 + 2)
        cuts += cutter.tick(number * 10_000 + 500)
    assert [cut.utterance_index for cut in cuts] == [0, 1, 2, 3, 4]
    assert cutter.next_index == 5


def test_a_final_or_a_pause_closes_the_turn() -> None:
    cutter = Cutter(RULES)
    cutter.chunk(b"a", 20, 0)
    cuts = cutter.chunk(b"b", 20, 4_000)
    cutter.final(4_000)
    cuts += cutter.chunk(b"c", 20, 5_000) + cutter.flush()
    assert [(cut.reason, cut.turn) for cut in cuts] == [
        (CutReason.TIMEOUT, 0),
        (CutReason.IS_FINAL, 1),
        (CutReason.IS_FINAL, 2),
    ]


def test_the_parts_of_one_long_speech_and_its_end_are_one_turn() -> None:
    cutter = Cutter(CutRules(max_bytes=10, hangover_manual_ms=200))
    cuts = cutter.chunk(b"a", 10_000, 0)
    cuts += cutter.chunk(b"b", 20, 200)
    cuts += cutter.chunk(b"123456789", 20, 400)
    cuts += cutter.chunk(b"c", 20, 600)
    cutter.final(600)
    cuts += cutter.chunk(b"d", 20, 800) + cutter.flush()
    assert [(cut.audio, cut.reason, cut.turn) for cut in cuts] == [
        (b"a", CutReason.MAX_DURATION, 0),
        (b"b", CutReason.MAX_LENGTH, 0),
        (b"123456789", CutReason.MAX_LENGTH, 0),
        (b"c", CutReason.IS_FINAL, 0),
        (b"d", CutReason.IS_FINAL, 1),
    ]


def test_what_is_cut_after_a_whole_utterance_is_numbered_after_it() -> None:
    cutter = Cutter(RULES)
    cutter.chunk(b"a", 20, 0)
    cutter.claim_index(4)
    assert [cut.utterance_index for cut in cutter.flush()] == [5]


def test_a_whole_utterance_with_an_earlier_number_does_not_turn_the_count_back() -> None:
    cutter = Cutter(RULES)
    cutter.claim_index(4)
    cutter.claim_index(2)
    assert cutter.next_index == 5


def test_a_whole_utterance_is_a_turn_of_its_own() -> None:
    cutter = Cutter(RULES)
    assert cutter.turn == 0
    cutter.claim_index(0)
    assert cutter.turn == 1
    cutter.claim_index(1)
    assert cutter.turn == 2


# When to look again


def test_there_is_nothing_to_wake_for_while_nothing_was_said() -> None:
    cutter = Cutter(RULES)
    assert cutter.wake_at_ms is None
    cutter.chunk(b"a", 20, 100)
    assert cutter.wake_at_ms == 3_100
    cutter.final(200)
    assert cutter.wake_at_ms == 400
    cutter.tick(400)
    assert cutter.wake_at_ms is None


# Any order

SMALL = CutRules(pause_ms=30, max_duration_ms=100, max_bytes=12, hangover_auto_ms=5, hangover_manual_ms=8)

steps = st.lists(
    st.tuples(
        st.integers(0, 40),  # how long after the step before
        st.one_of(
            st.tuples(st.just("chunk"), st.integers(0, 6), st.integers(0, 60)),
            st.tuples(st.just("final")),
            st.tuples(st.just("tick")),
            st.tuples(st.just("flush")),
        ),
    ),
    max_size=40,
)


@given(steps)
def test_whatever_the_order_every_byte_is_in_exactly_one_utterance(
    script: list[tuple[int, tuple[object, ...]]],
) -> None:
    cutter = Cutter(SMALL)
    now_ms, said, cuts = 0, bytearray(), list[Cut]()
    duration_ms = 0
    for pause_ms, (verb, *numbers) in script:
        now_ms += pause_ms
        match verb, numbers:
            case "chunk", [int(size), int(length_ms)]:
                audio = bytes((len(said) + place) % 256 for place in range(size))
                said += audio
                duration_ms += length_ms if audio else 0
                cuts += cutter.chunk(audio, length_ms, now_ms)
            case "final", _:
                cuts += cutter.final(now_ms)
            case "tick", _:
                cuts += cutter.tick(now_ms)
            case "flush", _:
                cuts += cutter.flush()
        # What was not cut is held, and somebody will be woken for it.
        assert b"".join(spoken(cuts)) == said[: len(said) - cutter.held_bytes]
        assert (cutter.wake_at_ms is None) == (cutter.held_bytes == 0)
        assert cutter.held_bytes < SMALL.max_bytes + 6
    cuts += cutter.flush()

    assert b"".join(spoken(cuts)) == said
    assert all(spoken(cuts))
    assert [cut.utterance_index for cut in cuts] == list(range(len(cuts)))
    assert sum(cut.duration_ms for cut in cuts) == duration_ms
    assert [cut.padding_ms for cut in cuts] == [cut.reason.padding_ms for cut in cuts]
    for earlier, later in pairwise(cuts):
        assert later.turn - earlier.turn == (1 if earlier.reason.closes_turn else 0)
    # The node collects the parts of a turn until one says that it ends.
    assert not cuts or cuts[-1].reason.closes_turn


@given(steps)
def test_who_wakes_up_when_asked_ends_every_utterance_in_time(script: list[tuple[int, tuple[object, ...]]]) -> None:
    """Ticking exactly at `wake_at_ms`, as the timer does, nothing stays behind and nothing is woken for in vain."""
    cutter = Cutter(SMALL)
    now_ms, said = 0.0, 0
    heard = 0
    for pause_ms, (verb, *numbers) in script:
        arrives_at_ms = now_ms + pause_ms
        while (wake_at_ms := cutter.wake_at_ms) is not None and wake_at_ms < arrives_at_ms:
            heard += sum(map(len, spoken(cutter.tick(wake_at_ms))))
            assert cutter.wake_at_ms != wake_at_ms
        now_ms = arrives_at_ms
        match verb, numbers:
            case "chunk", [int(size), int(length_ms)]:
                said += size
                heard += sum(map(len, spoken(cutter.chunk(bytes(size), length_ms, now_ms))))
            case "final", _:
                heard += sum(map(len, spoken(cutter.final(now_ms))))
    while (wake_at_ms := cutter.wake_at_ms) is not None:
        assert wake_at_ms <= now_ms + SMALL.pause_ms + SMALL.hangover_auto_ms + FINAL_GRACE_MS
        heard += sum(map(len, spoken(cutter.tick(wake_at_ms))))
        assert cutter.wake_at_ms != wake_at_ms
    assert heard == said


# Very short fragments

MERGING = CutRules(short_merge_ms=400, hangover_manual_ms=200)


def test_a_very_short_fragment_waits_for_what_follows() -> None:
    cutter = Cutter(MERGING)
    cutter.chunk(b"a", 200, 0)
    assert cutter.tick(3_000) == []
    assert cutter.wake_at_ms == 6_000
    assert cutter.chunk(b"b", 200, 4_000) == []
    assert cutter.wake_at_ms == 7_000
    cutter.tick(7_000)
    assert cutter.tick(7_150) == [Cut(0, 0, b"ab", 400, CutReason.TIMEOUT, 220, 2)]


def test_a_very_short_fragment_that_nothing_follows_is_an_utterance_after_all() -> None:
    cutter = Cutter(MERGING)
    cutter.chunk(b"a", 200, 0)
    cutter.tick(3_000)
    cutter.tick(6_000)
    assert spoken(cutter.tick(6_150)) == [b"a"]


def test_a_very_short_sentence_with_a_final_does_not_wait() -> None:
    cutter = Cutter(MERGING)
    cutter.chunk(b"a", 200, 0)
    cutter.final(100)
    assert spoken(cutter.tick(300)) == [b"a"]


def test_the_short_end_of_a_long_speech_does_not_wait() -> None:
    cutter = Cutter(MERGING)
    speak(cutter, "x" * 50)
    cutter.tick(9_950)
    cutter.tick(12_800)
    assert [cut.reason for cut in cutter.tick(12_950)] == [CutReason.TIMEOUT]


# Playback


def test_silence_while_the_translation_is_played_is_no_pause() -> None:
    cutter = Cutter(RULES)
    cutter.chunk(b"a", 200, 0)
    cutter.playback_started(1_000)
    assert cutter.tick(10_000) == []
    cutter.playback_ended(12_000)
    assert cutter.wake_at_ms == 15_000
    cutter.tick(15_000)
    assert spoken(cutter.tick(15_150)) == [b"a"]


def test_a_playback_that_never_ends_keeps_nothing_for_ever() -> None:
    cutter = Cutter(RULES)
    cutter.chunk(b"a", 200, 0)
    cutter.playback_started(0)
    assert cutter.wake_at_ms == 63_000


def test_a_final_ends_an_utterance_during_playback_too() -> None:
    cutter = Cutter(RULES)
    cutter.chunk(b"a", 200, 0)
    cutter.playback_started(0)
    cutter.final(100)
    assert spoken(cutter.tick(300)) == [b"a"]


def test_speech_after_playback_has_a_pause_of_its_own() -> None:
    cutter = Cutter(RULES)
    cutter.playback_started(0)
    cutter.playback_ended(500)
    cutter.chunk(b"a", 200, 1_000)
    assert cutter.wake_at_ms == 4_000


def test_a_tail_that_follows_a_final_on_an_empty_buffer_is_ended_by_it() -> None:
    cutter = Cutter(RULES)
    cutter.chunk(b"a", 200, 0)
    cutter.tick(3_000)
    assert spoken(cutter.tick(3_150)) == [b"a"]
    assert cutter.final(3_160) == []  # the pause was quicker
    assert cutter.chunk(b"tail", 200, 3_165) == []
    assert [(cut.audio, cut.reason) for cut in cutter.tick(3_365)] == [(b"tail", CutReason.IS_FINAL)]


def test_speech_long_after_a_final_on_an_empty_buffer_waits_for_its_own() -> None:
    cutter = Cutter(RULES)
    cutter.final(1_000)
    cutter.chunk(b"a", 200, 1_200)
    assert cutter.wake_at_ms == 4_200


def test_a_tail_chunk_five_ms_after_its_final_is_never_in_the_next_utterance() -> None:
    cutter = Cutter(RULES)
    now_ms = 0.0
    for turn in range(1_000):
        said = f"speech {turn} ".encode()
        cutter.chunk(said, 200, now_ms)
        cutter.final(now_ms + 200)
        assert cutter.chunk(b"tail", 200, now_ms + 205) == []
        (cut,) = cutter.tick(now_ms + 400)
        assert (cut.utterance_index, cut.audio) == (turn, said + b"tail")
        now_ms += 500


def test_a_client_that_sends_finals_is_given_a_moment_for_the_one_after_its_pause() -> None:
    cutter = Cutter(RULES)
    speak(cutter, "a")
    cutter.final(100)
    assert spoken(cutter.tick(300)) == [b"a"]
    # 180 ms of the next sentence's end are not sent yet when the pause begins to count here, but not there.
    speak(cutter, "bc", from_ms=1_000)
    cutter.tick(1_200 + 3_000)
    assert cutter.wake_at_ms == 1_200 + 3_000 + 150 + FINAL_GRACE_MS
    assert cutter.final(1_200 + 3_180) == []
    assert cutter.chunk(b"d", 180, 1_200 + 3_185) == []
    assert [(cut.audio, cut.reason) for cut in cutter.tick(1_200 + 3_380)] == [(b"bcd", CutReason.IS_FINAL)]


# When it began


def test_an_utterance_began_with_its_first_chunk() -> None:
    cutter = Cutter(RULES)
    cutter.chunk(b"a", CHUNK_MS, 1_000)
    cutter.chunk(b"b", CHUNK_MS, 1_200)
    assert [cut.began_at_ms for cut in cutter.flush()] == [1_000]
    cutter.chunk(b"c", CHUNK_MS, 5_000)
    assert [cut.began_at_ms for cut in cutter.flush()] == [5_000]


# Silence


def stream(cutter: Cutter, pattern: str, at_ms: float, step_ms: int = 256) -> tuple[list[Cut], float]:
    """A chunk for each letter: `.` is silence, anything else speech. When the last one came."""
    cuts: list[Cut] = []
    for letter in pattern:
        at_ms += step_ms
        cuts += cutter.chunk(letter.encode(), step_ms, at_ms, is_speech=letter != ".")
    return cuts, at_ms


def test_silence_alone_is_never_an_utterance_and_uses_no_number() -> None:
    cutter = Cutter(RULES)
    cuts, at_ms = stream(cutter, "." * 100, 0)
    assert cuts == []
    assert cutter.wake_at_ms is None
    assert cutter.final(at_ms) == []
    assert cutter.flush() == []
    assert cutter.next_index == 0
    # Only a moment of it is kept, for the beginning of a word.
    assert cutter.held_chunks == 2


def test_the_moment_before_speech_is_part_of_the_utterance() -> None:
    cutter = Cutter(RULES)
    stream(cutter, "......ab", 0)
    assert spoken(cutter.flush()) == [b"..ab"]


def test_a_pause_is_time_without_speech_whether_silence_is_sent_or_not() -> None:
    cutter = Cutter(RULES)
    _, spoken_until_ms = stream(cutter, "ab", 0)
    assert stream(cutter, "." * 11, spoken_until_ms)[0] == []
    assert cutter.wake_at_ms == spoken_until_ms + 3_000
    cutter.tick(spoken_until_ms + 3_000)
    (cut,) = cutter.tick(spoken_until_ms + 3_150)
    assert (cut.audio, cut.reason) == (b"ab" + b"." * 11, CutReason.TIMEOUT)


def test_a_client_that_sends_silence_and_finals_is_not_given_more_time_than_others() -> None:
    cutter = Cutter(RULES)
    cutter.final(0)
    _, spoken_until_ms = stream(cutter, "ab", 1_000)
    stream(cutter, "." * 11, spoken_until_ms)
    cutter.tick(spoken_until_ms + 3_000)
    assert cutter.wake_at_ms == spoken_until_ms + 3_150


def test_finals_over_silence_after_the_sentence_end_nothing_and_the_next_word_is_whole() -> None:
    cutter = Cutter(RULES)
    cuts, at_ms = stream(cutter, "ab", 0)
    cuts += stream(cutter, "." * 13, at_ms)[0]
    assert spoken(cuts) == [b"ab" + b"." * 12]
    at_ms += 13 * 256
    for _ in range(7):
        assert cutter.final(at_ms) == []
        _, at_ms = stream(cutter, ".", at_ms)
    # Speech right behind such a final is the beginning of a sentence, not the tail of one.
    assert cutter.final(at_ms) == []
    assert stream(cutter, "cdef", at_ms, 100)[0] == []
    assert spoken(cutter.flush()) == [b"..cdef"]


def test_a_final_after_silence_does_not_wait_for_more() -> None:
    cutter = Cutter(RULES)
    _, at_ms = stream(cutter, "ab..", 0)
    assert spoken(cutter.final(at_ms)) == [b"ab.."]


def test_silence_after_speech_does_not_count_towards_the_longest_duration() -> None:
    cutter = Cutter(RULES)
    cuts, _ = stream(cutter, "x" * 38 + "." * 11, 0)  # 9.7 s of speech
    assert cuts == []
    cuts, _ = stream(cutter, "." * 3, 49 * 256)
    assert [cut.reason for cut in cuts] == [CutReason.TIMEOUT]


def test_silence_within_speech_does() -> None:
    cutter = Cutter(RULES)
    cuts, _ = stream(cutter, "x" * 32 + "." * 8 + "xx", 0)
    assert [cut.reason for cut in cuts] == [CutReason.MAX_DURATION]


def test_a_turn_whose_last_part_is_followed_by_silence_alone_is_over_after_a_pause() -> None:
    cutter = Cutter(CutRules(max_bytes=10, hangover_manual_ms=200))
    cuts, at_ms = stream(cutter, "xxxxxx....", 0)  # ten bytes, the last of which is silence
    assert [cut.reason for cut in cuts] == [CutReason.MAX_LENGTH]
    assert not cutter.has_speech
    _, at_ms = stream(cutter, "." * 15, at_ms)
    stream(cutter, "y", at_ms)
    (cut,) = cutter.flush()
    assert cut.turn == 1


def test_a_final_that_is_overtaken_by_size_does_not_end_what_is_said_later() -> None:
    cutter = Cutter(CutRules(max_bytes=4, hangover_manual_ms=600))
    stream(cutter, "xx", 0)
    cutter.final(512)
    stream(cutter, "..", 512)
    assert not cutter.has_speech
    assert stream(cutter, "yz", 60_000)[0] == []


def test_one_long_chunk_after_silence_is_not_cut_down_to_the_silence() -> None:
    cutter = Cutter(RULES)
    stream(cutter, "..", 0)
    assert cutter.chunk(b"long", 12_000, 1_000) == []
    assert spoken(cutter.flush()) == [b"..long"]


# Chunks that last no time


def test_silence_of_no_duration_does_not_pile_up_before_speech() -> None:
    cutter = Cutter(RULES)
    for number in range(1_000):
        assert cutter.chunk(bytes(2), 0, number, is_speech=False) == []
    assert (cutter.held_chunks, cutter.held_bytes) == (LEAD_CHUNKS, 2 * LEAD_CHUNKS)
    cutter.chunk(b"word", CHUNK_MS, 1_000)
    (cut,) = cutter.flush()
    assert cut.audio == bytes(2 * LEAD_CHUNKS) + b"word"


def test_nor_does_speech_of_no_duration_in_an_utterance() -> None:
    cutter = Cutter(RULES)
    cuts = [cut for number in range(3 * MAX_CHUNKS) for cut in cutter.chunk(b"ab", 0, number / 1000)]
    assert [cut.reason for cut in cuts] == [CutReason.MAX_LENGTH] * len(cuts)
    assert len(cuts) >= 2
    assert cutter.held_chunks <= MAX_CHUNKS
