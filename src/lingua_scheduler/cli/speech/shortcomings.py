"""Says in words why engines of a file serve nothing, or text without speech."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lingua_scheduler.cli.speech.own_engines import OwnEngine, named, tag
from lingua_sdk.engines import Abilities
from lingua_sdk.failures import BrokenContract, whole_description_of
from lingua_sdk.pipeline import Pipeline
from lingua_sdk.self_test import pairs_of


class _Part(NamedTuple):
    """One engine: the languages it knows, or those it translates from."""

    name: str
    languages: Sequence[str]


class _Parts(NamedTuple):
    recognisers: list[_Part]
    repairers: list[_Part]
    # None: any language into any other.
    translators: list[_Part] | None
    speakers: list[_Part]


def why_nothing(own: OwnEngine) -> str:
    """Why there is no pair; the command line may be the reason."""
    if own.languages is not None and (others := pairs_of(own.all_abilities())):
        wanted = ",".join(own.languages)
        return f"--languages {wanted} leaves no language pair to serve; without it: {named(others)}"
    parts = _parts(own)
    heard = _union(parts.recognisers)
    if not heard:
        return f"no recogniser knows a language ({_known(parts.recognisers)})"
    if parts.translators is None:
        mended = [language for language in heard if language in _union(parts.repairers)]
        return f"{_listed(mended)} is the only language" if mended else _unrepaired(heard, parts)
    if not parts.translators:
        return "there is no translator"
    if not (sources := _union(parts.translators)):
        return f"no translator has a pair ({_known(parts.translators)})"
    known = [language for language in sources if language in heard]
    return _unrepaired(known, parts) if known else _unheard(parts.translators, parts)


def why_text_only(own: OwnEngine, target: str) -> str:
    speakers = _parts(own).speakers
    if not speakers:
        return "there is no voice"
    return f"no voice speaks {target}; " + ", ".join(f"{one.name} speaks {_listed(one.languages)}" for one in speakers)


def told(error: BaseException) -> str:
    """An error of the file, for its owner."""
    return str(error) if isinstance(error, BrokenContract) else whole_description_of(error)


def _unheard(translators: Iterable[_Part], parts: _Parts) -> str:
    return "; ".join(
        f"{one.name} translates from {_listed(one.languages)}, but no recogniser knows "
        f"{one.languages[0] if len(one.languages) == 1 else 'them'} ({_known(parts.recognisers)})"
        for one in translators
        if one.languages
    )


def _unrepaired(languages: Sequence[str], parts: _Parts) -> str:
    return f"no repairer knows {_listed(languages)} ({_known(parts.repairers)})"


def _parts(own: OwnEngine) -> _Parts:
    engine = own.engine
    if not isinstance(engine, Pipeline):
        return _of_abilities(engine.name, own.all_abilities())
    return _Parts(
        [_Part(_name(one), _tags(one.languages)) for one in engine.parts.recognisers],
        [_Part(_name(one), _tags(one.languages)) for one in engine.parts.repairers],
        [_Part(_name(one), _tags(source for source, _ in one.pairs)) for one in engine.parts.translators],
        [_Part(_name(one), _tags(one.languages)) for one in engine.parts.speakers],
    )


def _of_abilities(name: str, able: Abilities) -> _Parts:
    """An engine that does everything."""
    sources = None if able.translates is None else _tags(source for source, _ in able.translates)
    return _Parts(
        [_Part(name, _tags(able.recognises))],
        [_Part(name, _tags(able.repairs))],
        None if sources is None else [_Part(name, sources)],
        [_Part(name, _tags(able.speaks))],
    )


def _name(engine: object) -> str:
    """As it stands in the file of its owner."""
    return type(engine).__name__


def _tags(languages: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(tag, languages)))


def _union(parts: Iterable[_Part]) -> list[str]:
    return list(dict.fromkeys(language for part in parts for language in part.languages))


def _known(parts: Sequence[_Part]) -> str:
    return "; ".join(f"{part.name}: {', '.join(part.languages) or 'none'}" for part in parts) or "there is none"


def _listed(languages: Sequence[str]) -> str:
    *most, last = languages or ["nothing"]
    return f"{', '.join(most)} and {last}" if most else last
