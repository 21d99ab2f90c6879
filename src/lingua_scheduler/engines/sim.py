"""A simulated engine: honest about it, real in everything a scheduler can see."""

import asyncio
import math
from array import array
from collections.abc import Callable

from lingua_scheduler.protocol import audio
from lingua_scheduler.protocol.node import JobAssign
from lingua_scheduler.sdk.node import Translation

LANGUAGES = ("en", "zh", "es", "pt", "fr", "de", "ja")
SAMPLE_RATE = 16_000

_HEARD = {
    "en": "(simulated) I heard {seconds:.1f} seconds of speech.",
    "zh": "（模拟）我听到了 {seconds:.1f} 秒的语音。",
    "es": "(simulado) Escuché {seconds:.1f} segundos de voz.",
    "pt": "(simulado) Ouvi {seconds:.1f} segundos de voz.",
    "fr": "(simulé) J'ai entendu {seconds:.1f} secondes de parole.",
    "de": "(simuliert) Ich habe {seconds:.1f} Sekunden Sprache gehört.",
    "ja": "（模擬）{seconds:.1f} 秒の音声を聞きました。",
}


class SimEngine:
    """Understands nothing: it measures the audio, takes its time, and says so in the target language."""

    name = "sim"

    def __init__(self, base_ms: float = 120, per_second_ms: float = 60) -> None:
        self._base_ms = base_ms
        self._per_second_ms = per_second_ms

    async def translate(self, job: JobAssign, partial: Callable[[str], None]) -> Translation:
        seconds = audio.duration_ms(job.audio, audio.detect_format(job.audio), job.sample_rate) / 1000
        source = job.src_lang if job.src_lang in _HEARD else job.lang_a or "en"
        heard = _HEARD.get(source, _HEARD["en"]).format(seconds=seconds)
        if job.enable_streaming_asr:
            partial(heard[: len(heard) // 2])
        await asyncio.sleep((self._base_ms + self._per_second_ms * seconds) / 1000)
        target = job.tgt_lang if job.tgt_lang in _HEARD else job.lang_b or "en"
        said = _HEARD.get(target, _HEARD["en"]).format(seconds=seconds)
        speech = _hum(min(seconds, 3.0)) if job.pipeline.use_tts else b""
        return Translation(heard, said if job.pipeline.use_nmt else "", speech)


def _hum(seconds: float) -> bytes:
    """A soft tone of the right length stands in for a voice."""
    samples = array(
        "h", (int(4000 * math.sin(i * 2 * math.pi * 220 / SAMPLE_RATE)) for i in range(int(seconds * SAMPLE_RATE)))
    )
    return samples.tobytes()
