"""Reads the language pairs a node declares, in every form that nodes in the field use."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from typing import Any, NamedTuple

from lingua_sdk.domain.languages import tag_of

# The two keys of an object that is one pair.
_PAIR_KEYS = (("from", "to"), ("src_lang", "tgt_lang"), ("src", "tgt"), ("source", "target"))
_ARROWS = re.compile(r"\s*(?:[-=]>|→|:)\s*")
# Two tags of 35 characters, an arrow, and spaces. Looking for an arrow takes the square of the spaces.
_MAX_PAIR_CHARS = 256

# Between codes a hyphen is ambiguous, except that languages are lower case (zh) and their subtags are not
# (Hant, TW): zh-Hant-en is a pair, zh-Hant and zh-TW are one language each.
_CODE = r"([a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-[A-Z]{2})?)"
_HYPHENATED_PAIR = re.compile(f"{_CODE}-{_CODE}")

_RULES = ("any_to_any", "any_to_en", "en_to_any", "specific_pairs")
EXPECTED = '"en:de", ["en", "de"], {"src": "en", "tgt": "de"} or {"en": ["de"]}'


class Translations(NamedTuple):
    """What a node declares."""

    # Directed pairs; None when it declares nothing, which stands for any pair. What is unreadable never does.
    pairs: list[tuple[str, str]] | None
    # Which entry is the first without a readable pair.
    unreadable: int | None


def read_translations(nmt_capabilities: object) -> Translations:
    """The readable pairs, in order, and the first entry that has none."""
    if nmt_capabilities is None or nmt_capabilities in ([], {}, ""):
        return Translations(None, None)
    pairs: list[tuple[str, str]] = []
    unreadable: int | None = None
    tags: dict[str, str | None] = {}
    for place, entry in enumerate(_entries(nmt_capabilities)):
        before = len(pairs)
        pairs += _tagged(_pairs(entry), tags)
        if unreadable is None and len(pairs) == before:
            unreadable = place
    return Translations(pairs, unreadable)


def count_translations(nmt_capabilities: object, most: int) -> int:
    """How many pairs are declared, without reading any; not counted to the end when there are more than `most`."""
    entries = _entries(nmt_capabilities)
    return len(entries) if len(entries) > most else sum(map(_size, entries))


def complaint_about(place: int) -> str:
    """One sentence about an entry that cannot be read."""
    return f"nmt_capabilities[{place}] is not a language pair; write {EXPECTED}"


def _entries(nmt_capabilities: object) -> list[Any]:
    return nmt_capabilities if isinstance(nmt_capabilities, list) else [nmt_capabilities]


def _size(entry: object) -> int:
    if not isinstance(entry, dict):
        return 1
    if isinstance(listed := entry.get("supported_pairs"), list):
        return len(listed)
    if isinstance(entry.get("rule"), str):
        languages = len(_texts(entry.get("languages")))
        return languages * max(1, languages - 1) if entry["rule"] == "any_to_any" else max(1, languages)
    return max(1, sum(len(targets) for targets in entry.values() if isinstance(targets, list)))


def _pairs(entry: object) -> Iterable[tuple[str, str]]:
    """The pairs of one entry, as texts."""
    if not isinstance(entry, dict):
        return _pair(entry)
    if isinstance(listed := entry.get("supported_pairs"), list):
        return [pair for candidate in listed for pair in _pair(candidate)]
    if isinstance(entry.get("rule"), str):
        return _by_rule(entry)
    return _pair(entry) or list(_by_source(entry))


def _pair(candidate: object) -> list[tuple[str, str]]:
    """One pair, or none."""
    match candidate:
        case str():
            return _pair_of_text(candidate.strip()) if len(candidate) <= _MAX_PAIR_CHARS else []
        case [str(source), str(target)]:
            return [(source, target)]
        case dict():
            for keys in _PAIR_KEYS:
                sides = [text for key in keys if isinstance(text := candidate.get(key), str)]
                if len(sides) == 2:
                    return [(sides[0], sides[1])]
    return []


def _pair_of_text(text: str) -> list[tuple[str, str]]:
    sides = _ARROWS.split(text)
    if len(sides) == 2:
        return [(sides[0], sides[1])]
    match = _HYPHENATED_PAIR.fullmatch(text)
    return [(match[1], match[2])] if match else []


def _by_source(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """`{"en": ["de", "fr"]}`: each source with its targets."""
    for source, targets in entry.items():
        for target in _texts(targets):
            yield source, target


def _by_rule(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """`{"languages": ["en", "de"], "rule": "any_to_any", "blocked_pairs": […]}`, as model lists of nodes have it."""
    languages = _texts(entry.get("languages"))
    match entry["rule"]:
        case "any_to_any":
            found = list(permutations(languages, 2))
        case "any_to_en":
            found = [(language, "en") for language in languages if language != "en"]
        case "en_to_any":
            found = [("en", language) for language in languages if language != "en"]
        case _:
            return []
    listed = entry.get("blocked_pairs")
    blocked = {pair for candidate in (listed if isinstance(listed, list) else ()) for pair in _pair(candidate)}
    return [pair for pair in found if pair not in blocked]


def _texts(listed: object) -> list[str]:
    return [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []


def _tagged(pairs: Iterable[tuple[str, str]], tags: dict[str, str | None]) -> Iterator[tuple[str, str]]:
    """Those whose both sides are language tags. Each text is looked at once, however many pairs it is in."""
    for pair in pairs:
        for text in pair:
            if text not in tags:
                tags[text] = tag_of(text)
        source, target = tags[pair[0]], tags[pair[1]]
        if source is not None and target is not None:
            yield source, target


def _schema() -> dict[str, Any]:
    """The forms as JSON Schema, for the published document."""
    tag = {"type": "string", "examples": ["en", "zh-Hans"]}
    text = {"type": "string", "maxLength": _MAX_PAIR_CHARS, "examples": ["en:de", "en->de", "en-de"]}
    both = {"type": "array", "items": tag, "minItems": 2, "maxItems": 2}
    objects = [
        {"type": "object", "properties": {source: tag, target: tag}, "required": [source, target]}
        for source, target in _PAIR_KEYS
    ]
    by_source = {"type": "object", "additionalProperties": {"type": "array", "items": tag}}
    pair: dict[str, Any] = {"anyOf": [text, both, *objects]}
    pairs = {"type": "array", "items": pair}
    listed = {"type": "object", "properties": {"supported_pairs": pairs}, "required": ["supported_pairs"]}
    languages = {"type": "array", "items": tag}
    model = {
        "type": "object",
        "properties": {"languages": languages, "rule": {"enum": list(_RULES)}, "blocked_pairs": pairs},
        "required": ["rule"],
    }
    entry = {"anyOf": [*pair["anyOf"], by_source, listed, model]}
    return {"anyOf": [{"type": "null"}, text, by_source, listed, model, {"type": "array", "items": entry}]}


SCHEMA = _schema()
