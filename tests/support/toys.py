"""Small engines of each kind, and jobs to give them."""

from collections.abc import Callable, Sequence
from typing import Any

from lingua_sdk.audio import Audio
from lingua_sdk.engines import ShowPartial
from lingua_sdk.protocol.node import JobAssign
from lingua_sdk.protocol.shapes import JobPipeline

ALL_STAGES = {"use_asr": True, "use_nmt": True, "use_tts": True, "use_semantic": True, "use_tone": False}


class Ears:
    """Hears what the test says, and remembers what it was given."""

    def __init__(self, *languages: str, heard: str = "um hello", work: Callable[[], object] = lambda: None) -> None:
        self.languages: Sequence[str] = languages or ("en",)
        self.heard = heard
        self.work = work
        self.given: list[tuple[Audio, str]] = []

    def recognise(self, audio: Audio, language: str, partial: ShowPartial) -> str:
        self.given.append((audio, language))
        partial(self.heard[:2])
        self.work()
        return self.heard


class Knowing(Ears):
    """Also tells languages apart: it always hears the same one."""

    def __init__(self, *languages: str, hears: str, **more: Any) -> None:
        super().__init__(*languages, **more)
        self.hears = hears
        self.asked: list[Sequence[str]] = []

    def identify(self, audio: Audio, languages: Sequence[str]) -> str:
        self.asked.append(languages)
        return self.hears


class Mending:
    def __init__(self, *languages: str) -> None:
        self.languages: Sequence[str] = languages or ("en",)

    def repair(self, text: str, language: str) -> str:
        return text.removeprefix("um ")


class Mind:
    def __init__(self, *pairs: tuple[str, str]) -> None:
        self.pairs: Sequence[tuple[str, str]] = pairs or (("en", "zh"),)

    async def translate(self, text: str, source: str, target: str) -> str:
        return f"{text} [{source}>{target}]"


class Voice:
    def __init__(self, *languages: str, rate: int = 16_000) -> None:
        self.languages: Sequence[str] = languages or ("zh",)
        self.rate = rate
        self.said: list[tuple[str, str]] = []

    def speak(self, text: str, language: str) -> Audio:
        self.said.append((text, language))
        return Audio(b"\x01\x00" * self.rate, self.rate)


def job(**fields: Any) -> JobAssign:
    """From English to Chinese, a second of silence, every stage."""
    known: dict[str, Any] = {
        "job_id": "job-0-1",
        "attempt_id": 1,
        "session_id": "s-1",
        "utterance_index": 0,
        "src_lang": "en",
        "tgt_lang": "zh",
        "pipeline": JobPipeline(**ALL_STAGES | fields.pop("pipeline", {})),
        "audio": bytes(32_000),
        "audio_format": "pcm16",
        "sample_rate": 16_000,
        "enable_streaming_asr": False,
        "partial_update_interval_ms": 0,
        "trace_id": "t",
        "turn_id": "turn-1",
    }
    return JobAssign(**known | fields)
