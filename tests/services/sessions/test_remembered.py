"""Which outcomes lose their speech, and in which order."""

import msgspec

from lingua_scheduler.services.sessions.remembered import Memory, Remembered
from lingua_sdk.protocol.session import TranslationResult
from tests.services.sessions.test_sessions import result

# As plain values: a limit that changes is noticed.
ARRIVED_AFTER_S = 60.0
MAX_REMEMBERED = 512
MAX_REMEMBERED_BYTES = 1_000_000
VALUE_BYTES = 64


def spoken(remembered: Remembered) -> dict[int, bool]:
    return {
        outcome.utterance_index: bool(outcome.tts_audio)
        for outcome in remembered
        if isinstance(outcome, TranslationResult)
    }


def test_when_a_mute_outcome_has_gone_the_next_oldest_loses_its_speech() -> None:
    remembered = Remembered(Memory(2**20))
    for index in range(4):
        remembered.add(result(index, 100))
    remembered.strip()
    assert remembered.oldest_spoken_s() is not None
    assert spoken(remembered) == {0: False, 1: True, 2: True, 3: True}
    remembered.pop()
    remembered.strip()
    assert spoken(remembered) == {1: False, 2: True, 3: True}


def test_an_outcome_with_speech_that_goes_leaves_the_others_as_they_are() -> None:
    remembered = Remembered(Memory(2**20))
    for index in range(3):
        remembered.add(result(index, 100))
    remembered.pop()
    remembered.strip()
    assert spoken(remembered) == {1: False, 2: True}


# How much is held


class Seconds:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def plain_size() -> int:
    """Of an outcome without speech."""
    memory = Memory(2**20)
    Remembered(memory).add(result(0, 0))
    return memory.held_bytes


def test_speech_and_text_count_and_what_is_forgotten_does_not() -> None:
    memory = Memory(2**20)
    remembered = Remembered(memory)
    assert (len(remembered), list(remembered), remembered.first()) == (0, [], None)
    remembered.add(result(0, 500))
    assert memory.held_bytes == plain_size() + 500
    remembered.strip()
    assert memory.held_bytes == plain_size()
    remembered.add(result(1, 70))
    assert (len(remembered), len(memory)) == (2, 2)
    first = remembered.first()
    assert first is not None
    assert (first.utterance_index, remembered.pop().utterance_index) == (0, 0)
    assert memory.held_bytes == plain_size() + 70
    remembered.close()
    assert (memory.held_bytes, len(memory), len(remembered)) == (0, 0, 0)
    remembered.add(result(2, 10))
    assert (len(remembered), memory.held_bytes) == (0, 0)


def test_fields_that_nodes_fill_count_and_many_small_values_more() -> None:
    def grown(**more: object) -> int:
        memory = Memory(2**20)
        Remembered(memory).add(msgspec.structs.replace(result(0, 0), **more))
        return memory.held_bytes - plain_size()

    assert grown(extra={"a": 1}) >= len('{"a":1}')
    assert grown(reason_codes=["abc"]) >= len('["abc"]')
    assert grown(segments_meta={"a": "b"}) >= len('{"a":"b"}')
    assert grown(text_asr="x" * 100) == 100
    many = {"a": [1] * 300}
    assert grown(extra=many) == len(msgspec.json.encode(many)) + VALUE_BYTES * (299 + 1 + 1 + 1)


def test_a_session_keeps_a_number_of_outcomes() -> None:
    remembered = Remembered(Memory(2**30))
    for index in range(MAX_REMEMBERED + 2):
        remembered.add(result(index, 0))
    assert [outcome.utterance_index for outcome in remembered][:1] == [2]
    assert len(remembered) == MAX_REMEMBERED


def test_a_session_above_its_limit_loses_speech_first_and_outcomes_then() -> None:
    remembered = Remembered(Memory(2**30))
    third = MAX_REMEMBERED_BYTES // 3
    for index in range(4):
        remembered.add(result(index, third))
    assert spoken(remembered) == {0: False, 1: False, 2: True, 3: True}
    # The latest keeps its speech, even above the limit.
    remembered.add(result(4, 2 * MAX_REMEMBERED_BYTES))
    assert spoken(remembered) == {4: True}


def test_all_sessions_together_lose_the_oldest_speech_first() -> None:
    seconds = Seconds()
    memory = Memory(10 * plain_size(), seconds)
    first, second = Remembered(memory), Remembered(memory)
    for index, remembered in enumerate((first, second, first, second)):
        seconds.now += 1
        remembered.add(result(index, plain_size()))
    assert (spoken(first), spoken(second)) == ({0: True, 2: True}, {1: True, 3: True})
    assert (first.oldest_s(), first.oldest_spoken_s(), second.oldest_s()) == (101.0, 101.0, 102.0)
    seconds.now += 1
    first.add(result(4, 2 * plain_size()))
    # 11 sizes: down to nine tenths of ten.
    assert (spoken(first), spoken(second)) == ({0: False, 2: True, 4: True}, {1: False, 3: True})
    assert memory.held_bytes == 9 * plain_size()


def test_all_sessions_together_forget_the_oldest_outcomes_when_no_speech_is_left() -> None:
    seconds = Seconds()
    memory = Memory(4 * plain_size(), seconds)
    first, second = Remembered(memory), Remembered(memory)
    for index, remembered in enumerate((first, second, second, first, second)):
        seconds.now += 1
        remembered.add(result(index, 0))
    assert ([one.utterance_index for one in first], [one.utterance_index for one in second]) == ([3], [2, 4])
    assert memory.held_bytes == 3 * plain_size()


def test_what_was_sent_long_ago_has_arrived() -> None:
    seconds = Seconds()
    remembered = Remembered(Memory(2**20, seconds))
    for index in range(3):
        remembered.add(result(index, 0))
        seconds.now += 10
    seconds.now = 110.0 + ARRIVED_AFTER_S
    remembered.forget_arrived()
    assert [one.utterance_index for one in remembered] == [1, 2]
    remembered.close()
    remembered.forget_arrived()


def test_the_fields_of_a_node_count_as_their_text_while_they_are_short() -> None:
    def grown(extra: object) -> int:
        memory = Memory(2**20)
        Remembered(memory).add(msgspec.structs.replace(result(0, 0), extra=extra))
        return memory.held_bytes - plain_size()

    # 256 bytes of JSON are short; one more, and each of its two values is counted.
    assert grown({"a": "x" * 248}) == 256
    assert grown({"a": "x" * 249}) == 257 + 2 * VALUE_BYTES


def test_of_nothing_nothing_can_be_taken() -> None:
    memory = Memory(2**20)
    remembered = Remembered(memory)
    remembered.strip()
    remembered.forget_arrived()
    assert (remembered.oldest_s(), remembered.oldest_spoken_s(), memory.held_bytes) == (None, None, 0)
    remembered.add(result(0, 0))
    assert (remembered.oldest_s() is None, remembered.oldest_spoken_s()) == (False, None)


def test_a_session_keeps_a_million_bytes_and_not_one_more() -> None:
    for more, is_spoken in ((0, True), (1, False)):
        remembered = Remembered(Memory(2**30))
        remembered.add(result(0, 1_000))
        remembered.add(result(1, 1_000_000 - 2 * plain_size() - 1_000 + more))
        assert spoken(remembered) == {0: is_spoken, 1: True}


def test_a_session_that_remembers_nothing_any_more_is_not_kept() -> None:
    memory = Memory(2**20)
    remembered = Remembered(memory)
    remembered.add(result(0, 0))
    assert memory._owners == {remembered}
    remembered.pop()
    assert memory._owners == set()
