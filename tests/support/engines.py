"""Real speech engines in tests: had, or a reason why not; and how to look at what they make."""

import importlib
import importlib.util
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.cli.speech.engines import shelf
from lingua_sdk.audio import Audio, from_little_endian


def loaded(module: str, kind: str, package: str, *arguments: Any) -> Any:
    """An engine of ours, or a skip where its package is not installed."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (make speech)")
    return getattr(importlib.import_module(f"lingua_scheduler.engines.{module}"), kind)(*arguments)


def fetched(name: str) -> Path:
    """A model that somebody has fetched on this machine; TEST_MODELS names the folder if it is another."""
    named = os.environ.get("TEST_MODELS")
    folder = shelf(Path(named) if named else None).find(name)
    if folder is None:
        pytest.skip(f"the model {name} was not fetched (lingua models get {name})")
    return folder


def loudness(audio: Audio) -> float:
    """Root mean square of the samples; a voice has thousands, silence none."""
    samples = from_little_endian(audio.samples)
    return math.sqrt(sum(sample * sample for sample in samples) / max(1, len(samples)))


def words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())


def word_errors(said: str, heard: str) -> int:
    """Words that must be put in, taken out or changed to make one of the other."""
    left, right = words(said), words(heard)
    row = list(range(len(right) + 1))
    for i, word in enumerate(left, 1):
        above, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (word != other))
    return row[-1]


# Words that every few sentences have, and the other languages here have not.
_STOP_WORDS = {
    "en": {"the", "is", "of", "and", "my", "where", "would", "please", "with", "you", "at"},
    "pt": {"é", "não", "você", "uma", "com", "meu", "minha", "às", "ele", "o", "eu", "do", "da", "onde", "em", "no"},
    "es": {"el", "la", "es", "una", "con", "mi", "las", "él", "yo", "del", "donde", "en", "los", "usted"},
}


def likely_language(text: str) -> str:
    found = words(text)
    return max(_STOP_WORDS, key=lambda language: sum(word in _STOP_WORDS[language] for word in found))
