"""Recordings to utterances: at pauses, never longer than allowed, and without silence."""

import math
from array import array

import pytest

from lingua_scheduler.uploads.cutting import cut
from tests.support.sounds import a_minute, sample_pcm16

RMS = 130


def tone(seconds: float, level: int = 8_000) -> bytes:
    return array("h", (int(level * math.sin(at / 5)) for at in range(int(16_000 * seconds)))).tobytes()


def silence(seconds: float) -> bytes:
    return b"\0\0" * int(16_000 * seconds)


def test_a_sentence_is_one_utterance() -> None:
    (piece,) = cut(tone(3), 10_000, RMS)
    assert (piece.begins_ms, len(piece.audio)) == (0, 3 * 32_000)


def test_a_pause_ends_an_utterance_and_is_not_in_it() -> None:
    first, second = cut(silence(2) + tone(2) + silence(3) + tone(1) + silence(5), 10_000, RMS)
    assert (first.begins_ms, len(first.audio) // 32) == (1_800, 2_600)
    assert (second.begins_ms, len(second.audio) // 32) == (6_800, 1_600)


def test_silence_is_no_utterance() -> None:
    assert cut(silence(10), 10_000, RMS) == []
    assert cut(b"", 10_000, RMS) == []
    assert cut(tone(1, level=50), 10_000, RMS) == []


def test_long_speech_is_cut_at_its_quietest_moment() -> None:
    speech = tone(7) + silence(0.3) + tone(8)
    first, second = cut(speech, 10_000, RMS)
    assert 7_000 <= len(first.audio) // 32 <= 7_300
    assert first.audio + second.audio == speech


@pytest.mark.parametrize("piece_ms", [20, 500, 3_000, 10_000])
def test_no_piece_is_longer_than_allowed_and_none_is_lost(piece_ms: int) -> None:
    speech = tone(25)
    pieces = cut(speech, piece_ms, RMS)
    assert all(len(piece.audio) <= piece_ms * 32 for piece in pieces)
    assert b"".join(piece.audio for piece in pieces) == speech
    assert [piece.begins_ms for piece in pieces] == sorted(piece.begins_ms for piece in pieces)


def test_a_minute_of_speech_is_a_handful_of_utterances() -> None:
    pieces = cut(a_minute(), 10_000, RMS)
    assert 8 <= len(pieces) <= 10
    assert len(cut(sample_pcm16(), 10_000, RMS)) == 1
