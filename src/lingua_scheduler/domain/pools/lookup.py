"""Language lookup (RFC 4647): which of the tags that nodes serve stands for the one that is asked for."""

from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import product

from lingua_scheduler.domain.pools.names import Pool

Serves = Callable[[str], bool]
# Of one tag. A pair has the square of them, and nodes may declare as many variants of a language as they like.
MAX_CANDIDATES = 16


class ServedTags:
    """The language tags of a fleet, compared without regard to case."""

    def __init__(self, tags: Iterable[str]) -> None:
        self._tags = tags

    def candidates(self, asked: str) -> list[str]:
        """Served tags that may stand for it, the best first.

        The tag itself; then the tag without its last subtags, one after the other; then more specific tags, the
        shortest first. Never a sibling: zh-TW is not served by zh-CN.
        """
        found = [] if asked not in self._spellings.get(asked.lower(), ()) else [asked]
        for wanted in ranges(asked):
            found += (tag for tag in self._spellings.get(wanted, ()) if tag not in found)
        found += (tag for tag in self._longer.get(asked.lower(), ())[:MAX_CANDIDATES] if tag not in found)
        return found[:MAX_CANDIDATES]

    @cached_property
    def _spellings(self) -> dict[str, list[str]]:
        """In lower case → as nodes write it."""
        found: dict[str, list[str]] = {}
        for tag in sorted(self._tags):
            found.setdefault(tag.lower(), []).append(tag)
        return found

    @cached_property
    def _longer(self) -> dict[str, list[str]]:
        """In lower case → served tags that begin with it."""
        found: dict[str, list[str]] = {}
        for wanted, tags in sorted(self._spellings.items(), key=lambda item: (item[0].count("-"), item[0])):
            for shorter in ranges(wanted)[1:]:
                found.setdefault(shorter, []).extend(tags)
        return found


def ranges(tag: str) -> list[str]:
    """The tag in lower case and its prefixes, the longest first. A single letter is removed with what follows it."""
    subtags = tag.lower().split("-")
    found = []
    while subtags:
        found.append("-".join(subtags))
        subtags.pop()
        while subtags and len(subtags[-1]) == 1:
            subtags.pop()
    return found


def nearest(pool: str, tags: ServedTags, serves: Serves) -> str:
    """The served pool that stands for this one; the same if there is none."""
    asked = Pool.parse(pool)
    (src, tgt), named = asked.pair, Pool.from_text if asked.is_from_text else Pool
    served = (str(named(*pair, asked.facet)) for pair in ordered(tags.candidates(src), tags.candidates(tgt)))
    return next(filter(serves, served), pool)


def ordered(sources: list[str], targets: list[str]) -> list[tuple[str, str]]:
    """All pairs, those with the least loss first; at the same loss the better target, which people read and hear."""
    places = sorted(product(range(len(sources)), range(len(targets))), key=lambda at: (sum(at), at[1]))
    return [(sources[source], targets[target]) for source, target in places]
