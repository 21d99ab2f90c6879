"""Sound files to samples and back: WAV by itself, compressed formats with PyAV if it is installed."""

import importlib
import io
from typing import Any

from lingua_scheduler.protocol.uploads import SAMPLE_RATE, SoundFormat, wav_of
from lingua_sdk import wav
from lingua_sdk.decoding import CannotDecode, decode

# The name of FFmpeg's demuxer, so that no other one is tried: some of them open further files and addresses.
_DEMUXERS = {SoundFormat.OGG: "ogg", SoundFormat.WEBM: "matroska", SoundFormat.MP3: "mp3", SoundFormat.MP4: "mov"}
_CODECS = ("opus", "vorbis", "mp3", "mp3float", "aac")
_TOGETHER_S = 5
_BYTES_A_MS = SAMPLE_RATE * 2 // 1000


class TooLong(Exception):
    """The sound lasts longer than allowed."""


class NoLibrary(Exception):
    """PyAV is not installed."""


class BadFile(Exception):
    """The file is not what its first bytes promise; the message says why."""


def samples_of(sound: bytes, sound_format: SoundFormat, max_ms: int) -> bytes:
    """PCM16, 16 kHz, mono. Raises TooLong, NoLibrary, BadFile."""
    if sound_format is SoundFormat.WAV:
        return _wav(sound, max_ms)
    return _compressed(sound, sound_format, max_ms)


def joined(sounds: list[tuple[str, bytes]]) -> bytes:
    """One WAV file. Raises BadFile."""
    try:
        return wav_of(b"".join(decode(sound, name, SAMPLE_RATE).at(SAMPLE_RATE).samples for name, sound in sounds))
    except CannotDecode as error:
        raise BadFile(str(error)) from None


def _wav(sound: bytes, max_ms: int) -> bytes:
    try:
        if wav.seconds_of(sound) * 1000 > max_ms:
            raise TooLong
        audio = wav.parse(sound)
    except wav.BadSound as error:
        raise BadFile(f"the WAV file cannot be read: {error}") from None
    # In parts: converting takes many times the memory of what is converted.
    size = _TOGETHER_S * 2 * audio.sample_rate
    parts = (audio.samples[at : at + size] for at in range(0, len(audio.samples), size))
    return b"".join(audio._replace(samples=part).at(SAMPLE_RATE).samples for part in parts)


def _compressed(sound: bytes, sound_format: SoundFormat, max_ms: int) -> bytes:
    try:
        av: Any = importlib.import_module("av")
    except ImportError:
        raise NoLibrary from None
    found = bytearray()
    try:
        with av.open(io.BytesIO(sound), format=_DEMUXERS[sound_format], metadata_errors="ignore") as container:
            if not container.streams.audio:
                raise BadFile(f"the {sound_format} file has no audio")
            stream = container.streams.audio[0]
            if stream.codec_context.name not in _CODECS:
                raise BadFile(
                    f"the {sound_format} file has the codec {stream.codec_context.name}; send Opus, MP3 or AAC"
                )
            resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
            for frame in container.decode(stream):
                _add(found, resampler.resample(frame), max_ms)
            _add(found, resampler.resample(None), max_ms)
    except av.FFmpegError as error:
        if not found:
            raise BadFile(f"the {sound_format} file cannot be decoded: {error.strerror}") from None
        # Cut off, or damaged at its end: what was heard before it counts.
    if not found:
        raise BadFile(f"the {sound_format} file has no audio")
    return bytes(found)


def _add(found: bytearray, frames: Any, max_ms: int) -> None:
    for frame in frames:
        found += memoryview(frame.planes[0])[: 2 * frame.samples]
        if len(found) > max_ms * _BYTES_A_MS:
            raise TooLong
