"""Pairs that no node translates alone, and that several jobs serve: split, by a third language, or as text only."""

from collections.abc import Callable, Iterable, Iterator

from lingua_scheduler.domain.pools.ladder import LadderRules, Rung, plan_of
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.watching.picture import DetourLook

# Of more languages the first ones are looked at: pairs grow with the square.
MAX_LANGUAGES = 48
MAX_DETOURS = 500


def possible_pairs(pools: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of every language that is spoken into every one that is written, by the names of the pools."""
    named = [Pool.parse(name) for name in pools]
    sources = sorted({pool.pair.src for pool in named if not pool.is_from_text})[:MAX_LANGUAGES]
    targets = sorted({pool.tgt for pool in named})[:MAX_LANGUAGES]
    return ((src, tgt) for src in sources for tgt in targets if src != tgt)


def detour_of(src: str, tgt: str, is_served: Callable[[str], bool], rules: LadderRules) -> DetourLook | None:
    """How the pair is served as speech, by the names of pools; None if one node does it, or no nodes do."""

    def find(pool: Pool) -> Pool | None:
        return pool if is_served(str(pool)) else None

    plan = plan_of(src, tgt, speaks=True, find=find, rules=rules)
    if plan is None or plan.rung is Rung.WHOLE:
        return None
    return DetourLook(src=src, tgt=tgt, rung=plan.rung, pivot=plan.pivot)
