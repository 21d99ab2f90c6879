"""What a node makes of text: the pairs it translates, and the languages it speaks. It need not recognise speech."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_sdk.domain.languages import Pair


@dataclass(frozen=True)
class TextReach:
    """`translations` None means any source into any target. A language that it only speaks is its own source."""

    sources: frozenset[str]
    targets: frozenset[str]
    voices: frozenset[str]
    translations: frozenset[Pair] | None = None

    def serves(self, src: str, tgt: str, facet: str) -> bool:
        """Text into itself is no work, unless it is spoken."""
        if facet == Facet.SPEECH:
            return tgt in self.voices and (src == tgt or self._translates(src, tgt))
        return src != tgt and self._translates(src, tgt)

    def serves_pool(self, pool: Pool) -> bool:
        return pool.facet in (Facet.SPEECH, Facet.TEXT) and self.serves(*pool.pair, pool.facet)

    def pools(self) -> Iterator[str]:
        """Each of them; there may be tens of thousands."""
        for src, tgt in self._pairs():
            yield str(Pool.from_text(src, tgt, Facet.TEXT))
            if tgt in self.voices:
                yield str(Pool.from_text(src, tgt, Facet.SPEECH))
        for voice in sorted(self.voices):
            yield str(Pool.from_text(voice, voice, Facet.SPEECH))

    @cached_property
    def pair_count(self) -> int:
        """How many pairs it translates, and languages it speaks."""
        if self.translations is None:
            translated = len(self.sources) * len(self.targets) - len(self.sources & self.targets)
        else:
            translated = len(self.translations)
        return translated + len(self.voices)

    @cached_property
    def pool_count(self) -> int:
        return self.pair_count + sum(tgt in self.voices for _, tgt in self._pairs())

    def _translates(self, src: str, tgt: str) -> bool:
        if self.translations is not None:
            return (src, tgt) in self.translations
        return src in self.sources and tgt in self.targets

    def _pairs(self) -> Iterator[Pair]:
        if self.translations is not None:
            yield from sorted(self.translations)
            return
        for src, tgt in product(sorted(self.sources), sorted(self.targets)):
            if src != tgt:
                yield Pair(src, tgt)


def text_reach(read: frozenset[str], voices: frozenset[str], declared: frozenset[Pair] | None) -> TextReach | None:
    """Of a node that takes text; None if it can do nothing with it.

    Without declared pairs it translates from the languages it recognises or repairs into any it knows: one that only
    speaks declares nothing, and must not pass for a translator.
    """
    if declared is None:
        found = TextReach(read, read | voices, voices)
    else:
        useful = frozenset(pair for pair in declared if pair.src != pair.tgt)
        sources, targets = (frozenset(pair[place] for pair in useful) for place in (0, 1))
        found = TextReach(sources, targets, voices, useful)
    return found if found.pair_count else None
