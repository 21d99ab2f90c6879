"""Speech in the one form that existing browser pages play in a room: PCM16, 16 kHz, mono."""

import asyncio
import binascii

import msgspec
import pybase64

from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.protocol import opus
from lingua_sdk.protocol.audio import opus_packets
from lingua_sdk.protocol.session import TranslationResult

_log = logs.get()

PCM16 = "pcm16"
# Decoded speech of a minute; more is not sent to these pages.
_MAX_BYTES = 60 * opus.SAMPLE_RATE * 2


async def playable(result: TranslationResult) -> TranslationResult:
    """The result with speech that the page plays; without, if it cannot be had: other bytes would be loud noise.

    Decoding takes milliseconds, so it is done in a thread.
    """
    if not result.tts_audio:
        return msgspec.structs.replace(result, tts_format=PCM16)
    try:
        speech = await asyncio.to_thread(_pcm16, result.tts_audio, result.tts_format)
    except (opus.NoOpus, opus.BadOpus, binascii.Error, ValueError) as error:
        metrics.ROOM_SPEECH_LOST.inc()
        _log.warning("room.speech_not_playable", job_id=result.job_id, tts_format=result.tts_format, error=str(error))
        speech = ""
    return msgspec.structs.replace(result, tts_audio=speech, tts_format=PCM16)


def _pcm16(tts_audio: str, tts_format: str) -> str:
    """Raises NoOpus, BadOpus, ValueError."""
    sound = pybase64.b64decode(tts_audio, validate=True)
    if tts_format == "opus" and opus_packets(sound) is not None:
        samples = opus.samples_of(sound)
    elif tts_format in (PCM16, "opus"):
        # A node may send PCM16 and call it Opus.
        samples = sound[: len(sound) // 2 * 2]
    else:
        raise ValueError(f"speech in the format {tts_format[:32]!r} cannot be converted")
    if len(samples) > _MAX_BYTES:
        raise ValueError("the speech lasts more than a minute")
    return pybase64.b64encode_as_string(samples)
