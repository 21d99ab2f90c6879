"""Checks what engines declare and return, and says in a sentence what is wrong."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from lingua_sdk.audio import Audio
from lingua_sdk.declared_pairs import EXPECTED, entries, pairs_of_entry
from lingua_sdk.domain.languages import tag_of
from lingua_sdk.engines import Abilities, JobOutput
from lingua_sdk.failures import BrokenContract, type_name
from lingua_sdk.sound_check import checked_audio, checked_bytes, checked_samples

# What each method of an engine must return.
RETURNS: dict[str, type] = {
    "identify": str,
    "recognise": str,
    "repair": str,
    "translate": str,
    "speak": Audio,
}


def checked(method: str, made: Any) -> Any:
    """What a method returned; raises BrokenContract when it is of the wrong type, or speech that cannot be played."""
    expected = RETURNS[method]
    if not isinstance(made, expected):
        raise BrokenContract(f"{method}() must return {expected.__name__}, got {type_name(made)}")
    return checked_audio(method, made) if isinstance(made, Audio) else made


def checked_batch(method: str, made: Any, asked: int) -> Sequence[Any]:
    if not isinstance(made, list | tuple):
        raise BrokenContract(f"{method}_batch() must return a list, got {type_name(made)}")
    if len(made) != asked:
        raise BrokenContract(f"{method}_batch() must return one result for each of {asked} inputs, got {len(made)}")
    return [checked(method, one) for one in made]


def checked_translation(made: Any) -> JobOutput:
    """What an engine that does all stages returned."""
    if not isinstance(made, JobOutput):
        raise BrokenContract(f"translate() of an engine must return JobOutput, got {type_name(made)}")
    check = checked_samples if made.speech_format == "pcm16" else checked_bytes
    return made._replace(speech=check("JobOutput.speech", made.speech))


def must_be_engine(engine: object, method: str, declares: str) -> None:
    """Raises BrokenContract when it lacks its method, or declares its languages in a way that cannot be read."""
    name = type(engine).__name__
    if isinstance(engine, type):
        raise BrokenContract(f"{engine.__name__} is a class; pass an object: {engine.__name__}()")
    if not callable(getattr(engine, method, None)) and not callable(getattr(engine, f"{method}_batch", None)):
        raise BrokenContract(f"{name} has no method {method}(){meant(engine, [method])}")
    if not hasattr(engine, declares):
        raise BrokenContract(f"{name} has no attribute {declares}{meant(engine, [declares])}")
    for limit in ("concurrency", "batch_size"):
        count_of(engine, limit)
    if declares == "pairs":
        must_be_pairs(f"{name}.pairs", engine.pairs)  # type: ignore[attr-defined]
    else:
        must_be_languages(f"{name}.{declares}", getattr(engine, declares))


def meant(engine: object, wanted: Sequence[str]) -> str:
    """Which of the wanted members a similar name of the engine stands for, such as `recognize`; empty if none does."""
    for name in (name for name in dir(engine) if not name.startswith("_")):
        if name not in wanted and (similar := get_close_matches(name, wanted, n=1, cutoff=0.75)):
            return f"; did you mean `{similar[0]}` for `{name}`?"
    return ""


def must_be_abilities(able: Abilities) -> None:
    for field in ("recognises", "repairs", "speaks"):
        must_be_languages(f"Abilities.{field}", getattr(able, field))
    if able.translates is not None:
        must_be_pairs("Abilities.translates", able.translates)


def must_be_languages(name: str, declared: object) -> None:
    if isinstance(declared, str):
        raise BrokenContract(f'{name} is the text "{declared[:35]}"; write a list of languages: ["{declared[:35]}"]')
    if not isinstance(declared, Iterable):
        raise BrokenContract(f'{name} must be a list of languages such as ["en"], got {type_name(declared)}')
    for language in declared:
        if not isinstance(language, str) or tag_of(language) is None:
            raise BrokenContract(f"{name} has {language!r:.40}, which is not a language tag such as en or zh-Hans")


def must_be_pairs(name: str, declared: object) -> None:
    if isinstance(declared, str) or not isinstance(declared, Iterable):
        raise BrokenContract(f'{name} must be a list of pairs such as [("en", "pt")], got {type_name(declared)}')
    for entry in entries(declared):
        pairs = pairs_of_entry(entry)
        if not pairs or not all(tag_of(side) for pair in pairs for side in pair):
            raise BrokenContract(f"{name} has {entry!r:.40}, which is not a pair of language tags; write {EXPECTED}")


def count_of(engine: object, limit: str) -> int | None:
    """A limit that an engine may declare, such as `concurrency`; None if it does not. Raises BrokenContract."""
    declared = getattr(engine, limit, None)
    if declared is None:
        return None
    if not isinstance(declared, int) or isinstance(declared, bool) or declared < 1:
        name = f"{type(engine).__name__}.{limit}"
        raise BrokenContract(f"{name} must be an int of at least 1, got {declared!r:.40}")
    return declared
