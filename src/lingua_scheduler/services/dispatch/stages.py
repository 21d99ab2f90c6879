"""The jobs of one utterance as works of their own, and their results put together as one."""

from typing import Any

import msgspec

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_scheduler.services.attempts.work import NO_WISH, Outcome, Work
from lingua_sdk.protocol.node import JobResult
from lingua_sdk.protocol.shapes import Degraded

_TIMINGS = "service_timings"


def stage_of(work: Work, pool: Pool, branch: str, text: str | None = None) -> Work:
    """One job of the utterance: from its speech, or from `text`."""
    (src, tgt), asked = pool.pair, work.terms
    pipeline = asked.pipeline._replace(use_nmt=src != tgt, use_tts=pool.facet == Facet.SPEECH)
    if pool.is_from_text:
        pipeline = pipeline._replace(use_asr=False, use_semantic=False)
    terms = asked._replace(
        src_lang=src, tgt_lang=tgt, mode=None, lang_a=None, lang_b=None, auto_langs=None, pipeline=pipeline
    )
    stage = msgspec.structs.replace(
        work, terms=terms, pools=(str(pool),), branch=branch, asked=asked, request=None, binding=None
    )
    if not pool.is_from_text:
        return stage
    terms = terms._replace(enable_streaming_asr=False)
    # A node that the session is paired with gets all its jobs; one that is preferred may not take text.
    wish = work.wish if work.wish.paired_tenant else NO_WISH
    return msgspec.structs.replace(stage, terms=terms, text=text, audio=b"", audio_ref=None, wish=wish)


def text_after(pool: Pool, result: JobResult) -> str:
    """What the next job brings."""
    said = result.text_asr if pool.pair.src == pool.pair.tgt else result.text_translated
    return said or ""


def without_text(outcome: Outcome) -> Outcome:
    """Nothing was said: no job is left to do."""
    return msgspec.structs.replace(outcome, state=JobState.NO_TEXT)


def joined(before: Outcome, outcome: Outcome, pool: Pool, text: str) -> Outcome:
    """The outcome of a job as that of the utterance: with what was recognised, and the time of the jobs before.

    `text` is what the job brought: a node that only speaks need not repeat it.
    """
    speaks_only = pool.pair.src == pool.pair.tgt
    first, last = before.result, outcome.result
    attempts = before.attempts + outcome.attempts
    if first is None or last is None:
        return msgspec.structs.replace(outcome, attempts=attempts)
    result = msgspec.structs.replace(
        last,
        text_asr=first.text_asr,
        text_translated=text if speaks_only else last.text_translated,
        extra=_extra(first.extra or {}, last.extra or {}) or None,
        processing_time_ms=_sum(first.processing_time_ms, last.processing_time_ms),
        asr_quality_level=first.asr_quality_level,
        reason_codes=first.reason_codes,
        quality_score=first.quality_score,
        rerun_count=first.rerun_count,
        segments_meta=first.segments_meta,
    )
    return msgspec.structs.replace(outcome, result=result, attempts=attempts, away_ms=before.away_ms + outcome.away_ms)


def degraded_of(outcome: Outcome) -> Degraded | None:
    """What was given up, for the client; None if nothing."""
    plan = outcome.plan
    return None if plan is None else Degraded(rung=plan.rung.value, pivot=plan.pivot or None)


def _extra(first: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    """Of both, the later one's word counts; times are added up."""
    found = {**first, **last}
    timings = [one[_TIMINGS] for one in (first, last) if isinstance(one.get(_TIMINGS), dict)]
    if timings:
        names = dict.fromkeys(name for one in timings for name in one)
        found[_TIMINGS] = {name: _sum(*(one.get(name) for one in timings)) for name in names}
    return found


def _sum(*said: object) -> float | None:
    """Of those that are numbers; None if none is."""
    numbers = [value for value in said if isinstance(value, int | float) and not isinstance(value, bool)]
    return sum(numbers) if numbers else None
