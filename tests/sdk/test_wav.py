"""Sound files: whatever their shape, 16 kHz mono PCM16 comes out, as long and as high as it went in."""

import math
import struct
import wave
from array import array
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lingua_sdk import wav
from lingua_sdk.audio import SAMPLE_RATE, resampled
from lingua_sdk.wav import BadSound


def tone(frequency: float, seconds: float, rate: int, amplitude: float = 0.5) -> list[float]:
    return [amplitude * math.sin(2 * math.pi * frequency * i / rate) for i in range(int(seconds * rate))]


def packed(samples: list[float], width: int) -> bytes:
    """Samples from -1 to 1 as a WAV file holds them."""
    if width == 1:
        return bytes(int(128 + sample * 127) for sample in samples)
    scale = 2 ** (8 * width - 1) - 1
    return b"".join(int(sample * scale).to_bytes(width, "little", signed=True) for sample in samples)


def saved(path: Path, frames: bytes, *, width: int = 2, channels: int = 1, rate: int = SAMPLE_RATE) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setsampwidth(width)
        file.setnchannels(channels)
        file.setframerate(rate)
        file.writeframes(frames)
    return path


def samples_of(pcm16: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(pcm16) // 2}h", pcm16))


def frequency_of(samples: list[int]) -> float:
    upward = [i for i, (before, after) in enumerate(pairwise(samples)) if before < 0 <= after]
    return (len(upward) - 1) / (upward[-1] - upward[0]) * SAMPLE_RATE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "speech.wav"


# What is ours already


@given(st.binary(max_size=400).filter(lambda data: len(data) % 2 == 0))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_written_is_read_back_byte_for_byte(tmp_path: Path, pcm16: bytes) -> None:
    path = tmp_path / "speech.wav"
    wav.write(path, pcm16)
    assert wav.read(path) == pcm16


def test_a_written_file_is_16_khz_mono_pcm16(path: Path) -> None:
    wav.write(path, bytes(SAMPLE_RATE))
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        assert file.getnframes() / file.getframerate() == 0.5


def test_a_path_may_be_a_text(path: Path) -> None:
    wav.write(str(path), bytes(100))
    assert wav.read(str(path)) == bytes(100)


# Widths


@pytest.mark.parametrize(("width", "tolerance"), [(1, 512), (2, 0), (3, 2), (4, 2)])
def test_every_width_becomes_16_bits(path: Path, width: int, tolerance: int) -> None:
    wanted = [0.0, 0.25, -0.25, 0.5, -0.5, 0.99, -0.99]
    read = samples_of(wav.read(saved(path, packed(wanted, width), width=width)))
    assert len(read) == len(wanted)
    for sample, expected in zip(read, samples_of(packed(wanted, 2)), strict=True):
        assert abs(sample - expected) <= tolerance


def test_the_extremes_of_every_width_stay_in_range(path: Path) -> None:
    extremes = {
        1: b"\x00\xff",
        2: b"\x00\x80\xff\x7f",
        3: b"\x00\x00\x80\xff\xff\x7f",
        4: b"\x00\x00\x00\x80\xff\xff\xff\x7f",
    }
    for width, frames in extremes.items():
        lowest, highest = samples_of(wav.read(saved(path, frames, width=width)))
        assert lowest == -32_768
        assert highest >= 32_512


# Channels


def test_two_channels_are_mixed(path: Path) -> None:
    frames = struct.pack("<6h", 1000, 3000, -1000, -3000, 32_767, 32_767)
    assert samples_of(wav.read(saved(path, frames, channels=2))) == [2000, -2000, 32_767]


def test_more_channels_are_mixed_too(path: Path) -> None:
    frames = struct.pack("<6h", 100, 200, 300, -100, -200, -300)
    assert samples_of(wav.read(saved(path, frames, channels=3))) == [200, -200]


# Rates


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000])
def test_a_second_stays_a_second_and_a_tone_keeps_its_frequency(path: Path, rate: int) -> None:
    read = samples_of(wav.read(saved(path, packed(tone(440, 1.0, rate), 2), rate=rate)))
    assert len(read) == SAMPLE_RATE
    assert math.isclose(frequency_of(read), 440, rel_tol=0.002)
    assert max(read) == pytest.approx(0.5 * 32_767, rel=0.05)


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
@pytest.mark.parametrize("width", [1, 3])
def test_width_channels_and_rate_may_all_differ_at_once(path: Path, rate: int, width: int) -> None:
    left_and_right = [sample for sample in tone(300, 0.5, rate) for _ in range(2)]
    read = samples_of(wav.read(saved(path, packed(left_and_right, width), width=width, channels=2, rate=rate)))
    assert len(read) == SAMPLE_RATE // 2
    assert math.isclose(frequency_of(read), 300, rel_tol=0.005)


def test_what_is_too_high_to_be_heard_afterwards_is_weakened_and_not_folded_down_at_full_strength(path: Path) -> None:
    # 15 kHz at 48 kHz would come out as a loud 1 kHz if samples were simply left out.
    read = samples_of(wav.read(saved(path, packed(tone(15_000, 0.5, 48_000), 2), rate=48_000)))
    assert max(read[100:]) < 0.2 * 32_767


@pytest.mark.parametrize(
    ("rate", "before", "after"),
    [
        (8_000, [0, 1000, 2000], [0, 500, 1000, 1500, 2000, 2000]),  # the middle between two, the last one held
        (32_000, [0, 100, 200, 300], [0, 150]),  # the mean of what one sample stands for
        (24_000, [600, 600, 600], [600, 600]),
    ],
)
def test_between_two_samples_lies_a_straight_line(path: Path, rate: int, before: list[int], after: list[int]) -> None:
    frames = struct.pack(f"<{len(before)}h", *before)
    assert samples_of(wav.read(saved(path, frames, rate=rate))) == after


@given(st.integers(0, 5000), st.sampled_from([8_000, 11_025, 22_050, 44_100, 48_000]))
def test_the_duration_is_kept_to_the_sample(count: int, rate: int) -> None:
    assert len(resampled(array("h", [0]) * count, rate)) == count * SAMPLE_RATE // rate


# Other forms


@pytest.mark.parametrize(("bits", "code"), [(32, "f"), (64, "d")])
def test_floating_point_is_read_and_what_is_too_loud_is_clipped(path: Path, bits: int, code: str) -> None:
    data = struct.pack(f"<6{code}", 0.0, 0.5, -0.5, 1.0, 2.5, -7.0)
    path.write_bytes(header(audio_format=3, bits=bits, data=data))
    assert samples_of(wav.read(path)) == [0, 16_383, -16_383, 32_767, 32_767, -32_767]


@pytest.mark.parametrize(("kind", "bits", "data"), [(1, 24, b"\x00\x00\x40"), (3, 32, struct.pack("<f", 0.5))])
def test_the_extended_form_that_studios_write_is_read(path: Path, kind: int, bits: int, data: bytes) -> None:
    guid = struct.pack("<H", kind) + b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"
    extension = struct.pack("<HHI", 22, bits, 4) + guid
    path.write_bytes(header(audio_format=0xFFFE, bits=bits, data=data * 8, extension=extension))
    assert {round(sample, -2) for sample in samples_of(wav.read(path))} == {16_400}


def test_chunks_that_are_not_sound_are_passed_over(path: Path) -> None:
    remark = b"LIST" + struct.pack("<I", 3) + b"abc" + b"\x00"  # odd, hence padded
    path.write_bytes(header(data=b"\x01\x00" * 4).replace(b"data", remark + b"data"))
    assert samples_of(wav.read(path)) == [1] * 4


def test_a_pipe_that_did_not_know_its_length_is_read_to_its_end(path: Path) -> None:
    known = b"data" + struct.pack("<I", 8)
    path.write_bytes(header(data=b"\x01\x00" * 4).replace(known, b"data\xff\xff\xff\xff"))
    assert samples_of(wav.read(path)) == [1] * 4


# Odd files


def test_a_file_without_sound_is_silence_without_length(path: Path) -> None:
    for rate in (8_000, 16_000, 48_000):
        assert wav.read(saved(path, b"", rate=rate)) == b""


def test_a_file_that_ends_early_is_read_as_far_as_it_goes(path: Path) -> None:
    saved(path, packed([0.1] * 100, 2))
    path.write_bytes(path.read_bytes()[:-101])  # in the middle of a sample
    assert len(samples_of(wav.read(path))) in (49, 50)


@pytest.mark.parametrize(("width", "channels"), [(3, 1), (2, 2), (3, 2)])
def test_a_file_that_ends_in_the_middle_of_a_frame_is_read(path: Path, width: int, channels: int) -> None:
    saved(path, packed([0.1] * 100, width), width=width, channels=channels)
    path.write_bytes(path.read_bytes()[:-1])
    assert abs(len(samples_of(wav.read(path))) - 100 // channels) <= 1


def header(
    *,
    audio_format: int = 1,
    channels: int = 1,
    rate: int = SAMPLE_RATE,
    bits: int = 16,
    data: bytes = b"",
    extension: bytes = b"",
) -> bytes:
    fmt = struct.pack("<HHIIHH", audio_format, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
    fmt += extension
    chunks = b"fmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"RIFF",
        b"not a sound at all",
        b"\x00" * 1000,
        b"ID3\x03mp3 in disguise",
        header()[:30],
        header(audio_format=6, bits=8, data=bytes(8)),  # a telephone's packing
        header(audio_format=3, bits=16, data=bytes(8)),  # half a floating-point number
        header().replace(b"data", b"LIST"),
        header(channels=0),
        header(bits=0),
        pytest.param(
            header(rate=0, data=bytes(8)),
        ),
    ],
    ids=[
        *("empty", "cut", "text", "zeros", "mp3", "half a header", "a-law", "half", "no sound"),
        *("no channels", "no bits", "no rate"),
    ],
)
def test_what_is_no_sound_we_can_read_is_said_so(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(BadSound, match="is not a supported WAV file"):
        wav.read(path)


def test_a_file_that_is_not_there_is_said_so(path: Path) -> None:
    with pytest.raises(BadSound, match="cannot be opened: No such file"):
        wav.read(path)


def test_a_folder_is_no_sound(tmp_path: Path) -> None:
    with pytest.raises(BadSound, match="cannot be opened: Is a directory"):
        wav.read(tmp_path)
