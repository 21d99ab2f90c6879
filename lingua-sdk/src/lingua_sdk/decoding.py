"""Decodes the audio of a job: framed Opus, raw PCM16 or a WAV file."""

from lingua_sdk import wav
from lingua_sdk.audio import Audio
from lingua_sdk.protocol import opus
from lingua_sdk.protocol.audio import opus_packets


class CannotDecode(Exception):
    """The sound is in a form that cannot be read here; the message says what would help."""


class NoDecoder(CannotDecode):
    """A library is missing."""


def decode(sound: bytes, audio_format: str, sample_rate: int) -> Audio:
    """The audio of a job; raises CannotDecode."""
    match audio_format:
        case "opus" if opus_packets(sound) is not None:
            return _opus(sound)
        # A client may send PCM16 although Opus was agreed on.
        case "pcm16" | "opus":
            return Audio(sound[: len(sound) // 2 * 2], sample_rate)
        case "wav":
            try:
                return wav.parse(sound)
            except wav.BadSound as error:
                raise CannotDecode(f"the audio is not a WAV file: {error}") from None
        case _:
            raise CannotDecode(f"unsupported audio format {audio_format[:32]!r}; send opus, pcm16 or wav")


def _opus(sound: bytes) -> Audio:
    try:
        return Audio(opus.samples_of(sound), opus.SAMPLE_RATE)
    except opus.NoOpus as error:
        raise NoDecoder(str(error)) from error
    except opus.BadOpus as error:
        raise CannotDecode(str(error)) from error
