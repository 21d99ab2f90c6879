"""Many languages with one model: NLLB-200 or M2M100 in the format of CTranslate2, from a model folder."""

import importlib
import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from lingua_scheduler.engines.devices import Device, ctranslate2_device, shown
from lingua_scheduler.engines.sentences import joined, sentences

BEAM_SIZE = 2
MAX_PIECES = 256
# What NLLB calls the languages that people ask for most.
NLLB_CODES = {
    "ar": "arb_Arab",
    "bn": "ben_Beng",
    "ca": "cat_Latn",
    "cs": "ces_Latn",
    "de": "deu_Latn",
    "el": "ell_Grek",
    "en": "eng_Latn",
    "es": "spa_Latn",
    "fa": "pes_Arab",
    "fi": "fin_Latn",
    "fr": "fra_Latn",
    "he": "heb_Hebr",
    "hi": "hin_Deva",
    "id": "ind_Latn",
    "it": "ita_Latn",
    "ja": "jpn_Jpan",
    "ko": "kor_Hang",
    "nl": "nld_Latn",
    "pl": "pol_Latn",
    "pt": "por_Latn",
    "ro": "ron_Latn",
    "ru": "rus_Cyrl",
    "sv": "swe_Latn",
    "th": "tha_Thai",
    "tr": "tur_Latn",
    "uk": "ukr_Cyrl",
    "vi": "vie_Latn",
    "zh": "zho_Hans",
}
# Pairs are tried before a node takes work: these make 132. Others are asked for by name.
USUAL = ("ar", "de", "en", "es", "fr", "hi", "it", "ja", "ko", "pt", "ru", "zh")


class Nllb:
    """`folder` holds model.bin, config.json, shared_vocabulary.json and the SentencePiece model it was trained with."""

    name = "nllb"

    def __init__(self, folder: Path, device: Device = "auto", languages: Sequence[str] | None = None) -> None:
        vocabulary = set(json.loads((folder / "shared_vocabulary.json").read_text("utf-8")))
        # Which of the two it is shows in how its vocabulary marks a language.
        marks = NLLB_CODES if "eng_Latn" in vocabulary else {code: f"__{code}__" for code in NLLB_CODES}
        self._marks = {
            code: mark for code, mark in marks.items() if mark in vocabulary and code in (languages or USUAL)
        }
        if len(self._marks) < 2:
            raise ValueError(f"{folder} is not an NLLB or M2M100 model for at least two of these languages")
        self.pairs: Sequence[tuple[str, str]] = tuple(permutations(self._marks, 2))
        used, numbers = ctranslate2_device(device)
        self.device = shown(used)
        pieces: Any = importlib.import_module("sentencepiece")
        self._pieces: Any = pieces.SentencePieceProcessor(model_file=str(_sentencepiece(folder)))
        package: Any = importlib.import_module("ctranslate2")
        self._model: Any = package.Translator(str(folder), device=used, compute_type=numbers)

    def translate(self, text: str, source: str, target: str) -> str:
        parts = [[self._marks[source], *self._pieces.encode(part, out_type=str), "</s>"] for part in sentences(text)]
        if not parts:
            return ""
        made = self._model.translate_batch(
            parts,
            target_prefix=[[self._marks[target]]] * len(parts),
            beam_size=BEAM_SIZE,
            max_decoding_length=MAX_PIECES,
            max_input_length=MAX_PIECES,
        )
        # The first piece is the mark of the language.
        return " ".join(joined(result.hypotheses[0][1:]) for result in made)


def _sentencepiece(folder: Path) -> Path:
    for name in ("sentencepiece.bpe.model", "sentencepiece.model", "spm.128k.model"):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{folder} contains no sentencepiece.bpe.model; copy it from the original model")
