"""Which language pairs are wanted: asked for lately, listed by the operator, or asked for in the past days."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_sdk.domain.languages import is_code

# A pair that was served when it was asked for is wanted for so long; one that no node served is soon forgotten,
# because every client may ask for anything.
ASKED_MS = 3_600_000
MISSED_MS = 600_000
# As long as the record reaches back, and what it holds at most of each kind.
HISTORY_MS = 7 * 86_400_000
ASKED_MAX = 1_000
MISSED_MAX = 50
# In the operator's list: everything in the record.
HISTORY = "history"


class Demand(NamedTuple):
    """When each pool (src:tgt:facet) was last asked for."""

    # Those that nodes served when they were asked for, and those that no node ever did.
    asked: Mapping[str, int] = {}
    missed: Mapping[str, int] = {}


def wanted_pools(demand: Demand, listed: Collection[str], now_ms: int) -> set[str]:
    """`listed`: the setting pools.wanted."""
    kept_ms = HISTORY_MS if HISTORY in listed else ASKED_MS
    lately = {pool for pool, at_ms in demand.asked.items() if now_ms - at_ms < kept_ms}
    missed = {pool for pool, at_ms in demand.missed.items() if now_ms - at_ms < MISSED_MS}
    return lately | missed | {_pool(text) for text in listed if text != HISTORY}


def expected_pools(demand: Demand, listed: Collection[str]) -> set[str]:
    """Those whose loss is an outage: a node served them when they were asked for, or the operator lists them."""
    return {*demand.asked, *(_pool(text) for text in listed if text != HISTORY)}


def is_listable(text: str) -> bool:
    """Whether it may stand in pools.wanted: src:tgt, src:tgt:text, or the word for what was asked for before."""
    src, tgt, facet = Pool.parse(text)
    return text == HISTORY or (is_code(src) and is_code(tgt) and facet in ("", *Facet))


def _pool(text: str) -> str:
    src, tgt, facet = Pool.parse(text)
    return str(Pool(src, tgt, facet or Facet.SPEECH))
