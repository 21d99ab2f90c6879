"""Figures for older pages and scripts that poll, in the formats they expect."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from lingua_scheduler.domain.nodes.model_hub import OfferedService
from lingua_scheduler.domain.watching.picture import Level


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered from the latest picture."""


class LanguageCount(Polled, frozen=True, kw_only=True):
    language: str
    count: int


class LanguageUsage(Polled, frozen=True, kw_only=True):
    as_source: int
    as_target: int
    total: int


class WebClients(Polled, frozen=True, kw_only=True):
    active_users: Annotated[int, Meta(description="Open sessions")]
    top_languages: Annotated[list[LanguageCount], Meta(description="The ten languages used by most sessions")]
    language_usage: dict[str, LanguageUsage]


class NodePower(Polled, frozen=True, kw_only=True):
    node_id: str
    cpu_power: Annotated[float, Meta(description="Cores")]
    gpu_power: Annotated[float, Meta(description="GB of GPU memory")]
    memory_power: Annotated[float, Meta(description="GB of memory")]


class ComputePower(Polled, frozen=True, kw_only=True):
    """As nodes reported at registration; a node that reported nothing counts as 0."""

    total_cpu_power: float
    total_gpu_power: float
    total_memory_power: float
    node_power_details: list[NodePower]


class NodeStats(Polled, frozen=True, kw_only=True):
    connected_nodes: int
    type_node_counts: Annotated[dict[str, int], Meta(description="Number of nodes that have a service of this type")]
    available_services: Annotated[
        list[OfferedService], Meta(description="Services of the model hub; without a hub, those of the nodes")
    ]
    total_services: int
    type_in_use_counts: Annotated[dict[str, int], Meta(description="Number of those nodes that are running a job")]
    compute_power: ComputePower


class Stats(Polled, frozen=True, kw_only=True):
    web_clients: WebClients
    nodes: NodeStats
    stale: Annotated[bool | UnsetType, Meta(description="Present, and true, only while Redis is unavailable")] = UNSET


class ClusterInstance(Polled, frozen=True, kw_only=True):
    instance_id: str
    hostname: str
    pid: int
    version: str
    started_at_ms: int
    uptime_seconds: int
    is_online: bool
    inbox_length: int
    inbox_pending: int
    dlq_length: int
    nodes_owned: int
    sessions_owned: int


class ClusterNode(Polled, frozen=True, kw_only=True):
    node_id: str
    platform: str
    online: bool
    status: str
    cpu_usage: Annotated[
        float | None, Meta(description="Percent, like the next two fields; null if the node does not report it")
    ]
    gpu_usage: float | None
    memory_usage: float | None
    current_jobs: int
    max_concurrent_jobs: int
    last_heartbeat: Annotated[int, Meta(description="Last heartbeat, epoch ms")]
    services: list[str]
    capabilities: Annotated[list[str], Meta(description="Types of its services")]


class ClusterStats(Polled, frozen=True, kw_only=True):
    instances: list[ClusterInstance]
    total_instances: int
    online_instances: int
    total_nodes: int
    online_nodes: int
    ready_nodes: int
    total_sessions: int
    total_pending: int
    total_dlq: int
    redis_key_prefix: str
    nodes: list[ClusterNode]


class FlatFigures(Polled, frozen=True, kw_only=True):
    """Figures of all instances together.

    Totals count from the start of each live instance; rates cover the last interval.
    """

    at_ms: int
    redis_up: bool
    redis_version: str
    instances: int
    instances_alive: int
    leader: str | None
    map_version: int
    sessions: int
    nodes: int
    nodes_ready: int
    pairs: int
    pairs_served: int
    slots_total: int
    slots_taken: int
    jobs_waiting: int
    jobs_done_total: int
    jobs_no_text_total: int
    jobs_failed_total: int
    jobs_cancelled_total: int
    jobs_done_per_s: float
    jobs_no_text_per_s: float
    jobs_failed_per_s: float
    jobs_cancelled_per_s: float
    retries_per_s: float
    latency_p50_ms: Annotated[float | None, Meta(description="Null if no job ended, like the next two fields")]
    latency_p95_ms: float | None
    latency_p99_ms: float | None
    inbox_letters: int
    dead_letters: int
    alarms_critical: int
    alarms_warning: int
    # notice, warning or critical; null: all is well.
    verdict: Level | None
