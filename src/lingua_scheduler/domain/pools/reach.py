"""The reach of a wide node: the pairs it serves, as a few sets instead of thousands of names."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import msgspec

from lingua_scheduler.domain.pools.names import Facet, Pool, private_name, public_name, tenant_of
from lingua_scheduler.domain.pools.text_reach import TextReach
from lingua_sdk.domain.decoding import DECODE_ERRORS
from lingua_sdk.domain.languages import MAX_PAIRS, Pair

_DIGEST_CHARS = 16
SPEECH = Facet.SPEECH.value
TEXT = Facet.TEXT.value
_FACETS = frozenset((SPEECH, TEXT))


class _Definition(msgspec.Struct, omit_defaults=True):
    """How a reach is stored: languages as one string each, because they are many."""

    sources: str
    text: str
    speech: str
    # Source → targets; None: any.
    translations: dict[str, str] | None = None
    # Of a node that takes text: the same of what it makes of text. Releases before it do not read it.
    from_text: "_Definition | None" = None


_DEFINITION = msgspec.json.Decoder(_Definition)


@dataclass(frozen=True)
class Reach:
    """What a node serves; `translations` None means any source into any target.

    There may be 16 384 of them, and every picture of the fleet asks for the same figures again: they are kept with it.
    """

    sources: frozenset[str]
    # Targets it can write, and those of them it also speaks.
    text: frozenset[str]
    speech: frozenset[str]
    translations: frozenset[Pair] | None = None
    # Of a node that takes text.
    from_text: TextReach | None = None

    def serves(self, src: str, tgt: str, facet: str) -> bool:
        if src not in self.sources or tgt not in (self.speech if facet == SPEECH else self.text):
            return False
        return src == tgt or self.translations is None or (src, tgt) in self.translations

    def serves_pool(self, pool: str) -> bool:
        """False also for what is no pool of a pair."""
        found = Pool.parse(pool)
        if found.is_from_text:
            return self.from_text is not None and self.from_text.serves_pool(found)
        return found.facet in _FACETS and self.serves(*found)

    def serves_pools(self, pools: Iterable[str]) -> bool:
        return all(map(self.serves_pool, pools))

    def pairs(self, facet: str) -> Iterator[Pair]:
        """Each of them; there may be tens of thousands."""
        for src, tgt in product(sorted(self.sources), sorted(self.speech if facet == SPEECH else self.text)):
            if src == tgt or self.translations is None or (src, tgt) in self.translations:
                yield Pair(src, tgt)

    def count(self, facet: str = TEXT) -> int:
        """How many pairs it serves, those of a language into itself included."""
        return self._counts[facet]

    @cached_property
    def _counts(self) -> dict[str, int]:
        return {TEXT: self._count(self.text), SPEECH: self._count(self.speech)}

    def _count(self, targets: frozenset[str]) -> int:
        if self.translations is None:
            return len(self.sources) * len(targets)
        return len(self.sources & targets) + sum(pair.tgt in targets for pair in self.translations)

    @property
    def is_wide(self) -> bool:
        """Whether it is too much to join a pool for each pair."""
        return max(self.count(), self.from_text.pair_count if self.from_text else 0) > MAX_PAIRS

    @cached_property
    def by_source(self) -> dict[str, list[str]] | None:
        """The translations, if not any: source → targets. Shared by all callers; immutable."""
        return _by_source(self.translations)

    def encoded(self) -> str:
        """A canonical text: the same for the same reach."""
        return self._encoded

    @cached_property
    def _encoded(self) -> str:
        written, from_text = self.from_text, None
        if written is not None:
            from_text = _definition(written.sources, written.targets, written.voices, _by_source(written.translations))
        definition = _definition(self.sources, self.text, self.speech, self.by_source, from_text)
        return msgspec.json.encode(definition).decode()


def reach_between(
    sources: frozenset[str], text: frozenset[str], speech: frozenset[str], declared: frozenset[Pair] | None
) -> Reach:
    """Declared pairs that cannot be reached do not count, and all of them together are any."""
    if declared is None or not sources:
        return Reach(sources, text, speech & text)
    possible = len(sources) * len(text) - len(sources & text)
    reached = frozenset(pair for pair in declared if pair.src != pair.tgt and pair.src in sources and pair.tgt in text)
    return Reach(sources, text, speech & text, None if len(reached) == possible else reached)


def wide_pool(encoded: str) -> str:
    """The name of the pool whose nodes all have this reach."""
    digest = hashlib.sha1(encoded.encode(), usedforsecurity=False).hexdigest()[:_DIGEST_CHARS]
    return str(Pool.wide(digest))


@lru_cache(maxsize=128)
def reach_named(pool: str, encoded: str) -> Reach | None:
    """The reach of a wide pool as it was stored; None when it cannot be read, or is not what the name stands for."""
    if not encoded or wide_pool(encoded) != public_name(pool):
        return None
    try:
        found = _DEFINITION.decode(encoded)
    except DECODE_ERRORS:
        return None
    return Reach(*_sets(found), None if found.from_text is None else TextReach(*_sets(found.from_text)))


def readable(definitions: Mapping[str, str]) -> dict[str, Reach]:
    """Wide pool → reach, without those that cannot be read."""
    found = {pool: reach_named(pool, encoded) for pool, encoded in definitions.items()}
    return {pool: reach for pool, reach in found.items() if reach is not None}


class Served:
    """The pools of all pairs in a reach, computed rather than stored; those of a tenant, if it is given."""

    __slots__ = ("_reach", "_size", "_tenant")

    def __init__(self, reach: Reach, tenant: str = "") -> None:
        self._reach = reach
        self._tenant = tenant
        self._size = reach.count(TEXT) + reach.count(SPEECH) + (reach.from_text.pool_count if reach.from_text else 0)

    def __contains__(self, pool: object) -> bool:
        return isinstance(pool, str) and tenant_of(pool) == self._tenant and self._reach.serves_pool(pool)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        for name in self._public():
            yield private_name(name, self._tenant) if self._tenant else name

    def _public(self) -> Iterator[str]:
        for facet in (TEXT, SPEECH):
            for pair in self._reach.pairs(facet):
                yield str(Pool(*pair, facet))
        if self._reach.from_text is not None:
            yield from self._reach.from_text.pools()


def _by_source(translations: frozenset[Pair] | None) -> dict[str, list[str]] | None:
    if translations is None:
        return None
    found: dict[str, list[str]] = {}
    for src, tgt in translations:
        found.setdefault(src, []).append(tgt)
    return {src: sorted(found[src]) for src in sorted(found)}


def _definition(
    sources: frozenset[str],
    targets: frozenset[str],
    voices: frozenset[str],
    by_source: Mapping[str, list[str]] | None,
    from_text: _Definition | None = None,
) -> _Definition:
    translations = None if by_source is None else {src: _words(some) for src, some in by_source.items()}
    return _Definition(_words(sources), _words(targets), _words(voices), translations, from_text)


def _sets(
    found: _Definition,
) -> tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[Pair] | None]:
    sources, targets, voices = (frozenset(codes.split()) for codes in (found.sources, found.text, found.speech))
    if found.translations is None:
        return sources, targets, voices, None
    pairs = frozenset(Pair(src, tgt) for src, some in found.translations.items() for tgt in some.split())
    return sources, targets, voices, pairs


def _words(codes: Iterable[str]) -> str:
    return " ".join(sorted(codes))
