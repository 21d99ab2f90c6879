"""English speech with Hibari: a natural voice, its model is inside the wheel."""

import importlib
import threading
from collections.abc import Sequence
from typing import Any

from lingua_scheduler.engines.sound import pcm16
from lingua_sdk.audio import Audio


class Hibari:
    name = "hibari"
    languages: Sequence[str] = ("en",)

    def __init__(self) -> None:
        package: Any = importlib.import_module("hibari")
        self._sample_rate: int = package.SAMPLE_RATE
        self._voice: Any = package.Hibari()
        self._speaking = threading.Lock()

    def speak(self, text: str, language: str) -> Audio:  # noqa: ARG002 - there is only one
        # Brackets would be read as a spelling of sounds.
        with self._speaking:
            spoken = self._voice(text.replace("[", " ").replace("]", " "))
        return Audio(pcm16(spoken.tolist()), self._sample_rate)
