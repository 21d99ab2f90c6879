"""Speech in five languages with NanoTTS: clear voices (SVOX Pico) inside the wheel."""

import importlib
from collections.abc import Sequence
from typing import Any

from lingua_sdk.audio import Audio

VOICES = {"en": "en-US", "es": "es-ES", "fr": "fr-FR", "de": "de-DE", "it": "it-IT"}
# At its own volume it clips, and is 10 dB louder than the other voices.
VOLUME = 0.4
# It reads these as mark-up.
_PLAIN = str.maketrans({"<": " ", ">": " ", "\x00": " "})


class NanoTts:
    name = "nanotts"
    languages: Sequence[str] = tuple(VOICES)

    def __init__(self) -> None:
        self._voice: Any = importlib.import_module("py_nanotts").NanoTTS()

    def speak(self, text: str, language: str) -> Audio:
        return Audio(self._voice.speak(text.translate(_PLAIN), voice=VOICES[language], volume=VOLUME), 16_000)
