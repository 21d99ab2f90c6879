"""The ladder: by which pools an utterance gets into a language, from one whole job down to what is still possible."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.pools.names import Facet, Pool

# Fewer languages than this do not pay for a recognition of their own.
SHARED_BY_LEAST = 2

# The served pool that stands for one that is asked for; None if there is none.
Find = Callable[[Pool], Pool | None]


class Rung(StrEnum):
    WHOLE = "whole"  # one job, from speech to the target
    SPLIT = "split"  # several jobs, with the same result
    PIVOT = "pivot"  # translated by way of a third language
    TEXT_ONLY = "text_only"  # without the speech that was asked for


class LadderRules(NamedTuple):
    """What may be given up when no node does all of it."""

    pivots: tuple[str, ...] = ()
    text_fallback: bool = False


STRICT = LadderRules()


class StagePlan(NamedTuple):
    """Pools of the jobs of one utterance, one after the other: each brings the text of the one before."""

    stages: tuple[Pool, ...]
    rung: Rung
    # The third language, if there is one.
    pivot: str = ""

    @property
    def is_degraded(self) -> bool:
        return self.rung in (Rung.PIVOT, Rung.TEXT_ONLY)

    def in_words(self, place: int, before: Sequence[str]) -> str:
        """Of one of its jobs: which it is, and after which jobs."""
        lost = " without speech" if self.rung is Rung.TEXT_ONLY else ""
        by = f" by way of {self.pivot}" if self.pivot else ""
        after = f", after {', '.join(before)}" if before else ""
        return f"it is job {place + 1} of {len(self.stages)} for its utterance{by}{lost}{after}"


class Shares(NamedTuple):
    """An utterance for several languages: those that start from a shared recognition, and those that do not.

    A language without a plan is one that no nodes serve.
    """

    recognition: Pool | None
    from_text: Mapping[str, StagePlan]
    others: Mapping[str, StagePlan | None]


def plan_of(src: str, tgt: str, *, speaks: bool, find: Find, rules: LadderRules = STRICT) -> StagePlan | None:
    """From speech; None if no nodes serve it in any way that is allowed."""
    return _climb(_from_speech, src, tgt, speaks, find, rules)


def plan_from_text(src: str, tgt: str, *, speaks: bool, find: Find, rules: LadderRules = STRICT) -> StagePlan | None:
    """The same for what was recognised already; without stages if nothing is left to do."""
    return _climb(_from_text, src, tgt, speaks, find, rules)


def shares_of(src: str, targets: Mapping[str, bool], find: Find, rules: LadderRules) -> Shares:
    """One recognition for as many languages as nodes that take text serve without a loss, if they are enough.

    `targets`: language → whether it is to be spoken.
    """
    recognition = find(Pool(src, src, Facet.TEXT))
    served: dict[str, StagePlan] = {}
    if recognition is not None and len(targets) >= SHARED_BY_LEAST:
        for tgt, speaks in targets.items():
            plan = plan_from_text(src, tgt, speaks=speaks, find=find)
            if plan is not None:
                served[tgt] = plan
    if len(served) < SHARED_BY_LEAST:
        served = {}
    others: dict[str, StagePlan | None] = {}
    for tgt, speaks in targets.items():
        if tgt in served:
            continue
        plan = plan_of(src, tgt, speaks=speaks, find=find, rules=rules)
        later = None
        if served and (plan is None or plan.rung is not Rung.WHOLE):
            # By itself it would recognise the speech once more.
            later = plan_from_text(src, tgt, speaks=speaks, find=find, rules=rules)
        if later is not None:
            served[tgt] = later
        else:
            others[tgt] = plan
    return Shares(recognition if served else None, served, others)


_Way = Callable[[str, str, bool, Find], tuple[Pool, ...] | None]


def _climb(way: _Way, src: str, tgt: str, speaks: bool, find: Find, rules: LadderRules) -> StagePlan | None:
    """Speech by way of a third language comes before a text without speech: the listener may be unable to read."""
    for with_voice in (True, False) if speaks and rules.text_fallback else (speaks,):
        lacks_voice = speaks and not with_voice
        stages = way(src, tgt, with_voice, find)
        if stages is not None:
            rung = Rung.WHOLE if len(stages) < 2 else Rung.SPLIT
            return StagePlan(stages, Rung.TEXT_ONLY if lacks_voice else rung)
        for pivot in rules.pivots:
            stages = _by_way_of(pivot, way, (src, tgt), with_voice, find)
            if stages is not None:
                return StagePlan(stages, Rung.TEXT_ONLY if lacks_voice else Rung.PIVOT, pivot)
    return None


def _by_way_of(pivot: str, way: _Way, pair: tuple[str, str], with_voice: bool, find: Find) -> tuple[Pool, ...] | None:
    src, tgt = pair
    if pivot in pair or src == tgt:
        return None
    there, back = way(src, pivot, False, find), _from_text(pivot, tgt, with_voice, find)
    return None if there is None or back is None else (*there, *back)


def _from_speech(src: str, tgt: str, with_voice: bool, find: Find) -> tuple[Pool, ...] | None:
    whole = find(Pool(src, tgt, Facet.SPEECH if with_voice else Facet.TEXT))
    if whole is not None:
        return (whole,)
    if with_voice:
        # Two jobs, where the next way may need three.
        written, voice = find(Pool(src, tgt, Facet.TEXT)), _voice(tgt, find)
        if written is not None and voice is not None:
            return written, voice
    recognition = find(Pool(src, src, Facet.TEXT)) if src != tgt else None
    rest = _from_text(src, tgt, with_voice, find) if recognition is not None else None
    return None if recognition is None or rest is None else (recognition, *rest)


def _from_text(src: str, tgt: str, with_voice: bool, find: Find) -> tuple[Pool, ...] | None:
    voice = _voice(tgt, find) if with_voice else None
    if src == tgt:
        return () if not with_voice else None if voice is None else (voice,)
    whole = find(Pool.from_text(src, tgt, Facet.SPEECH if with_voice else Facet.TEXT))
    if whole is not None:
        return (whole,)
    written = find(Pool.from_text(src, tgt, Facet.TEXT)) if voice is not None else None
    return None if written is None or voice is None else (written, voice)


def _voice(language: str, find: Find) -> Pool | None:
    return find(Pool.from_text(language, language, Facet.SPEECH))
