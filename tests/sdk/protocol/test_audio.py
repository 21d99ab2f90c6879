import math
import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_sdk.protocol.audio import (
    MAX_OPUS_PACKET_BYTES,
    SilenceLevels,
    detect_format,
    duration_ms,
    listen,
    measure,
    opus_packets,
)

packets = st.lists(st.binary(min_size=1, max_size=MAX_OPUS_PACKET_BYTES), max_size=12)
# Mostly small lengths, so that the walk often comes far before it fails.
length_like_bytes = st.lists(st.integers(0, 6), max_size=40).map(bytes)


def framed(parts: list[bytes]) -> bytes:
    return b"".join(struct.pack("<H", len(part)) + part for part in parts)


def pcm16(samples: list[int]) -> bytes:
    return struct.pack(f"<{len(samples)}h", *samples)


def naive_opus_packets(data: bytes) -> int | None:
    if not data:
        return 0
    head, rest = data[:2], data[2:]
    length = int.from_bytes(head, "little")
    if len(head) < 2 or not 1 <= length <= 1275 or length > len(rest):
        return None
    following = naive_opus_packets(rest[length:])
    return None if following is None else following + 1


@given(packets)
def test_framed_packets_are_counted(parts: list[bytes]) -> None:
    assert opus_packets(framed(parts)) == len(parts)
    assert opus_packets(memoryview(framed(parts))) == len(parts)


@given(st.binary(max_size=200) | length_like_bytes | packets.map(framed).map(lambda data: data[:400]))
def test_the_walk_agrees_with_the_plain_definition(data: bytes) -> None:
    assert opus_packets(data) == naive_opus_packets(data)


@given(
    st.binary(min_size=1, max_size=300),
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255))),
)
def test_packets_of_one_length_are_counted_and_damaged_ones_walked(
    packet: bytes, count: int, damages: list[tuple[int, int]]
) -> None:
    data = bytearray(framed([packet] * count))
    assert opus_packets(bytes(data)) == opus_packets(memoryview(data)) == count
    for at, value in damages:
        data[at % len(data)] = value
    assert opus_packets(bytes(data)) == opus_packets(memoryview(data)) == naive_opus_packets(bytes(data))


@given(packets.filter(bool), st.data())
def test_framing_cut_anywhere_but_between_packets_is_not_opus(parts: list[bytes], data: st.DataObject) -> None:
    whole = framed(parts)
    ends = {len(framed(parts[:count])) for count in range(len(parts) + 1)}
    cut = data.draw(st.integers(0, len(whole)))

    assert (opus_packets(whole[:cut]) is not None) == (cut in ends)


@pytest.mark.parametrize("length", [0, MAX_OPUS_PACKET_BYTES + 1, 0xFFFF])
def test_a_length_no_opus_packet_has_ends_the_walk(length: int) -> None:
    assert opus_packets(struct.pack("<H", length) + bytes(length)) is None


def test_the_longest_opus_packet_is_one_packet() -> None:
    assert opus_packets(framed([bytes(MAX_OPUS_PACKET_BYTES)])) == 1


def test_chunks_of_framed_opus_concatenate() -> None:
    assert opus_packets(framed([b"ab", b"c"]) + framed([b"def"])) == 3


def test_silence_is_pcm16() -> None:
    assert detect_format(bytes(6400)) == "pcm16"


def test_a_spoken_tone_is_pcm16_at_any_loudness() -> None:
    for amplitude in (1, 3, 30, 300, 3_000, 30_000):
        tone = [round(amplitude * math.sin(2 * math.pi * 220 * n / 16_000)) for n in range(3_200)]
        assert detect_format(pcm16(tone)) == "pcm16"


@given(st.lists(st.integers(-32_768, -1), min_size=1))
def test_pcm16_that_starts_below_zero_is_never_taken_for_opus(samples: list[int]) -> None:
    assert detect_format(pcm16(samples)) == "pcm16"


def test_a_few_samples_may_pass_for_opus_but_more_of_them_do_not() -> None:
    assert detect_format(pcm16([2, -9])) == "opus"
    assert detect_format(pcm16([2, -9, -7, 4])) == "pcm16"


def test_framed_packets_are_opus() -> None:
    assert detect_format(framed([b"\x48" * 60] * 10)) == "opus"


def test_an_opus_packet_lasts_twenty_milliseconds() -> None:
    assert duration_ms(framed([b"\x48" * 60] * 10), "opus") == 200


@pytest.mark.parametrize(("sample_rate", "expected_ms"), [(16_000, 200), (8_000, 400), (48_000, 66)])
def test_pcm16_lasts_as_long_as_its_samples(sample_rate: int, expected_ms: int) -> None:
    assert duration_ms(bytes(6_400), "pcm16", sample_rate) == expected_ms


def test_pcm16_labelled_as_opus_is_measured_as_pcm16() -> None:
    assert duration_ms(bytes(6_400), "opus") == 200


def test_opus_bytes_labelled_as_pcm16_are_measured_by_their_label() -> None:
    assert duration_ms(framed([bytes(638)] * 10), "pcm16") == 200


@pytest.mark.parametrize("audio_format", ["opus", "pcm16"])
def test_no_bytes_last_no_time(audio_format: str) -> None:
    assert duration_ms(b"", audio_format) == 0


@given(st.binary(max_size=200), st.sampled_from([8_000, 16_000, 48_000]))
def test_one_measurement_says_what_two_questions_would(data: bytes, rate: int) -> None:
    found = detect_format(data)
    assert measure(data, rate) == (found, duration_ms(data, found, rate))


# Speech and silence

LEVELS = SilenceLevels(opus_bytes=12, pcm_rms=130)
DIGITAL_SILENCE = bytes.fromhex("0300b8fffe")
ROOM_NOISE = bytes.fromhex("08004807c979c8c957c0")


def of_sizes(*sizes: int) -> bytes:
    return b"".join(size.to_bytes(2, "little") + b"\x55" * size for size in sizes)


@pytest.mark.parametrize(
    ("chunk", "is_speech"),
    [
        (DIGITAL_SILENCE * 13, False),
        (ROOM_NOISE * 13, False),
        (ROOM_NOISE * 6 + DIGITAL_SILENCE * 7, False),
        (of_sizes(*[70] * 13), True),
        (of_sizes(8, 8, 8, 66, 81, 8, 8, 8, 8, 8, 8, 8, 8), True),
        (ROOM_NOISE * 12 + of_sizes(60), False),  # a click
        (of_sizes(60), True),  # all there is
        (ROOM_NOISE * 2 + of_sizes(60), True),
        (of_sizes(*[15] * 13), True),  # 6 kbit/s, as low as Opus goes
    ],
)
def test_speech_is_told_from_silence_by_the_size_of_packets(chunk: bytes, is_speech: bool) -> None:
    assert listen(chunk, LEVELS) == (measure(chunk)[1], is_speech)


def sine(hz: float, amplitude: float, seconds: float = 0.256) -> bytes:
    step = 2 * math.pi * hz / 16_000
    return array("h", (round(amplitude * math.sin(step * i)) for i in range(int(16_000 * seconds)))).tobytes()


@pytest.mark.parametrize(
    ("chunk", "is_speech"),
    [
        (bytes(8_192), False),
        (sine(200, 60), False),
        (sine(200, 400), True),
        (sine(500, 2_000), True),
        (sine(1_000, 2_000), True),
        (sine(16_000 / 17, 2_000), True),
        (sine(16_000 / 13, 2_000), True),
        (bytes(8_192) + sine(300, 3_000, 0.1) + bytes(300_000), True),  # a word in ten seconds of silence
        (b"\x01", True),  # too little to tell
    ],
)
def test_speech_is_told_from_silence_by_the_loudest_moment_of_pcm16(chunk: bytes, is_speech: bool) -> None:
    assert listen(chunk, LEVELS)[1] is is_speech


@pytest.mark.parametrize("chunk", [DIGITAL_SILENCE * 13, ROOM_NOISE + DIGITAL_SILENCE, bytes(640)])
def test_where_nothing_counts_as_silence_everything_is_speech(chunk: bytes) -> None:
    assert listen(chunk, SilenceLevels(0, 0))[1]


@given(st.binary(min_size=1, max_size=4_000))
def test_whatever_the_bytes_are_listening_measures_like_measuring(chunk: bytes) -> None:
    assert listen(chunk, LEVELS)[0] == measure(chunk)[1]
