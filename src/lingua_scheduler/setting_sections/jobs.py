"""Settings of jobs: how long they wait, their timeouts and retries."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.setting_sections.kinds import Count, KeepMs, Percent, PeriodMs, WaitMs, doc

_QueueMax = Annotated[int, Meta(ge=0, le=1_000_000)]
_Factor = Annotated[float, Meta(ge=0, le=100)]


class DispatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    queue_wait_ms: Annotated[
        WaitMs,
        doc(
            "Maximum time a job waits for a free slot. Load shedding: while the queue is long and does not "
            "shrink, new jobs are rejected once the expected wait exceeds 10 % of this"
        ),
    ] = 10_000
    queue_max: Annotated[_QueueMax, doc("Maximum jobs waiting per language pair; further ones are rejected")] = 5_000


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    reservation_ttl_ms: Annotated[PeriodMs, doc("Maximum time for a node to acknowledge a job")] = 5000
    timeout_base_ms: Annotated[PeriodMs, doc("Base of a job's timeout, which applies however short its audio is")] = (
        15_000
    )
    timeout_factor: Annotated[_Factor, doc("Added to the timeout: this factor times the length of the audio")] = 2.0
    timeout_max_ms: Annotated[PeriodMs, doc("Upper limit of a job's timeout, however long its audio is")] = 60_000
    linger_ms: Annotated[
        WaitMs, doc("Time a slot stays occupied after its job was given up while the node may still be running it")
    ] = 30_000
    max_retries: Annotated[int, Meta(ge=0, le=100), doc("Maximum retries after the first attempt fails")] = 2
    deadline_ms: Annotated[PeriodMs, doc("Time after the end of an utterance when no further attempt is started")] = (
        120_000
    )
    retry_percent: Annotated[Percent, doc("Retry budget: retries as a percentage of an instance's jobs")] = 10
    retry_burst: Annotated[Count, doc("Retries allowed beyond that budget when many attempts fail at once")] = 1000
    keep_ms: Annotated[KeepMs, doc("Time for which a finished job can be looked up")] = 3_600_000
    failures_max: Annotated[Count, doc("Maximum entries in the failure history of the fleet; the oldest go first")] = (
        10_000
    )
    failures_keep_ms: Annotated[KeepMs, doc("Time for which a failed job stays in the failure history")] = 604_800_000
