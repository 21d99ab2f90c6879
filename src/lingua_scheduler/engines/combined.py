"""Several engines of a kind as one: the first that knows the language does the work, the next when it fails.

What the whole can do is cut down to what makes a translation here: speech that is understood, and a way on from it."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from lingua_scheduler.engines.cleanup import tidy
from lingua_sdk.audio import Audio
from lingua_sdk.checks import checked
from lingua_sdk.engines import Identifier, Recogniser, Repairer, ShowPartial, Speaker, Translator

R = TypeVar("R")
# Told when an engine failed and another one has done its work: its name, and the kind of failure.
Tell = Callable[[str, str], None]
# A text loses with every step.
MAX_STEPS = 2


class _Several:
    def __init__(self, engines: Sequence[Any], tell: Tell) -> None:
        self._engines = engines
        self._tell = tell
        self.name = "+".join(engine.name for engine in engines)
        self.device = "gpu" if any(getattr(engine, "device", "cpu") == "gpu" for engine in engines) else "cpu"

    def _first(self, able: Iterable[Any], work: Callable[[Any], R]) -> R:
        failed: Exception | None = None
        for engine in able:
            try:
                return work(engine)
            except Exception as error:
                # The message may contain speech, so only the type is reported.
                self._tell("engine failed", f"{engine.name}: {type(error).__name__}")
                failed = error
        raise failed or LookupError("no engine supports this language")


class Recognisers(_Several):
    def __init__(self, engines: Sequence[Recogniser], tell: Tell, languages: Sequence[str]) -> None:
        super().__init__(engines, tell)
        self.languages = languages

    def recognise(self, audio: Audio, language: str, partial: ShowPartial) -> str:
        able = (engine for engine in self._engines if language in engine.languages)
        return self._first(able, lambda engine: _text("recognise", engine.recognise(audio, language, partial)))


class Identifiers(Recognisers):
    """With one among them that tells languages apart."""

    def identify(self, audio: Audio, languages: Sequence[str]) -> str:
        able = (engine for engine in self._engines if isinstance(engine, Identifier))
        return self._first(able, lambda engine: _text("identify", engine.identify(audio, languages)))


def recognisers(engines: Sequence[Recogniser], tell: Tell, languages: Sequence[str]) -> Recognisers:
    tells_apart = any(isinstance(engine, Identifier) for engine in engines)
    return (Identifiers if tells_apart else Recognisers)(engines, tell, languages)


class Repairers(_Several):
    def __init__(self, engines: Sequence[Repairer], tell: Tell, languages: Sequence[str]) -> None:
        super().__init__(engines, tell)
        self.languages = languages

    def repair(self, text: str, language: str) -> str:
        able = (engine for engine in self._engines if language in engine.languages)
        return self._first(able, lambda engine: _text("repair", engine.repair(text, language)))


class Translators(_Several):
    """Pivot translation: without an engine for a pair, two steps, such as English to Spanish by way of Portuguese."""

    def __init__(self, engines: Sequence[Translator], tell: Tell, sources: Sequence[str] | None = None) -> None:
        super().__init__(engines, tell)
        self._ways = ways([pair for engine in engines for pair in engine.pairs])
        self.pairs = [pair for pair in self._ways if sources is None or pair[0] in sources]

    def way(self, source: str, target: str) -> Sequence[str]:
        """The languages a text goes through, both ends included."""
        return self._ways[source, target]

    def translate(self, text: str, source: str, target: str) -> str:
        way = self.way(source, target)
        for step in pairwise(way):
            text = self._step(text, *step)
        return tidy(text)

    def _step(self, text: str, source: str, target: str) -> str:
        able = (engine for engine in self._engines if (source, target) in engine.pairs)
        return self._first(able, lambda engine: _text("translate", engine.translate(text, source, target)))


class Speakers(_Several):
    def __init__(self, engines: Sequence[Speaker], tell: Tell, languages: Sequence[str]) -> None:
        super().__init__(engines, tell)
        self.languages = languages

    def speak(self, text: str, language: str) -> Audio:
        able = (engine for engine in self._engines if language in engine.languages)
        return self._first(able, lambda engine: _audible(engine.speak(text, language)))


def _text(method: str, made: object) -> str:
    text: str = checked(method, made)
    return text


class Silent(RuntimeError):
    """A voice made no sound of a text, such as one in a script it cannot read."""


def _audible(audio: Audio) -> Audio:
    if not audio.samples.strip(b"\0"):
        raise Silent
    return audio


def ways(pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Pair → the languages on the way: one step where there is one, else the fewest."""
    found: dict[tuple[str, str], tuple[str, ...]] = {pair: pair for pair in pairs}
    for _ in range(MAX_STEPS - 1):
        for (source, middle), way in list(found.items()):
            for begin, target in pairs:
                if begin == middle and target != source:
                    found.setdefault((source, target), (*way, target))
    return found
