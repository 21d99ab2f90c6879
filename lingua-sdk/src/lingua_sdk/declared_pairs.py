"""Reads the pairs that a translator declares, in the simple forms that nodes may send; tags stay as written."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

EXPECTED = '("en", "pt"), ["en", "pt"], "en:pt" or {"en": ["pt"]}'
_ARROW = re.compile(r"->|→|:")


def pairs_in(declared: Any) -> Iterator[tuple[str, str]]:
    """The readable pairs, in order. It is called for every job, so it does not look whether the sides are tags."""
    for entry in entries(declared):
        if type(entry) is tuple and len(entry) == 2:
            yield entry
        else:
            yield from pairs_of_entry(entry)


def entries(declared: Any) -> Iterable[Any]:
    """Of an object by source each source is an entry; other mappings are read as their keys, such as pairs."""
    if isinstance(declared, Mapping):
        return [{key: value} if isinstance(key, str) else key for key, value in declared.items()]
    return declared  # type: ignore[no-any-return]


def pairs_of_entry(entry: Any) -> list[tuple[str, str]]:
    """The pairs of one entry; none if it cannot be read."""
    match entry:
        case str():
            sides = [side.strip() for side in _ARROW.split(entry)]
            return [(sides[0], sides[1])] if len(sides) == 2 else []
        case [str(source), str(target)]:
            return [(source, target)]
        case Mapping():
            return [pair for source, targets in entry.items() for pair in _by_source(source, targets)]
    return []


def _by_source(source: Any, targets: Any) -> list[tuple[str, str]]:
    if not isinstance(source, str) or not isinstance(targets, list | tuple | set | frozenset):
        return []
    return [(source, target) for target in targets if isinstance(target, str)]
