"""Results for HTTP callers: kept in memory, bounded in number, bytes and time."""

import sys
from collections import OrderedDict

import msgspec

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.protocol.http_dispatch import FetchedResult, ResultError
from lingua_scheduler.services.attempts.work import Outcome, Refusal, cause_of
from lingua_scheduler.services.dispatch.idempotency import Placement
from lingua_scheduler.services.dispatch.stages import degraded_of
from lingua_scheduler.setting_sections.callers import CallsSettings
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.errors import ErrorCode

# Of a result without its texts.
ENVELOPE_BYTES = 512


class _Kept(msgspec.Struct, frozen=True, gc=False):
    result: FetchedResult
    size_bytes: int
    forget_at_s: float
    belongs_to: str


class Results:
    """A bounded store of results; the oldest are dropped first. The time is passed in."""

    def __init__(self, settings: CallsSettings) -> None:
        self._settings = settings
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, result: FetchedResult, now_s: float, belongs_to: str = "") -> None:
        detail = result.error.detail if result.error else None
        texts = (result.job_id, result.text_asr, result.text_translated, result.tts_audio, detail)
        size_bytes = ENVELOPE_BYTES + sum(sys.getsizeof(text) for text in texts if text)
        self._drop(result.job_id)
        self._kept[result.job_id] = _Kept(result, size_bytes, now_s + self._settings.keep_ms / 1000, belongs_to)
        self._held_bytes += size_bytes
        while len(self._kept) > self._settings.max_results or self._held_bytes > self._settings.max_result_bytes:
            self._drop(next(iter(self._kept)))
        self.forget_old(now_s)

    def find(self, job_id: str, now_s: float, belongs_to: str = "") -> FetchedResult | None:
        """For the principal whose job it was, by its digest. No other caller gets it, not even an administrator."""
        self.forget_old(now_s)
        kept = self._kept.get(job_id)
        return kept.result if kept is not None and kept.belongs_to == belongs_to else None

    def take(self, job_id: str) -> FetchedResult | None:
        """For the only caller that will ask."""
        kept = self._kept.get(job_id)
        self._drop(job_id)
        return kept.result if kept is not None else None

    def forget_old(self, now_s: float) -> None:
        while self._kept and next(iter(self._kept.values())).forget_at_s <= now_s:
            self._drop(next(iter(self._kept)))
        metrics.RESULTS_BYTES.set(self._held_bytes)

    def _drop(self, job_id: str) -> None:
        kept = self._kept.pop(job_id, None)
        if kept is not None:
            self._held_bytes -= kept.size_bytes


def result_of(job_id: str, outcome: Outcome) -> FetchedResult:
    """The part of an outcome that a caller may fetch."""
    code, detail = cause_of(outcome)
    error = ResultError(code=code, detail=detail or "") if code is not None else None
    said = outcome.result
    return FetchedResult(
        job_id=job_id,
        state=outcome.state,
        text_asr=said.text_asr if said else None,
        text_translated=said.text_translated if said else None,
        tts_audio=said.tts_audio if said else None,
        tts_format=said.tts_format if said else None,
        error=error,
        degraded=degraded_of(outcome) if said else None,
    )


def end_of(ended: Outcome | Placement | Refusal) -> tuple[JobState, ErrorCode | None, str]:
    """State, error and job id of a call that has ended."""
    match ended:
        case Outcome():
            return ended.state, ended.error, ended.job_id
        case Placement():
            # A repeat: another call has the job.
            return JobState.CANCELLED, None, ended.job_id
        case Refusal():
            return JobState.FAILED, ended.code, ""
