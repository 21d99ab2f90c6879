"""The gate that leaves silence out, and the levels it goes by."""

import pytest

from lingua_sdk.audio import CHUNK_BYTES
from lingua_sdk.microphone import Gate, levels
from tests.support.tones import noise

SPEECH, SILENCE = noise(3_000), noise(20)


def test_silence_is_left_out_but_not_the_beginning_and_the_end_of_a_word() -> None:
    gate = Gate()
    heard = [SILENCE, SILENCE, SPEECH, SPEECH, SILENCE, SILENCE, SILENCE, SILENCE, SPEECH]
    assert [len(gate.take(chunk)) for chunk in heard] == [0, 0, 2, 1, 1, 1, 0, 0, 2]


def test_every_chunk_that_is_sent_is_sent_once_and_in_order() -> None:
    gate = Gate()
    numbered = [noise(3_000 if number % 7 < 2 else 10)[:-2] + bytes((number, 0)) for number in range(60)]
    sent = [chunk for heard in numbered for chunk in gate.take(heard)]
    assert sent == [chunk for chunk in numbered if chunk in sent]
    assert 60 * 4 / 7 < len(sent) < 60


def test_the_hum_of_a_loud_room_becomes_silence_and_a_voice_above_it_is_heard() -> None:
    gate = Gate()
    hum = noise(600)
    heard = [bool(gate.take(hum)) for _ in range(100)]
    assert heard[0]  # it cannot know yet
    assert not any(heard[60:])
    assert gate.take(noise(6_000))


def test_a_long_speech_does_not_become_the_room() -> None:
    # Between syllables there are moments in which the room is heard.
    syllables = (noise(3_000)[:5_120] + noise(20)[:1_280]) * 200
    gate = Gate()
    sent = b"".join(
        b"".join(gate.take(syllables[at : at + CHUNK_BYTES])) for at in range(0, len(syllables), CHUNK_BYTES)
    )
    assert sent == syllables


def test_levels_are_those_of_the_quietest_and_the_loudest_moment() -> None:
    quietest, loudest = levels(noise(100)[:3_200] + noise(5_000)[:3_200])
    assert quietest == pytest.approx(100, rel=0.1)
    assert loudest == pytest.approx(5_000, rel=0.1)
    assert levels(b"") == (0.0, 0.0)
