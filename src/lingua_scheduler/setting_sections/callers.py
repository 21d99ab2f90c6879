"""Settings of jobs of HTTP callers: repeated requests, results and sound files."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.setting_sections.kinds import DAY_MS, Bytes, Count, KeepMs, PeriodMs, UpToThousand, doc

# If it were shorter than a job takes, a repeated request would start a second job.
_RepeatMs = Annotated[int, Meta(ge=1000, le=30 * DAY_MS)]


class RequestsSettings(msgspec.Struct, frozen=True, kw_only=True):
    claim_ms: Annotated[
        PeriodMs, doc("Time to place the job of an idempotent request before a repeat of the request takes over")
    ] = 15_000
    keep_ms: Annotated[_RepeatMs, doc("Time for which a repeat of an idempotent request is answered with its job")] = (
        600_000
    )


class CallsSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_jobs: Annotated[Count, doc("Maximum unfinished jobs of HTTP callers; further ones are rejected")] = 1000
    max_results: Annotated[Count, doc("Maximum results kept for HTTP callers; above it the oldest are dropped")] = (
        10_000
    )
    max_result_bytes: Annotated[
        Bytes, doc("Maximum memory of all results kept for HTTP callers; above it the oldest are dropped")
    ] = 67_108_864
    keep_ms: Annotated[KeepMs, doc("Time for which the result of an HTTP caller's job can be fetched")] = 600_000
    max_upload_bytes: Annotated[Bytes, doc("Maximum size of a sound file sent to `POST /v1/translate`")] = 33_554_432
    max_upload_ms: Annotated[PeriodMs, doc("Maximum length of the audio in such a file")] = 120_000
    max_decoders: Annotated[UpToThousand, doc("Maximum processes that decode sound files at the same time")] = 2
    decode_timeout_ms: Annotated[PeriodMs, doc("Maximum time to decode one sound file")] = 30_000
    translate_timeout_ms: Annotated[
        PeriodMs, doc("Maximum time for `POST /v1/translate` to respond; also the default of its `timeout_ms`")
    ] = 120_000
