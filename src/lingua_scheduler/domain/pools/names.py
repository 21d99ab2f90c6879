"""The name of a pool, src:tgt:facet, as a value."""

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from lingua_scheduler.domain.pools.languages import AUTO, Pair

# Every job names its pool, and a fleet has as many as it serves pairs.
REMEMBERED_MAX = 4_096
# A wide pool is named `*:<digest>:text`. No language code is `*`, so it is never taken for a pair; and readers that
# do not know wide pools can still split it into three words.
_WIDE = "*"


class Facet(StrEnum):
    SPEECH = "speech"  # the target is also spoken
    TEXT = "text"


class Pool(NamedTuple):
    src: str
    tgt: str
    facet: str

    def __str__(self) -> str:
        return f"{self.src}:{self.tgt}:{self.facet}"

    @property
    def pair(self) -> Pair:
        return Pair(self.src, self.tgt)

    @staticmethod
    @lru_cache(maxsize=REMEMBERED_MAX)
    def parse(name: str) -> "Pool":
        """Of what is no pool's name the words that are there; those that are missing are empty."""
        src, _, rest = name.partition(":")
        return Pool(src, *rest.partition(":")[::2])

    @classmethod
    def wide(cls, digest: str) -> "Pool":
        """The one pool of all nodes that have the reach with this digest."""
        return cls(_WIDE, digest, Facet.TEXT)


def asked_pair(pools: Sequence[str]) -> Pair:
    """What a job asks for, in a pair: auto and the target if one of several languages is spoken, a+b if either way."""
    pairs = [Pool.parse(pool).pair for pool in pools]
    if len(pairs) == 1:
        return pairs[0]
    return Pair(AUTO, "+".join(sorted({pair.tgt for pair in pairs}))) if pairs else Pair("", "")


def is_wide(name: str) -> bool:
    return name.startswith(f"{_WIDE}:")
