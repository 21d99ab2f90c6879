"""The name of a pool, src:tgt:facet, as a value.

text/src:tgt:facet if its jobs bring text instead of speech; @tenant follows if its nodes are private to a tenant.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from lingua_sdk.domain.languages import AUTO, Pair

# Every job names its pool, and a fleet has as many as it serves pairs.
REMEMBERED_MAX = 4_096
# A wide pool is named `*:<digest>:text`. No language code is `*`, so it is never taken for a pair; and readers that
# do not know wide pools can still split it into three words.
_WIDE = "*"
# Before the source of a pool whose jobs bring text. No language code has a slash; and readers that do not know such
# pools can still split the name into three words, so that they remove a node from them.
_FROM_TEXT = "text/"
# Before the tenant. No language code and no facet has it.
_PRIVATE = "@"


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
        return Pair(self.src.removeprefix(_FROM_TEXT), self.tgt)

    @property
    def is_from_text(self) -> bool:
        """Whether its jobs bring text: its nodes need not recognise speech."""
        return self.src.startswith(_FROM_TEXT)

    @classmethod
    def from_text(cls, src: str, tgt: str, facet: str) -> "Pool":
        return cls(_FROM_TEXT + src, tgt, facet)

    @staticmethod
    @lru_cache(maxsize=REMEMBERED_MAX)
    def parse(name: str) -> "Pool":
        """Of what is no pool's name the words that are there; those that are missing are empty. Without the tenant."""
        src, _, rest = name.partition(":")
        tgt, _, facet = rest.partition(":")
        return Pool(src, tgt, facet.partition(_PRIVATE)[0])

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


def is_from_text(name: str) -> bool:
    return name.startswith(_FROM_TEXT)


@lru_cache(maxsize=REMEMBERED_MAX)
def private_name(pool: str, tenant: str) -> str:
    """The pool of the tenant's private nodes that serve the same. No other job names it, so none gets there."""
    return f"{pool}{_PRIVATE}{tenant}"


@lru_cache(maxsize=REMEMBERED_MAX)
def private_names(pools: tuple[str, ...], tenant: str) -> tuple[str, ...]:
    return tuple(private_name(pool, tenant) for pool in pools)


def tenant_of(name: str) -> str:
    """The tenant to whom the pool's nodes are private; empty if they are for all."""
    return name.rpartition(":")[2].partition(_PRIVATE)[2]


def public_name(name: str) -> str:
    tenant = tenant_of(name)
    return name.removesuffix(f"{_PRIVATE}{tenant}") if tenant else name
