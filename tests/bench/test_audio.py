"""What benchmarks say: audio of the wanted size, whose Opus packets differ in length as those of real speech do."""

from itertools import pairwise

import pytest

from bench.audio import OPUS_PACKET_BYTES, speech
from bench.life import LARGE_BYTES, SMALL_BYTES
from bench.speaking import CHUNK_BYTES, CHUNK_S
from lingua_sdk.protocol.audio import detect_format, duration_ms


def packet_lengths(audio: bytes) -> list[int]:
    lengths, at = [], 0
    while at < len(audio):
        lengths.append(int.from_bytes(audio[at : at + 2], "little"))
        at += 2 + lengths[-1]
    return lengths


@pytest.mark.parametrize("size_bytes", [60, SMALL_BYTES, CHUNK_BYTES, LARGE_BYTES])
def test_opus_of_any_size_is_taken_for_opus_and_is_as_long_as_wanted(size_bytes: int) -> None:
    audio = speech(size_bytes, "opus")
    assert detect_format(audio) == "opus"
    assert abs(len(audio) - size_bytes) <= max(OPUS_PACKET_BYTES) / 2
    assert audio == speech(size_bytes, "opus")


def test_a_chunk_of_opus_lasts_as_long_as_it_takes_to_say() -> None:
    assert duration_ms(speech(CHUNK_BYTES, "opus"), "opus") == CHUNK_S * 1000


@pytest.mark.parametrize("size_bytes", [CHUNK_BYTES, LARGE_BYTES])
def test_packets_differ_in_length_from_one_to_the_next(size_bytes: int) -> None:
    lengths = packet_lengths(speech(size_bytes, "opus"))
    least, most = OPUS_PACKET_BYTES
    assert least <= min(lengths) < least + 5
    assert most - 5 < max(lengths) <= most
    changes = sum(before != after for before, after in pairwise(lengths))
    assert changes > 0.9 * (len(lengths) - 1)
    assert lengths != sorted(lengths)


def test_samples_are_exactly_as_many_as_wanted_and_no_opus() -> None:
    audio = speech(LARGE_BYTES, "pcm16")
    assert len(audio) == LARGE_BYTES
    assert detect_format(audio) == "pcm16"
