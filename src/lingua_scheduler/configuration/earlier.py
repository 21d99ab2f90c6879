"""Settings of earlier schedulers: each old key is translated, or there is a reason why it has no meaning any more.

`docs/coming-from-earlier.md` shows both tables."""

import math
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from lingua_scheduler.configuration.fields import shown_value

Flat = Mapping[str, Any]

SECTIONS = frozenset({"scheduler", "phase2", "phase3", "model_hub"})
# The same table under its later name.
_RENAMED = {"redis_runtime": "phase2"}
# How much a key must be like one that is read to be taken for a misspelling of it.
_ALIKE = 0.9
_CLUSTER_SCHEMES = {"redis": "redis+cluster", "rediss": "rediss+cluster"}


class Translation(NamedTuple):
    """The settings that an old key sets now. `convert` gets its value, and all old keys of the file."""

    names: tuple[str, ...]
    convert: Callable[[Any, Flat], object]


class Translated(NamedTuple):
    name: str
    value: object
    key: str
    step: str  # what to do in the file


class Unused(NamedTuple):
    key: str
    reason: str


def translated(tables: Mapping[str, object]) -> Iterator[Translated | Unused | str]:
    """Of the old sections of a file: settings, keys without a meaning, and the names of unknown keys."""
    spelled = dict(_flat(tables))
    flat = {_canonical(key): value for key, value in spelled.items()}
    for key, value in spelled.items():
        yield from _of_key(key, _canonical(key), value, flat)


def _of_key(key: str, canonical: str, value: object, flat: Flat) -> Iterator[Translated | Unused | str]:
    if reason := _off(canonical, flat):
        yield Unused(key, reason)
    elif translation := TRANSLATED.get(canonical):
        converted = _converted(translation, value, flat)
        yield from (Translated(name, converted, key, _step(name, value, converted)) for name in translation.names)
    elif reason := NOT_USED.get(canonical) or _of_section(canonical):
        yield Unused(key, reason)
    else:
        yield key


def _converted(translation: Translation, value: object, flat: Flat) -> object:
    """A value that cannot be converted stays as it is; the check of the setting refuses it by name."""
    try:
        return translation.convert(value, flat)
    except (TypeError, ValueError, ArithmeticError):
        return value


def _step(name: str, value: object, converted: object) -> str:
    """The new line, where more than the name changes. An address is not repeated: it may hold a password."""
    if converted == value:
        return "rename it"
    if name == "redis.url":
        return "write all addresses as one, such as redis+cluster://a:7000,b:7001"
    return f"write {name} = {shown_value(converted)}"


def _flat(tables: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _canonical(key: str) -> str:
    section, dot, rest = key.removeprefix("scheduler.").partition(".")
    return f"{_RENAMED.get(section, section)}{dot}{rest}"


def _off(key: str, flat: Flat) -> str | None:
    """Why a key of Redis is not used beside the others of the file."""
    if key in _ADDRESSES and flat.get("phase2.enabled") is False:
        return "phase2.enabled = false, so an embedded Redis is started; set redis.url to use this one"
    is_cluster = flat.get("phase2.redis.mode") == "cluster"
    if key == "phase2.redis.cluster_urls" and not is_cluster:
        return 'phase2.redis.mode is not "cluster", so phase2.redis.url is used'
    if key in ("phase2.redis.url", "phase2.redis_url") and is_cluster:
        return 'phase2.redis.mode is "cluster", so phase2.redis.cluster_urls is used'
    return None


def _of_section(key: str) -> str | None:
    """Why no key of its section is used; None also for a misspelt one, whose setting would silently be the default."""
    section, _, name = key.rpartition(".")
    read = [known.rpartition(".")[2] for known in TRANSLATED if known.rpartition(".")[0] == section]
    if get_close_matches(name, read, n=1, cutoff=_ALIKE):
        return None
    return next((reason for section, reason in SECTIONS_NOT_USED.items() if key.startswith(f"{section}.")), None)


def _same(value: Any, _: Flat) -> object:
    return value


def _milliseconds(seconds: Any, _: Flat) -> object:
    return round(seconds * 1000)


def _whole(number: Any, _: Flat) -> object:
    return round(number)


def _instance_id(text: Any, _: Flat) -> object:
    return text or "auto"


def _affinity(is_on: Any, _: Flat) -> object:
    return {True: "session", False: "turn"}.get(is_on, is_on)


def _missed_heartbeats(timeout_s: Any, flat: Flat) -> object:
    interval = flat.get("node_health.heartbeat_interval_seconds", flat.get("heartbeat_interval_seconds", 15))
    return max(1, math.ceil(timeout_s / interval))


def _cluster_url(urls: Any, _: Flat) -> object:
    """Several addresses become one; user and password, which all share, are those of the first."""
    if not isinstance(urls, list) or not urls:
        return urls
    scheme, _colon, first = urls[0].partition("://")
    hosts = [url.partition("://")[2].rpartition("@")[2].partition("/")[0] for url in urls]
    user = f"{first.rpartition('@')[0]}@" if "@" in first else ""
    return f"{_CLUSTER_SCHEMES.get(scheme, scheme)}://{user}{','.join(hosts)}"


def _to(*names: str, by: Callable[[Any, Flat], object] = _same) -> Translation:
    return Translation(names, by)


TRANSLATED: Mapping[str, Translation] = {
    "max_concurrent_jobs_per_node": _to("nodes.default_max_jobs"),
    "job_timeout_seconds": _to("job.timeout_base_ms", by=_milliseconds),
    "heartbeat_interval_seconds": _to("nodes.heartbeat_interval_ms", by=_milliseconds),
    "max_retry": _to("job.max_retries"),
    "reservation_ttl_ms": _to("job.reservation_ttl_ms"),
    "sample_k": _to("selection.sample_k"),
    "job_timeout.pending_timeout_seconds": _to("dispatch.queue_wait_ms", by=_milliseconds),
    "job_timeout.failover_max_attempts": _to("job.max_retries"),
    "load_balancer.resource_threshold": _to(
        "nodes.max_cpu_percent", "nodes.max_memory_percent", "nodes.max_gpu_percent", by=_whole
    ),
    "node_health.heartbeat_interval_seconds": _to("nodes.heartbeat_interval_ms", by=_milliseconds),
    "node_health.heartbeat_timeout_seconds": _to("nodes.missed_heartbeats", by=_missed_heartbeats),
    "node_health.failure_threshold.window_size": _to("nodes.quarantine_window"),
    "node_health.failure_threshold.failure_count": _to("nodes.quarantine_failures"),
    "node_health.failure_threshold.consecutive_failure_count": _to("nodes.quarantine_consecutive"),
    "model_not_available.unavailable_ttl_seconds": _to("nodes.unavailable_ms", by=_milliseconds),
    "task_binding.lease_seconds": _to("requests.keep_ms", by=_milliseconds),
    "task_binding.reserved_ttl_seconds": _to("job.reservation_ttl_ms", by=_milliseconds),
    "web_task_segmentation.pause_ms": _to("sessions.pause_ms"),
    "web_task_segmentation.max_duration_ms": _to("sessions.max_duration_ms"),
    "web_task_segmentation.edge_stabilization.hangover_auto_ms": _to("sessions.hangover_auto_ms"),
    "web_task_segmentation.edge_stabilization.hangover_manual_ms": _to("sessions.hangover_manual_ms"),
    "web_task_segmentation.edge_stabilization.short_merge_threshold_ms": _to("sessions.short_merge_ms"),
    "phase2.instance_id": _to("server.instance_id", by=_instance_id),
    "phase2.redis_url": _to("redis.url"),
    "phase2.key_prefix": _to("redis.key_prefix"),
    "phase2.redis.url": _to("redis.url"),
    "phase2.redis.cluster_urls": _to("redis.url", by=_cluster_url),
    "phase2.redis.key_prefix": _to("redis.key_prefix"),
    "phase2.redis.command_timeout_ms": _to("redis.timeout_ms"),
    "phase2.heartbeat_ttl_seconds": _to("instances.dead_ms", by=_milliseconds),
    "phase2.stream_maxlen": _to("inbox.max_length"),
    "phase2.dlq_max_deliveries": _to("inbox.max_deliveries"),
    "phase3.random_sample_size": _to("selection.sample_k"),
    "phase3.enable_session_affinity": _to("selection.affinity", by=_affinity),
}
_ADDRESSES = ("phase2.redis_url", "phase2.redis.url", "phase2.redis.cluster_urls")

_STREAMS = "letters between instances are read as soon as they arrive; there is nothing to tune"
_PADDING = "it is a constant now"
NOT_USED: Mapping[str, str] = {
    "phase2.enabled": "the scheduler always works on Redis, and several instances need no switch",
    "phase2.redis.mode": "the scheme of redis.url says it: redis:// or redis+cluster://",
    "phase2.redis.connection_timeout_ms": "redis.timeout_ms limits every wait for Redis",
    "phase2.owner_ttl_seconds": "an owner is valid while its instance is alive (instances.dead_ms); it has no lifetime",
    "phase2.stream_block_ms": _STREAMS,
    "phase2.stream_count": _STREAMS,
    "phase2.stream_group": _STREAMS,
    "phase2.dlq_enabled": "letters that cannot be handled always become dead letters (lingua dead-letters)",
    "phase2.dlq_maxlen": "it is a constant now",
    "phase2.dlq_min_idle_ms": "a letter is retried after inbox.retry_ms, inbox.max_deliveries times",
    "phase2.dlq_scan_interval_ms": _STREAMS,
    "phase2.dlq_scan_count": _STREAMS,
    "load_balancer.strategy": "the least loaded of selection.sample_k nodes is taken",
    "node_health.health_check_count": "a node is ready as soon as it has registered with languages",
    "node_health.warmup_timeout_seconds": "a node gets jobs when it says that it is ready",
    "node_health.status_scan_interval_seconds": "a node that misses nodes.missed_heartbeats heartbeats is not chosen",
    "job_timeout.scan_interval_ms": "every attempt has its own timer",
    "job_timeout.send_cancel": "a node is always told when its job was given up",
    "task_binding.spread_enabled": "see selection.affinity",
    "task_binding.spread_window_seconds": "see selection.affinity",
    "model_not_available.debounce_window_seconds": "it is a constant now",
    "model_not_available.node_ratelimit_window_seconds": "it is a constant now",
    "model_not_available.node_ratelimit_max": "it is a constant now",
    "web_task_segmentation.edge_stabilization.padding_auto_ms": _PADDING,
    "web_task_segmentation.edge_stabilization.padding_manual_ms": _PADDING,
    "model_hub.base_url": "set catalogue.url to the whole address of the hub's list of services",
    "model_hub.storage_path": "the scheduler stores no models; catalogue.file names the copy of the list",
}
SECTIONS_NOT_USED: Mapping[str, str] = {
    "phase2.redis": "it described a container, not a connection",
    "phase2.streams": _STREAMS,
    "phase2.node_snapshot": "every instance reads the nodes from Redis, so there is no snapshot to copy",
    "phase2.schema_compat": "the keys of Redis are those of docs/redis-keys.md",
    "phase3": "pools follow from what nodes declare (pools.admission), and shards fill up by themselves",
    "core_services": "nodes say which services they have",
    "observability": "see the settings of [logs]",
    "asr_rerun": "nodes decide about it",
    "background_tasks": "the intervals of chores are constants now",
    "timeouts": "see the settings of [job] and [redis]",
    "retry": "see job.max_retries and job.retry_percent",
    "limits": "they followed from other settings",
    "testing": "tests bring their own settings",
    "performance": "queues and caches have limits of their own; see docs/settings.md",
    "developer": "see logs.level, and lingua serve --print-config",
}
