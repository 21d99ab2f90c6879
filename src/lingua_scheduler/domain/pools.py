"""Which pools a node belongs to: the rule of admission."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import product
from typing import NamedTuple

from lingua_scheduler.domain.languages import MAX_PAIRS, Pair


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


def pools_for(languages: Languages, admission: Admission) -> frozenset[str]:
    """Every pool the node serves, never more than MAX_PAIRS pairs."""
    names: set[str] = set()
    for pair in _admitted_pairs(languages, admission)[:MAX_PAIRS]:
        names.add(pool_name(pair.src, pair.tgt, Facet.TEXT))
        if pair.tgt in languages.tts:
            names.add(pool_name(pair.src, pair.tgt, Facet.SPEECH))
    return frozenset(names)


def pairs_cut_off(languages: Languages, admission: Admission) -> int:
    """How many pairs MAX_PAIRS left out."""
    return max(0, len(_admitted_pairs(languages, admission)) - MAX_PAIRS)


def missing_abilities(src: str, tgt: str, facet: str, admission: Admission, fleet: Sequence[Languages]) -> str:
    """One sentence on why no node of the fleet serves a pair."""
    if not fleet:
        return "no node is connected"
    needed: dict[str, Callable[[Languages], bool]] = {f"asr({src})": lambda node: src in node.asr}
    if admission is Admission.STRICT:
        needed[f"semantic({src})"] = lambda node: src in node.semantic
    elif admission is Admission.ASR_SEMANTIC:
        needed[f"semantic({tgt})"] = lambda node: tgt in node.semantic
    if admission is Admission.STRICT and src != tgt:
        needed[f"nmt({src}→{tgt})"] = lambda node: _translates(node, src, tgt) and tgt in _targets(node)
    if facet == Facet.SPEECH or admission is Admission.ASR_TTS:
        needed[f"tts({tgt})"] = lambda node: tgt in node.tts
    nowhere = [name for name, has in needed.items() if not any(map(has, fleet))]
    if nowhere:
        return f"no node serves {' + '.join(nowhere)}"
    return f"no single node serves {' + '.join(needed)}"


def _admitted_pairs(languages: Languages, admission: Admission) -> list[Pair]:
    match admission:
        case Admission.STRICT:
            possible = product(languages.asr & languages.semantic, _targets(languages))
            pairs = [Pair(src, tgt) for src, tgt in possible if _translates(languages, src, tgt)]
        case Admission.ASR_TTS:
            pairs = [Pair(*pair) for pair in product(languages.asr, languages.tts) if languages.semantic]
        case Admission.ASR_SEMANTIC:
            pairs = [Pair(*pair) for pair in product(languages.asr, languages.semantic)]
    # Pairs that translate come first, so that a cut-off costs the echoes before the translations.
    return sorted(pairs, key=lambda pair: (pair.src == pair.tgt, pair))


def _targets(languages: Languages) -> frozenset[str]:
    """Without declared translations any known language can be a target; text needs no voice."""
    declared = {pair.tgt for pair in languages.translations or ()}
    return languages.asr | languages.semantic | languages.tts | declared


def _translates(languages: Languages, src: str, tgt: str) -> bool:
    return src == tgt or languages.translations is None or Pair(src, tgt) in languages.translations
