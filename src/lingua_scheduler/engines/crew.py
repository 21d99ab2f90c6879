"""The engines of one reference node as one: the language pairs they serve together on this machine."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lingua_scheduler.engines.catalogue import Choices, Found, Stage
from lingua_scheduler.engines.cleanup import Cleanup
from lingua_scheduler.engines.combined import Repairers, Speakers, Tell, Translators, recognisers
from lingua_sdk.domain.languages import MAX_LANGUAGES, MAX_PAIRS, MAX_TRANSLATIONS
from lingua_sdk.pipeline import Pipeline


class Crew:
    """`pairs` are those it serves; empty when the engines here do not make a translation."""

    def __init__(self, found: Sequence[Found], choices: Choices, tell: Tell) -> None:
        self._engines: dict[Stage, list[Any]] = {"recogniser": [], "repairer": [], "translator": [], "speaker": []}
        for part, engine, _ in found:
            if engine is not None:
                self._engines[part.stage].append(engine)
        self._tell = tell
        heard = _languages(self._engines["recogniser"])
        self._translators = Translators(self._engines["translator"], tell)
        # What could be had if all languages were asked for.
        self.possible = [pair for pair in self._translators.pairs if pair[0] in heard]
        self.pairs = [pair for pair in self.possible if _is_asked(pair, choices.languages)][:MAX_TRANSLATIONS]
        self._translators.pairs = self.pairs
        self.sources = _each_once(source for source, _ in self.pairs)[:MAX_LANGUAGES]
        if "repairer" not in choices.only:
            self._engines["repairer"].append(Cleanup(self.sources))
        spoken = _languages(self._engines["speaker"])
        self.spoken = [target for target in _each_once(target for _, target in self.pairs) if target in spoken]
        # What speaks none of them is let go, with the memory it takes.
        self._engines["speaker"] = [
            engine for engine in self._engines["speaker"] if not set(self.spoken).isdisjoint(engine.languages)
        ]
        self.repaired = [source for source in self.sources if source in _languages(self._engines["repairer"])]

    def way(self, source: str, target: str) -> Sequence[str]:
        return self._translators.way(source, target)

    @property
    def lacks(self) -> str:
        """Why there are no pairs."""
        needed: tuple[Stage, ...] = ("recogniser", "translator")
        for stage in needed:
            if not self._engines[stage]:
                return f"there is no {stage}"
        return "no translator accepts a language that is recognised"

    def names(self, stage: Stage, language: str) -> list[str]:
        """Who does this for a language: the first, and those that stand in for it."""
        return [engine.name for engine in self._engines[stage] if language in engine.languages]

    def warm_up(self, slots: int, show: Callable[[str], None]) -> None:
        """Load lazily loaded models now, so that the first sentence does not wait for them."""
        for engine in (*self._engines["recogniser"], *self._engines["repairer"]):
            if hasattr(engine, "warm_up"):
                show(engine.name)
                engine.warm_up(slots)
        # Loading those of all languages would take too long.
        for source, target in self.pairs[:MAX_PAIRS]:
            show(f"{source} → {target}")
            self._translators.translate("1.", source, target)

    def pipeline(self, slots: int) -> Pipeline:
        engines = self._engines
        return Pipeline(
            recognisers(engines["recogniser"], self._tell, self.sources),
            Repairers(engines["repairer"], self._tell, self.repaired),
            self._translators,
            Speakers(engines["speaker"], self._tell, self.spoken),
            slots=slots,
            name="reference",
        )

    def close(self) -> None:
        for engine in (engine for engines in self._engines.values() for engine in engines):
            if hasattr(engine, "close"):
                engine.close()


def _is_asked(pair: tuple[str, str], languages: Sequence[str] | None) -> bool:
    return languages is None or (pair[0] in languages and pair[1] in languages)


def _languages(engines: Iterable[Any]) -> frozenset[str]:
    return frozenset(language for engine in engines for language in engine.languages)


def _each_once(codes: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(codes))
