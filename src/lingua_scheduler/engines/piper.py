"""Speech with Piper voices: natural, in about forty languages; each voice is a file one brings."""

import importlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lingua_scheduler.engines.devices import Device, shown
from lingua_sdk.audio import Audio


class Piper:
    """`voices` are `.onnx` files with their `.onnx.json` beside them; its language is the one the voice names."""

    name = "piper"

    def __init__(self, voices: Sequence[Path], device: Device = "auto") -> None:
        package: Any = importlib.import_module("piper")
        runtime: Any = importlib.import_module("onnxruntime")
        has_gpu = "CUDAExecutionProvider" in runtime.get_available_providers()
        uses_gpu = device == "cuda" or (device == "auto" and has_gpu)
        self.device = shown("cuda" if uses_gpu else "cpu")
        self._voices = {_language(path): package.PiperVoice.load(path, use_cuda=uses_gpu) for path in voices}
        self._speaking = {language: threading.Lock() for language in self._voices}
        self.languages: Sequence[str] = tuple(self._voices)

    def speak(self, text: str, language: str) -> Audio:
        with self._speaking[language]:
            chunks = list(self._voices[language].synthesize(text))
        if not chunks:
            return Audio(b"")
        return Audio(b"".join(chunk.audio_int16_bytes for chunk in chunks), chunks[0].sample_rate)


def _language(voice: Path) -> str:
    config = json.loads(voice.with_name(f"{voice.name}.json").read_text("utf-8"))
    named = config.get("language", {}).get("code") or config["espeak"]["voice"]
    return str(named).replace("_", "-").split("-")[0].lower()
