"""The engines of a node owner's file, as far as the command line wants them served."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from lingua_sdk.checks import must_be_abilities
from lingua_sdk.domain.languages import tag_of
from lingua_sdk.engines import Abilities, Engine, JobOutput, ShowPartial
from lingua_sdk.pipeline import Pipeline
from lingua_sdk.protocol.node import JobAssign


class OwnEngine:
    """An engine with fewer languages or other slots than its file says; what it can do is asked for every heartbeat."""

    # Only if the engine has one.
    load: Callable[[], Coroutine[Any, Any, None]]

    def __init__(
        self,
        engine: Engine,
        given: Abilities | None,
        languages: Sequence[str] | None = None,
        slots: int | None = None,
    ) -> None:
        self.engine = engine
        self.languages = languages
        self._given = given
        self._slots = slots
        if slots is not None and isinstance(engine, Pipeline):
            engine.resize(slots)
        if callable(load := getattr(engine, "load", None)):
            self.load = load

    @property
    def name(self) -> str:
        return self.engine.name

    async def translate(self, job: JobAssign, partial: ShowPartial) -> JobOutput:
        return await self.engine.translate(job, partial)

    def abilities(self) -> Abilities:
        able = self.all_abilities()
        if self._slots is not None:
            able = able._replace(slots=self._slots)
        return able if self.languages is None else _narrowed(able, self.languages)

    def all_abilities(self) -> Abilities:
        """Whatever the command line wants."""
        able: Abilities = self._given or self.engine.abilities()  # type: ignore[attr-defined]  # others are not loaded
        must_be_abilities(able)
        return able


def _narrowed(able: Abilities, languages: Sequence[str]) -> Abilities:
    wanted = set(map(tag, languages))

    def among(listed: Iterable[str]) -> list[str]:
        return [language for language in listed if tag(language) in wanted]

    pairs = able.translates
    return able._replace(
        recognises=among(able.recognises),
        repairs=among(able.repairs),
        speaks=among(able.speaks),
        translates=None if pairs is None else [pair for pair in pairs if len(among(pair)) == len(pair)],
    )


def tag(language: str) -> str:
    return tag_of(language) or language


def named(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{source} → {target}" for source, target in pairs)
