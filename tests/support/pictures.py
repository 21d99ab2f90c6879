"""Pictures and their parts, made up."""

from typing import Any, TypeVar

import msgspec

from lingua_scheduler.domain.watching.picture import (
    Alarm,
    InstanceLook,
    JobLook,
    Level,
    Moment,
    NodeLook,
    PairLook,
    Picture,
    WideLook,
)
from lingua_scheduler.domain.watching.verdict import judged, node_level, pair_level, room_of

AT_MS = 1_000_000

P = TypeVar("P", PairLook, WideLook)


def judged_node(one: NodeLook) -> NodeLook:
    return msgspec.structs.replace(one, level=node_level(one.state, one.unavailable))


def judged_pair(one: P) -> P:
    room = room_of(one.nodes, one.slots, one.free)
    return msgspec.structs.replace(one, room=room, level=pair_level(room, is_thin=bool(one.hangs_on)))


def judged_whole(one: Picture) -> Picture:
    """With the verdicts that the builder of pictures would have given."""
    parts: dict[str, Any] = {
        "nodes": [judged_node(node) for node in one.nodes],
        "pairs": [judged_pair(pair) for pair in one.pairs],
        "wide": [judged_pair(wide) for wide in one.wide],
    }
    return judged(msgspec.structs.replace(one, **parts, verdict=None, needs_look=None))


def node(node_id: str = "n1", **more: Any) -> NodeLook:
    about: dict[str, Any] = {
        "instance_id": "i1",
        "state": "ready",
        "shard": 0,
        "max_jobs": 4,
        "held": 0,
        "free": 4,
        "seen_at_ms": AT_MS - 1_000,
        "alive_until_ms": AT_MS + 44_000,
        "speech": ["en:zh"],
        "text": ["en:zh"],
    }
    return judged_node(NodeLook(node_id=node_id, **(about | more)))


def pair(name: str = "en:zh", **more: Any) -> PairLook:
    src, _, tgt = name.partition(":")
    about: dict[str, Any] = {"src": src, "tgt": tgt, "nodes": 2, "slots": 8, "free": 8, "text_nodes": 2}
    return judged_pair(PairLook(**(about | more)))


def instance(instance_id: str = "i1", **more: Any) -> InstanceLook:
    about: dict[str, Any] = {
        "is_alive": True,
        "is_leader": instance_id == "i1",
        "host": "here",
        "pid": 7,
        "version": "1",
        "address": "here:1",
        "started_at_ms": 0,
        "silent_ms": 100,
        "inbox_letters": 0,
        "inbox_pending": 0,
        "dead_letters": 0,
        "nodes": 1,
        "sessions": 0,
        "jobs_waiting": 0,
    }
    return InstanceLook(instance_id=instance_id, **(about | more))


def job(job_id: str, **more: Any) -> JobLook:
    about: dict[str, Any] = {
        "state": "FAILED",
        "src": "en",
        "tgt": "zh",
        "node_id": "n1",
        "attempts": 3,
        "reason": "JOB_TIMEOUT",
        "ended_at_ms": AT_MS,
        "took_ms": 9_000,
    }
    return JobLook(job_id=job_id, **(about | more))


def alarm(code: str, subject: str = "", level: Level = Level.WARNING, since_ms: int = 0) -> Alarm:
    return Alarm(code=code, level=level, subject=subject, since_ms=since_ms, text=code)


def moment(at_ms: int = AT_MS, **more: Any) -> Moment:
    rates = dict.fromkeys(("done_per_s", "no_text_per_s", "failed_per_s", "cancelled_per_s", "retries_per_s"), 0.0)
    counts = dict.fromkeys(("sessions", "jobs_waiting", "slots_taken", "slots_total"), 0)
    nothing: dict[str, Any] = rates | counts | dict.fromkeys(("p50_ms", "p95_ms", "p99_ms"))
    return Moment(at_ms=at_ms, **(nothing | more))


def picture(serial: int = 1, **more: Any) -> Picture:
    about: dict[str, Any] = {
        "at_ms": AT_MS,
        "is_stale": False,
        "made_by": "i1",
        "release": "1",
        "redis_version": "Valkey 9",
        "key_prefix": "lingua:v1",
        "now": moment(),
        "jobs_ended": {},
        "session_languages": {},
        "nodes": [],
        "pairs": [],
        "instances": [],
        "leader": "i1",
        "map_version": 1,
        "map_made_at_ms": 0,
        "dead_letters": 0,
        "failures": [],
        "slow": [],
        "alarms": [],
    }
    return Picture(serial=serial, **(about | more))


def after(before: Picture, **changed: Any) -> Picture:
    """The next one."""
    return msgspec.structs.replace(before, serial=before.serial + 1, at_ms=before.at_ms + 1_000, **changed)
