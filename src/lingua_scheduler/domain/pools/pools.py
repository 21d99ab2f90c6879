"""Which pools a node belongs to: the rule of admission."""

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from lingua_scheduler.domain.pools.languages import MAX_PAIRS, Pair
from lingua_scheduler.domain.pools.reach import Reach, Served, reach_between, wide_pool

# Ways to put languages together whose membership is remembered; a fleet has as many as it has kinds of nodes.
REMEMBERED_MAX = 16


class Facet(StrEnum):
    SPEECH = "speech"  # the target is also spoken
    TEXT = "text"


class Admission(StrEnum):
    STRICT = "strict"
    ASR_TTS = "asr_tts"
    ASR_SEMANTIC = "asr_semantic"


class Languages(NamedTuple):
    """What a node says it can do; `translations` None means it did not say, hence any."""

    asr: frozenset[str] = frozenset()
    semantic: frozenset[str] = frozenset()
    tts: frozenset[str] = frozenset()
    translations: frozenset[Pair] | None = None


def pool_name(src: str, tgt: str, facet: Facet) -> str:
    return f"{src}:{tgt}:{facet.value}"


class Membership(NamedTuple):
    """The pools a node joins: one for each pair and facet, or one in all when it is wide, serving more than MAX_PAIRS.

    Work and memory in Redis then do not grow with the number of pairs; see `docs/decisions/0022-wide-nodes.md`.
    """

    pools: frozenset[str] = frozenset()
    # Of a wide node, and how it is stored.
    reach: Reach | None = None
    definition: str = ""

    @property
    def serves(self) -> Collection[str]:
        """The pools of every pair it serves, whichever it joins."""
        return self.pools if self.reach is None else Served(self.reach)


@lru_cache(maxsize=REMEMBERED_MAX)
def membership_of(languages: Languages, admission: Admission) -> Membership:
    """Nodes with the same languages share one value."""
    reach = reach_of(languages, admission)
    if reach.count() > MAX_PAIRS:
        definition = reach.encoded()
        return Membership(frozenset({wide_pool(definition)}), reach, definition)
    return Membership(frozenset(Served(reach)))


def pools_for(languages: Languages, admission: Admission) -> frozenset[str]:
    """Every pool the node joins."""
    return membership_of(languages, admission).pools


def reach_of(languages: Languages, admission: Admission) -> Reach:
    """Every pair the node serves."""
    match admission:
        case Admission.STRICT:
            targets = _targets(languages)
            return reach_between(
                languages.asr & languages.semantic, targets, languages.tts, declared=languages.translations
            )
        case Admission.ASR_TTS:
            sources = languages.asr if languages.semantic else frozenset[str]()
            return reach_between(sources, languages.tts, languages.tts, declared=None)
        case Admission.ASR_SEMANTIC:
            return reach_between(languages.asr, languages.semantic, languages.tts, declared=None)


def missing_abilities(src: str, tgt: str, facet: str, admission: Admission, fleet: Sequence[Languages]) -> str:
    """One sentence on why no node of the fleet serves a pair."""
    if not fleet:
        return "no node is connected"
    needed: dict[str, Callable[[Languages], bool]] = {f"asr({src})": lambda node: src in node.asr}
    if admission is Admission.STRICT:
        needed[f"semantic({src})"] = lambda node: src in node.semantic
    elif admission is Admission.ASR_TTS:
        needed["semantic(any)"] = lambda node: bool(node.semantic)
    else:
        needed[f"semantic({tgt})"] = lambda node: tgt in node.semantic
    if admission is Admission.STRICT and src != tgt:
        needed[f"nmt({src}→{tgt})"] = lambda node: _translates(node, src, tgt) and tgt in _targets(node)
    if facet == Facet.SPEECH or admission is Admission.ASR_TTS:
        needed[f"tts({tgt})"] = lambda node: tgt in node.tts
    nowhere = [name for name, has in needed.items() if not any(map(has, fleet))]
    if nowhere:
        return f"no node serves {' + '.join(nowhere)}"
    return f"no single node serves {' + '.join(needed)}"


def _targets(languages: Languages) -> frozenset[str]:
    """Without declared translations any known language can be a target; text needs no voice."""
    declared = {pair.tgt for pair in languages.translations or ()}
    return languages.asr | languages.semantic | languages.tts | declared


def _translates(languages: Languages, src: str, tgt: str) -> bool:
    return src == tgt or languages.translations is None or Pair(src, tgt) in languages.translations
