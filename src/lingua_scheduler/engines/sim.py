"""A simulated engine: honest about it, real in everything a scheduler can see."""

import asyncio
import math
import re
from array import array
from collections.abc import Callable

from lingua_sdk.node import JobOutput
from lingua_sdk.protocol import audio
from lingua_sdk.protocol.node import JobAssign

LANGUAGES = ("en", "zh", "es", "pt", "fr", "de", "ja")
SAMPLE_RATE = 16_000
# Of the time of a job: recognition, translation, speech.
_SHARES = (0.6, 0.15, 0.25)

_HEARD = {
    "en": "(simulated) I heard {seconds:.1f} seconds of speech.",
    "zh": "（模拟）我听到了 {seconds:.1f} 秒的语音。",
    "es": "(simulado) Escuché {seconds:.1f} segundos de voz.",
    "pt": "(simulado) Ouvi {seconds:.1f} segundos de voz.",
    "fr": "(simulé) J'ai entendu {seconds:.1f} secondes de parole.",
    "de": "(simuliert) Ich habe {seconds:.1f} Sekunden Sprache gehört.",
    "ja": "（模擬）{seconds:.1f} 秒の音声を聞きました。",
}
_KNOWN = [
    re.compile(re.escape(sentence).replace(re.escape("{seconds:.1f}"), r"(\d{1,9}\.\d)"))
    for sentence in _HEARD.values()
]


class SimEngine:
    """Understands nothing: it measures the audio, takes its time, and says so in the target language."""

    name = "sim"

    def __init__(self, base_ms: float = 120, per_second_ms: float = 60) -> None:
        self._base_ms = base_ms
        self._per_second_ms = per_second_ms

    async def translate(self, job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        if job.text_input is not None:
            return await self._from_text(job, job.text_input)
        seconds = audio.duration_ms(job.audio, audio.detect_format(job.audio), job.sample_rate) / 1000
        source = job.src_lang if job.src_lang in _HEARD else job.lang_a or "en"
        heard = _HEARD.get(source, _HEARD["en"]).format(seconds=seconds)
        if job.enable_streaming_asr:
            partial(heard[: len(heard) // 2])
        await asyncio.sleep((self._stages_ms(job) + self._per_second_ms * seconds) / 1000)
        target = job.tgt_lang if job.tgt_lang in _HEARD else job.lang_b or "en"
        said = _HEARD.get(target, _HEARD["en"]).format(seconds=seconds)
        speech = _hum(min(seconds, 3.0)) if job.pipeline.use_tts else b""
        return JobOutput(heard, said if job.pipeline.use_nmt else "", speech)

    async def _from_text(self, job: JobAssign, text: str) -> JobOutput:
        """What an engine of its kind heard, it says in the target language. Any other text is marked with that."""
        await asyncio.sleep(self._stages_ms(job) / 1000)
        said = _translated(text, job) if job.pipeline.use_nmt else ""
        return JobOutput(text, said, _hum(1.0) if job.pipeline.use_tts else b"")

    def _stages_ms(self, job: JobAssign) -> float:
        wanted = job.pipeline
        stages = zip(_SHARES, (wanted.use_asr, wanted.use_nmt, wanted.use_tts), strict=True)
        return self._base_ms * sum(share for share, is_wanted in stages if is_wanted)


def _translated(text: str, job: JobAssign) -> str:
    found = next(filter(None, (known.fullmatch(text) for known in _KNOWN)), None)
    if found is not None and job.tgt_lang in _HEARD:
        return _HEARD[job.tgt_lang].format(seconds=float(found[1]))
    # What was translated before has the mark of that translation, and needs one mark only.
    return f"({job.tgt_lang}) {text.removeprefix(f'({job.src_lang}) ')}"


def _hum(seconds: float) -> bytes:
    """A soft tone of the right length stands in for a voice."""
    samples = array(
        "h", (int(4000 * math.sin(i * 2 * math.pi * 220 / SAMPLE_RATE)) for i in range(int(seconds * SAMPLE_RATE)))
    )
    return samples.tobytes()
