"""Files to samples: every accepted format, and everything that is none."""

import builtins
import importlib
import io
import math
import wave
from typing import Any

import pytest

from lingua_scheduler.protocol.uploads import SoundFormat, sniff, wav_of
from lingua_scheduler.uploads.decoding import BadFile, NoLibrary, TooLong, joined, samples_of
from lingua_sdk import wav
from tests.support.sounds import COMPRESSED, compressed, sample_pcm16

LONG_ENOUGH_MS = 60_000


def wav_with(rate: int, channels: int, seconds: float) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as made:
        made.setnchannels(channels)
        made.setsampwidth(2)
        made.setframerate(rate)
        made.writeframes(b"\1\2" * channels * int(rate * seconds))
    return file.getvalue()


@pytest.mark.parametrize(("rate", "channels"), [(16_000, 1), (48_000, 2), (44_100, 1), (8_000, 1)])
def test_any_wav_becomes_what_nodes_read(rate: int, channels: int) -> None:
    samples = samples_of(wav_with(rate, channels, 1.0), SoundFormat.WAV, LONG_ENOUGH_MS)
    assert len(samples) == pytest.approx(32_000, abs=4)


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_compressed_file_sounds_as_long_and_as_loud_as_before(kind: str) -> None:
    before = sample_pcm16()
    file = compressed(kind, before)
    found = sniff(file)
    assert found == kind
    after = samples_of(file, found, LONG_ENOUGH_MS)
    assert len(after) == pytest.approx(len(before), abs=3_200)
    assert loudness(after) == pytest.approx(loudness(before), rel=0.2)


def test_an_mp4_file_of_a_phone_has_its_contents_at_its_end() -> None:
    before = sample_pcm16()
    after = samples_of(compressed("mp4", before, is_fragmented=False), SoundFormat.MP4, LONG_ENOUGH_MS)
    assert len(after) == pytest.approx(len(before), abs=3_200)


def loudness(pcm16: bytes) -> float:
    samples = memoryview(pcm16).cast("h")
    return math.sqrt(sum(sample * sample for sample in samples) / len(samples))


@pytest.mark.parametrize("kind", ["wav", *COMPRESSED])
def test_a_file_that_lasts_too_long_is_refused(kind: str) -> None:
    pcm16 = sample_pcm16()
    file = wav_of(pcm16) if kind == "wav" else compressed(kind, pcm16)
    with pytest.raises(TooLong):
        samples_of(file, SoundFormat(kind), 1_000)


def test_a_wav_that_claims_a_sample_a_second_is_too_long_before_it_is_converted() -> None:
    with pytest.raises(TooLong):
        samples_of(wav_with(1, 1, 100_000), SoundFormat.WAV, LONG_ENOUGH_MS)


def test_a_wav_that_is_too_long_is_not_converted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wav, "_samples", None)
    with pytest.raises(TooLong):
        samples_of(wav_with(48_000, 2, 61), SoundFormat.WAV, LONG_ENOUGH_MS)


def test_a_wav_that_claims_to_last_no_time_is_unreadable() -> None:
    with pytest.raises(BadFile, match="sample rate"):
        samples_of(wav_with(2**30, 1, 0.000_1), SoundFormat.WAV, LONG_ENOUGH_MS)


@pytest.mark.parametrize("kind", COMPRESSED)
def test_rubbish_behind_the_first_bytes_is_unreadable(kind: str) -> None:
    head = compressed(kind, sample_pcm16())[:16]
    with pytest.raises(BadFile):
        samples_of(head + b"\x55\xaa" * 20_000, SoundFormat(kind), LONG_ENOUGH_MS)


@pytest.mark.parametrize("kind", COMPRESSED)
def test_of_a_file_that_was_cut_off_the_beginning_counts(kind: str) -> None:
    file = compressed(kind, sample_pcm16())
    samples = samples_of(file[: len(file) // 2], SoundFormat(kind), LONG_ENOUGH_MS)
    assert 32_000 < len(samples) < len(sample_pcm16())


def test_a_wav_without_sound_is_unreadable() -> None:
    with pytest.raises(BadFile, match="contains no audio"):
        samples_of(b"RIFF\0\0\0\0WAVE", SoundFormat.WAV, LONG_ENOUGH_MS)


def test_without_the_library_compressed_files_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    for kind in COMPRESSED:
        with pytest.raises(NoLibrary):
            samples_of(b"OggS", SoundFormat(kind), LONG_ENOUGH_MS)


def test_files_that_name_other_files_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A playlist behind the first bytes of a WebM file: no other demuxer is tried, and nothing is opened."""
    pytest.importorskip("av")
    opened: list[Any] = []
    own = builtins.open

    def watched(*given: Any, **more: Any) -> Any:
        opened.append(given)
        return own(*given, **more)

    monkeypatch.setattr(builtins, "open", watched)
    playlist = b"#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:10.0,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
    for kind in COMPRESSED:
        with pytest.raises(BadFile):
            samples_of(playlist, SoundFormat(kind), LONG_ENOUGH_MS)
    assert not opened


def test_sounds_of_nodes_become_one_file() -> None:
    file = joined([("pcm16", b"\1\0" * 1_600), ("wav", wav_with(16_000, 1, 0.1))])
    assert len(wav.parse(file).samples) == 3_200 + 3_200
    with pytest.raises(BadFile):
        joined([("flac", b"x")])
