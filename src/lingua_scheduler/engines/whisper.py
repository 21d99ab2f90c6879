"""Speech to text in a hundred languages with faster-whisper, from a model folder."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lingua_scheduler.engines.devices import Device, ctranslate2_device, shown
from lingua_sdk.audio import Audio
from lingua_sdk.engines import ShowPartial, to_nobody

# A first sentence sets the style: without it Chinese comes in either script, and without marks.
_STYLES = {"zh": "以下是普通话的句子。"}
SAMPLE_RATE = 16_000
# Faster than any speaker; a model caught in a loop would continue to its limit.
MAX_TOKENS_A_SECOND = 12


class Whisper:
    """`folder` is a Whisper model in the format of CTranslate2: model.bin, config.json, tokenizer.json, vocabulary."""

    name = "whisper"

    def __init__(self, folder: Path, device: Device = "auto", languages: Sequence[str] | None = None) -> None:
        package: Any = importlib.import_module("faster_whisper")
        used, numbers = ctranslate2_device(device)
        self.device = shown(used)
        # A name, or a folder without its tokenizer, would have the library fetch something from a hub.
        for needed in ("model.bin", "tokenizer.json"):
            if not (folder / needed).exists():
                raise FileNotFoundError(f"{folder} contains no {needed}")
        self._model: Any = package.WhisperModel(str(folder), device=used, compute_type=numbers, local_files_only=True)
        known: list[str] = self._model.supported_languages
        self.languages: Sequence[str] = tuple(code for code in known if languages is None or code in languages)

    def warm_up(self, slots: int) -> None:  # noqa: ARG002 - all threads share the model
        self.recognise(Audio(bytes(SAMPLE_RATE * 2), SAMPLE_RATE), self.languages[0], to_nobody)

    def recognise(self, audio: Audio, language: str, partial: ShowPartial) -> str:
        segments, _ = self._model.transcribe(
            _samples(audio),
            language=language,
            # Of a voice it does not understand it would try again and again, each time with more imagination.
            temperature=0.0,
            max_new_tokens=int(20 + MAX_TOKENS_A_SECOND * audio.seconds),
            # Silence is no speech; left to itself the model makes words of it.
            vad_filter=True,
            condition_on_previous_text=False,
            initial_prompt=_STYLES.get(language),
        )
        heard = ""
        for segment in segments:
            if heard:
                partial(heard)
            heard = f"{heard} {segment.text.strip()}".strip()
        return heard

    def identify(self, audio: Audio, languages: Sequence[str]) -> str:
        _, _, chances = self._model.detect_language(_samples(audio))
        likely = dict(chances)
        return max(languages, key=lambda language: likely.get(language, 0.0))


def _samples(audio: Audio) -> Any:
    numpy: Any = importlib.import_module("numpy")
    return numpy.frombuffer(audio.at(SAMPLE_RATE).samples, "<i2").astype(numpy.float32) / 32_768
