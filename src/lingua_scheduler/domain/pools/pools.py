"""Admission: which pools a node belongs to."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from lingua_scheduler.domain.pools.language_names import language_name
from lingua_scheduler.domain.pools.names import Facet, private_name
from lingua_scheduler.domain.pools.reach import Reach, Served, reach_between, wide_pool
from lingua_scheduler.domain.pools.text_reach import text_reach
from lingua_sdk.domain.languages import Pair

# Ways to put languages together whose membership is remembered; a fleet has as many as it has kinds of nodes.
REMEMBERED_MAX = 16


class Admission(StrEnum):
    STRICT = "strict"
    ASR_TTS = "asr_tts"
    ASR_SEMANTIC = "asr_semantic"


class Languages(NamedTuple):
    """A node's languages; `translations` None means that it declares none, hence any pair."""

    asr: frozenset[str] = frozenset()
    semantic: frozenset[str] = frozenset()
    tts: frozenset[str] = frozenset()
    translations: frozenset[Pair] | None = None


class Membership(NamedTuple):
    """The pools a node joins: one per pair and facet, or a single one if it is wide, serving more than MAX_PAIRS.

    For wide nodes, work and memory in Redis do not grow with the number of pairs; see
    `docs/decisions/0022-wide-nodes.md`.
    """

    pools: frozenset[str] = frozenset()
    # Of a wide node, and how it is stored.
    reach: Reach | None = None
    definition: str = ""
    # To whom the node is private; empty if it is for all.
    tenant: str = ""

    @property
    def serves(self) -> Collection[str]:
        """The pools of every pair it serves, whichever it joins."""
        return self.pools if self.reach is None else Served(self.reach, self.tenant)


@lru_cache(maxsize=REMEMBERED_MAX)
def membership_of(languages: Languages, admission: Admission, *, takes_text: bool = False) -> Membership:
    """Nodes with the same languages share one value."""
    reach = reach_of(languages, admission, takes_text=takes_text)
    if reach.is_wide:
        definition = reach.encoded()
        return Membership(frozenset({wide_pool(definition)}), reach, definition)
    return Membership(frozenset(Served(reach)))


@lru_cache(maxsize=REMEMBERED_MAX)
def private_membership(public: Membership, tenant: str) -> Membership:
    """The same for a node that is private to a tenant: pools that no other job names."""
    return public._replace(pools=frozenset(private_name(pool, tenant) for pool in public.pools), tenant=tenant)


def reach_of(languages: Languages, admission: Admission, *, takes_text: bool = False) -> Reach:
    """Every pair the node serves. One that takes text needs neither recognition nor repair for jobs that bring it."""
    heard = _reach_of_speech(languages, admission)
    if not takes_text:
        return heard
    written = text_reach(languages.asr | languages.semantic, languages.tts, languages.translations)
    return replace(heard, from_text=written)


def _reach_of_speech(languages: Languages, admission: Admission) -> Reach:
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


def why_unpooled(
    languages: Languages, admission: Admission, label: str = "{} languages", *, takes_text: bool = False
) -> str | None:
    """Why a node with these languages gets no jobs, and the next step; None if it serves a pair.

    `label` makes the name of a list from its kind, as the node writes it.
    """
    if membership_of(languages, admission, takes_text=takes_text).pools:
        return None
    lists = {"asr": languages.asr, "semantic": languages.semantic}
    if admission is Admission.ASR_TTS:
        lists["tts"] = languages.tts
    empty = [label.format(kind) for kind, codes in lists.items() if not codes]
    if empty:
        return f"no jobs until it declares {_listed(empty, 'and')} (pools.admission)"
    return "no jobs: no language pair follows from the languages it declares (pools.admission)"


def missing_from_text(src: str, tgt: str, facet: str) -> str:
    """Why no node takes text of a pair; clients do not ask for that, but a job may be left without its node."""
    does = [f"translates {language_name(src)} into {language_name(tgt)}"] if src != tgt else []
    does += [f"speaks {language_name(tgt)}"] if facet == Facet.SPEECH else []
    return f"no node that takes text {' and '.join(does)}"


def missing_abilities(src: str, tgt: str, facet: str, admission: Admission, fleet: Sequence[Languages]) -> str:
    """Why no node serves a pair, and the next step. People read it: clients, operators and callers over HTTP."""
    step = f"start one with: lingua node --languages {','.join(dict.fromkeys((src, tgt)))}"
    if not fleet:
        return f"no node is connected; {step}"
    needed = _needed(src, tgt, facet, admission)
    nowhere = [ability for ability, has in needed.items() if not any(map(has, fleet))]
    if nowhere:
        return f"no node {_listed(nowhere, 'or')}; {step}"
    return f"no single node {_listed(list(needed), 'and')}; {step}"


def _needed(src: str, tgt: str, facet: str, admission: Admission) -> dict[str, Callable[[Languages], bool]]:
    """What a node must be able to do for a pair, in words, and whether one can."""
    source, target = language_name(src), language_name(tgt)
    needed: dict[str, Callable[[Languages], bool]] = {f"understands {source}": lambda node: src in node.asr}
    if admission is Admission.STRICT:
        needed[f"repairs {source} text"] = lambda node: src in node.semantic
    elif admission is Admission.ASR_TTS:
        needed["repairs text"] = lambda node: bool(node.semantic)
    else:
        needed[f"repairs {target} text"] = lambda node: tgt in node.semantic
    if admission is Admission.STRICT and src != tgt:
        needed[f"translates {source} into {target}"] = lambda node: (
            _translates(node, src, tgt) and tgt in _targets(node)
        )
    if facet == Facet.SPEECH or admission is Admission.ASR_TTS:
        needed[f"speaks {target}"] = lambda node: tgt in node.tts
    return needed


def _listed(abilities: Sequence[str], conjunction: str) -> str:
    *others, last = abilities
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def _targets(languages: Languages) -> frozenset[str]:
    """Without declared translations any known language can be a target; text needs no voice."""
    declared = {pair.tgt for pair in languages.translations or ()}
    return languages.asr | languages.semantic | languages.tts | declared


def _translates(languages: Languages, src: str, tgt: str) -> bool:
    return src == tgt or languages.translations is None or Pair(src, tgt) in languages.translations
