"""The picture in the formats that older pages and scripts poll."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable

from msgspec import UNSET

from lingua_scheduler.console.compat.http_stats import (
    ClusterInstance,
    ClusterNode,
    ClusterStats,
    ComputePower,
    FlatFigures,
    LanguageCount,
    LanguageUsage,
    NodePower,
    NodeStats,
    Stats,
    WebClients,
)
from lingua_scheduler.domain.nodes.model_hub import OfferedService
from lingua_scheduler.domain.watching.figures import OTHER
from lingua_scheduler.domain.watching.pairs import is_echo, name_of, unlisted
from lingua_scheduler.domain.watching.picture import InstanceLook, Level, NodeLook, Picture
from lingua_scheduler.domain.watching.verdict import READY
from lingua_sdk.domain.languages import AUTO, Pair

SLICE = 500
TOP_LANGUAGES = 10


async def stats_of(picture: Picture, offered: list[OfferedService]) -> Stats:
    types: Counter[str] = Counter()
    in_use: Counter[str] = Counter()
    installed: dict[str, OfferedService] = {}
    power: list[NodePower] = []
    async for nodes in _slices(picture.nodes):
        for node in nodes:
            types.update(node.types)
            if node.held:
                in_use.update(node.types)
            for service in node.services:
                installed.setdefault(service, OfferedService(service_id=service))
            power.append(_power(node))
    services = offered or sorted(installed.values(), key=lambda service: service.service_id)
    return Stats(
        web_clients=_web_clients(picture),
        nodes=NodeStats(
            connected_nodes=len(picture.nodes),
            type_node_counts=dict(sorted(types.items())),
            available_services=services,
            total_services=len(services),
            type_in_use_counts={name: in_use[name] for name in sorted(types)},
            compute_power=ComputePower(
                total_cpu_power=_sum(one.cpu_power for one in power),
                total_gpu_power=_sum(one.gpu_power for one in power),
                total_memory_power=_sum(one.memory_power for one in power),
                node_power_details=power,
            ),
        ),
        stale=True if picture.is_stale else UNSET,
    )


async def cluster_of(picture: Picture) -> ClusterStats:
    known = [_node(node, picture.at_ms) async for nodes in _slices(picture.nodes) for node in nodes]
    instances = [_instance(instance, picture.at_ms) for instance in picture.instances]
    return ClusterStats(
        instances=instances,
        total_instances=len(instances),
        online_instances=sum(instance.is_online for instance in instances),
        total_nodes=len(known),
        online_nodes=sum(node.online for node in known),
        ready_nodes=sum(node.status == READY for node in known),
        total_sessions=sum(instance.sessions_owned for instance in instances),
        total_pending=sum(instance.inbox_pending for instance in instances),
        total_dlq=picture.dead_letters,
        redis_key_prefix=picture.key_prefix,
        nodes=known,
    )


def figures_of(picture: Picture) -> FlatFigures:
    now, ended = picture.now, picture.jobs_ended
    levels = Counter(alarm.level for alarm in picture.alarms if not alarm.silenced_until_ms)
    pairs = [pair for pair in picture.pairs if not is_echo(name_of(pair))]
    wide_pairs = unlisted(picture)
    return FlatFigures(
        at_ms=picture.at_ms,
        redis_up=not picture.is_stale,
        redis_version=picture.redis_version,
        instances=len(picture.instances),
        instances_alive=sum(instance.is_alive for instance in picture.instances),
        leader=picture.leader,
        map_version=picture.map_version,
        sessions=now.sessions,
        nodes=len(picture.nodes),
        nodes_ready=sum(node.state == READY for node in picture.nodes),
        pairs=len(pairs) + wide_pairs,
        pairs_served=sum(pair.nodes > 0 for pair in pairs) + wide_pairs,
        slots_total=now.slots_total,
        slots_taken=now.slots_taken,
        jobs_waiting=now.jobs_waiting,
        jobs_done_total=ended.get("DONE", 0),
        jobs_no_text_total=ended.get("NO_TEXT", 0),
        jobs_failed_total=ended.get("FAILED", 0),
        jobs_cancelled_total=ended.get("CANCELLED", 0),
        jobs_done_per_s=now.done_per_s,
        jobs_no_text_per_s=now.no_text_per_s,
        jobs_failed_per_s=now.failed_per_s,
        jobs_cancelled_per_s=now.cancelled_per_s,
        retries_per_s=now.retries_per_s,
        latency_p50_ms=now.p50_ms,
        latency_p95_ms=now.p95_ms,
        latency_p99_ms=now.p99_ms,
        inbox_letters=sum(instance.inbox_letters for instance in picture.instances),
        dead_letters=picture.dead_letters,
        alarms_critical=levels[Level.CRITICAL],
        alarms_warning=levels[Level.WARNING],
        verdict=picture.verdict.level if picture.verdict else None,
    )


async def _slices(nodes: list[NodeLook]) -> AsyncIterator[list[NodeLook]]:
    """Others get a turn in between."""
    for first in range(0, len(nodes), SLICE):
        yield nodes[first : first + SLICE]
        await asyncio.sleep(0)


def _web_clients(picture: Picture) -> WebClients:
    sources: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    for asked, count in picture.session_languages.items():
        src, tgt = Pair.parse(asked)
        if src == OTHER:
            continue
        if src != AUTO:
            sources[src] += count
        for language in tgt.split("+"):
            targets[language] += count
            if "+" in tgt:
                sources[language] += count
    usage = {
        language: LanguageUsage(
            as_source=sources[language], as_target=targets[language], total=sources[language] + targets[language]
        )
        for language in sorted(sources.keys() | targets.keys())
    }
    top = sorted(usage, key=lambda language: (-usage[language].total, language))[:TOP_LANGUAGES]
    return WebClients(
        active_users=picture.now.sessions,
        top_languages=[LanguageCount(language=language, count=usage[language].total) for language in top],
        language_usage=usage,
    )


def _power(node: NodeLook) -> NodePower:
    return NodePower(node_id=node.node_id, cpu_power=node.cores, gpu_power=node.gpu_gb, memory_power=node.memory_gb)


def _sum(amounts: Iterable[float]) -> float:
    return round(sum(amounts), 1)


def _instance(instance: InstanceLook, at_ms: int) -> ClusterInstance:
    up_ms = max(0, at_ms - instance.started_at_ms) if instance.is_alive else 0
    return ClusterInstance(
        instance_id=instance.instance_id,
        hostname=instance.host,
        pid=instance.pid,
        version=instance.version,
        started_at_ms=instance.started_at_ms,
        uptime_seconds=up_ms // 1000,
        is_online=instance.is_alive,
        inbox_length=instance.inbox_letters,
        inbox_pending=instance.inbox_pending,
        dlq_length=instance.dead_letters,
        nodes_owned=instance.nodes,
        sessions_owned=instance.sessions,
    )


def _node(node: NodeLook, at_ms: int) -> ClusterNode:
    return ClusterNode(
        node_id=node.node_id,
        platform=node.platform,
        online=node.alive_until_ms > at_ms,
        status=node.state,
        cpu_usage=node.cpu,
        gpu_usage=node.gpu,
        memory_usage=node.memory,
        current_jobs=node.held,
        max_concurrent_jobs=node.max_jobs,
        last_heartbeat=node.seen_at_ms,
        services=node.services,
        capabilities=node.types,
    )
