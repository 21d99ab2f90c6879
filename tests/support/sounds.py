"""Sound files of every accepted format, made of the recorded sample."""

import importlib
import io
from pathlib import Path
from typing import Any

import pytest

import lingua_scheduler
from lingua_scheduler.protocol.uploads import wav_of
from lingua_sdk import wav

SAMPLE = Path(lingua_scheduler.__file__).parent / "cli" / "assets" / "sample-en.wav"
# Format and codec, as PyAV names them.
COMPRESSED = {
    "webm": ("webm", "libopus"),
    "ogg": ("ogg", "libopus"),
    "mp3": ("mp3", "libmp3lame"),
    "mp4": ("mp4", "aac"),
}
# In fragments, as Safari records: without, the table of contents follows at the end of the file.
FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "500000"}


def sample_pcm16() -> bytes:
    """5.8 s of English: three sentences, with short pauses between them."""
    return wav.read(SAMPLE)


def a_minute() -> bytes:
    """Sentences with pauses of more than a second, a minute of them."""
    said = sample_pcm16() + b"\0\0" * 24_000
    return (said * 9)[: 60 * 32_000]


def compressed(kind: str, pcm16: bytes, *, is_fragmented: bool = True) -> bytes:
    """Skips the test where PyAV is missing."""
    try:
        av: Any = importlib.import_module("av")
    except ImportError:
        pytest.skip("PyAV is not installed: pip install 'lingua-scheduler[audio]'")
    name, codec = COMPRESSED[kind]
    target = io.BytesIO()
    options = FRAGMENTED if kind == "mp4" and is_fragmented else {}
    with (
        av.open(io.BytesIO(wav_of(pcm16)), format="wav") as source,
        av.open(target, "w", format=name, options=options) as file,
    ):
        stream = file.add_stream(codec, rate=48_000 if codec == "libopus" else 44_100, layout="mono")
        resampler = av.AudioResampler(format=stream.format, layout="mono", rate=stream.rate)
        frames = [made for frame in source.decode(audio=0) for made in resampler.resample(frame)]
        for frame in (*frames, *resampler.resample(None), None):
            file.mux(stream.encode(frame))
    return target.getvalue()
