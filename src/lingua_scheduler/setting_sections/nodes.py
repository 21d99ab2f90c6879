"""Settings of nodes: heartbeats, slots, limits and the circuit breaker; and of a model hub."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.setting_sections.kinds import Bytes, Count, LookMs, Percent, PeriodMs, UpToThousand, doc


class NodesSettings(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_interval_ms: Annotated[
        PeriodMs, doc("Heartbeat interval assumed for nodes that do not announce their own")
    ] = 15_000
    missed_heartbeats: Annotated[UpToThousand, doc("Missed heartbeats after which a node is considered gone")] = 3
    default_max_jobs: Annotated[Count, doc("Slots of a node that does not announce `max_concurrent_jobs`")] = 4
    max_jobs: Annotated[Count, doc("Maximum slots a node may announce")] = 256
    register_within_ms: Annotated[PeriodMs, doc("Time a new node connection has to register before it is closed")] = (
        30_000
    )
    max_frames_per_s: Annotated[
        Count, doc("Maximum frames per second from one node; above it the node is read more slowly")
    ] = 1000
    max_bytes_per_s: Annotated[
        Bytes, doc("Maximum bytes per second from one node; above it the node is read more slowly")
    ] = 33_554_432
    believed_slots: Annotated[
        int,
        Meta(ge=0, le=1_000_000),
        doc("Slots that a new node is given at first, of those it announces; 0 = all, for fleets you trust"),
    ] = 8
    believed_after: Annotated[
        Count, doc("Successful jobs after which a node's usable slots double, up to what it announces")
    ] = 20
    max_heartbeats_per_s: Annotated[
        Count,
        doc("Maximum heartbeats per second from one node; faster ones are coalesced, and only the newest is applied"),
    ] = 10
    max_changes_per_min: Annotated[
        Count,
        doc(
            "Maximum capability changes per minute from one node; faster ones are coalesced, and only the newest "
            "is applied"
        ),
    ] = 20
    callback_timeout_ms: Annotated[PeriodMs, doc("Maximum time for a node's `callback_url` to respond")] = 2_000
    max_cpu_percent: Annotated[Percent, doc("CPU usage above which a node is degraded and gets no new jobs")] = 100
    max_memory_percent: Annotated[Percent, doc("Memory usage above which a node is degraded and gets no new jobs")] = 95
    max_gpu_percent: Annotated[Percent, doc("GPU usage above which a node is degraded and gets no new jobs")] = 100
    max_gpu_memory_percent: Annotated[
        Percent, doc("GPU memory usage above which a node is degraded and gets no new jobs")
    ] = 100
    quarantine_failures: Annotated[
        UpToThousand,
        doc(
            "Circuit breaker: a node is quarantined after this many failures among its last "
            "`nodes.quarantine_window` jobs"
        ),
    ] = 5
    quarantine_window: Annotated[
        UpToThousand, doc("Number of a node's most recent jobs in which failures are counted")
    ] = 20
    quarantine_consecutive: Annotated[
        UpToThousand, doc("A node is also quarantined after this many failures in a row")
    ] = 3
    quarantine_ms: Annotated[
        PeriodMs,
        doc(
            "Duration of the first quarantine. A failed probe doubles it, up to ten times the first; a restarted node"
            " gets its probe sooner"
        ),
    ] = 60_000
    unavailable_ms: Annotated[
        PeriodMs, doc("Time a node gets no jobs that need a service after it reported that the service is missing")
    ] = 60_000


class CatalogueSettings(msgspec.Struct, frozen=True, kw_only=True):
    url: Annotated[str, doc("URL of a model hub's list of services (JSON); empty = no hub")] = ""
    file: Annotated[
        str,
        doc(
            "Copy of the list for when the hub is unavailable. A bare file name is relative to `redis.data_dir`; "
            "empty = no copy"
        ),
    ] = "services_index.json"
    interval_ms: Annotated[LookMs, doc("Interval at which the hub is polled")] = 30_000
