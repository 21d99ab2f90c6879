"""Argos models (CTranslate2 and SentencePiece), one direction each, such as Chinese to English."""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lingua_scheduler.engines.devices import Device, ctranslate2_device, shown
from lingua_scheduler.engines.sentences import joined, sentences

BEAM_SIZE = 4
MAX_PIECES = 256


class Argos:
    """`folders` are unpacked `.argosmodel` files: metadata.json, sentencepiece.model and model/."""

    name = "argos"

    def __init__(self, folders: Sequence[Path], device: Device = "auto") -> None:
        used, numbers = ctranslate2_device(device)
        self.device = shown(used)
        self._models = dict(_opened(folder, used, numbers) for folder in folders)
        self.pairs: Sequence[tuple[str, str]] = tuple(self._models)

    def translate(self, text: str, source: str, target: str) -> str:
        pieces, model = self._models[source, target]
        parts = [pieces.encode(part, out_type=str) for part in sentences(text)]
        if not parts:
            return ""
        made = model.translate_batch(
            parts,
            beam_size=BEAM_SIZE,
            max_decoding_length=MAX_PIECES,
            max_input_length=MAX_PIECES,
            replace_unknowns=True,
        )
        return " ".join(joined(result.hypotheses[0]) for result in made)


def _opened(folder: Path, device: str, numbers: str) -> tuple[tuple[str, str], tuple[Any, Any]]:
    metadata = json.loads((folder / "metadata.json").read_text("utf-8"))
    pieces: Any = importlib.import_module("sentencepiece")
    package: Any = importlib.import_module("ctranslate2")
    return (metadata["from_code"], metadata["to_code"]), (
        pieces.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model")),
        package.Translator(str(folder / "model"), device=device, compute_type=numbers),
    )
