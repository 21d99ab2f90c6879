"""Made-up pictures of a scheduler, as large and as bad as a test wants them."""

import math
import time
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

import msgspec

from lingua_scheduler.domain.watching.picture import (
    Alarm,
    Event,
    InstanceLook,
    JobLook,
    Level,
    Moment,
    NodeLook,
    PairLook,
    Picture,
)

LANGUAGES = ("en", "zh", "de", "fr", "es", "ja", "ko", "pt", "ru", "it", "ar", "hi")


def node(number: int | str, languages: Sequence[str] = ("en", "zh"), **more: Any) -> NodeLook:
    now_ms = _now_ms()
    pairs = [f"{src}:{tgt}" for src, tgt in permutations(languages, 2)]
    fields: dict[str, Any] = {
        "node_id": number if isinstance(number, str) else f"node-{number:04}",
        "instance_id": "i-berlin-1",
        "state": "ready",
        "shard": 0,
        "max_jobs": 4,
        "held": 1,
        "free": 3,
        "seen_at_ms": now_ms - 2_000,
        "alive_until_ms": now_ms + 43_000,
        "speech": pairs,
        "text": pairs,
        "services": ["whisper", "nllb", "piper"],
        "version": "2.0.0",
        "platform": "linux",
        "cpu": 31.0,
        "memory": 48.0,
        "gpu": 62.0,
    }
    return msgspec.convert(fields | more, NodeLook)


def many_nodes(count: int) -> list[NodeLook]:
    """A fleet in which everybody speaks four languages, and a few are not well."""
    nodes = []
    for number in range(count):
        languages = [LANGUAGES[(number + step) % len(LANGUAGES)] for step in (0, 1, 3, 7)]
        held = number * 7 % 5
        more: dict[str, Any] = {"held": held, "free": 4 - held, "cpu": number * 13 % 100, "shard": number // 100}
        if number % 97 == 13:
            more |= {"state": "quarantined", "free": None, "quarantined_until_ms": _now_ms() + 42_000}
        elif number % 89 == 5:
            more |= {"state": "draining", "free": None}
        nodes.append(node(number, languages, **more))
    return nodes


def pairs_of(nodes: Iterable[NodeLook]) -> list[PairLook]:
    serving: dict[str, list[NodeLook]] = {}
    for one in nodes:
        for pair in one.speech if one.free is not None else ():
            serving.setdefault(pair, []).append(one)
    return [
        PairLook(
            src=pair.partition(":")[0],
            tgt=pair.partition(":")[2],
            nodes=len(found),
            slots=sum(one.max_jobs for one in found),
            free=sum(one.free or 0 for one in found),
            text_nodes=len(found),
            hangs_on=found[0].node_id if len(found) == 1 else "",
        )
        for pair, found in serving.items()
    ]


def moment(at_ms: int, **more: Any) -> Moment:
    # Looks like a day: slow waves and quick ones, no dice.
    wave = (1 + math.sin(at_ms / 190_000)) / 2
    ripple = (1 + math.sin(at_ms / 7_100) * math.sin(at_ms / 31_000)) / 2
    fields: dict[str, Any] = {
        "at_ms": at_ms,
        "done_per_s": 34 + 12 * wave + 5 * ripple,
        "no_text_per_s": 2 + ripple,
        "failed_per_s": 0.1 * ripple,
        "cancelled_per_s": 0.2,
        "retries_per_s": 0.3,
        "p50_ms": 410 + 60 * wave,
        "p95_ms": 760 + 190 * wave + 60 * ripple,
        "p99_ms": 1_180 + 340 * wave + 160 * ripple,
        "sessions": 184 + int(40 * wave),
        "jobs_waiting": int(3 * ripple),
        "slots_taken": 61 + int(20 * wave),
        "slots_total": 160,
    }
    return msgspec.convert(fields | more, Moment)


def history(end_ms: int, minutes: int = 30) -> list[Moment]:
    return [moment(at_ms) for at_ms in range(end_ms - minutes * 60_000, end_ms, 5_000)]


def instance(name: str, **more: Any) -> InstanceLook:
    fields: dict[str, Any] = {
        "instance_id": name,
        "is_alive": True,
        "is_leader": False,
        "host": "berlin",
        "pid": 4242,
        "version": "0.1.0",
        "address": "10.0.0.5:5010",
        "started_at_ms": _now_ms() - 7_300_000,
        "silent_ms": 400,
        "inbox_letters": 0,
        "inbox_pending": 0,
        "dead_letters": 0,
        "nodes": 12,
        "sessions": 92,
        "jobs_waiting": 0,
    }
    return msgspec.convert(fields | more, InstanceLook)


def job(serial: int, **more: Any) -> JobLook:
    fields: dict[str, Any] = {
        "job_id": f"job-0-i-berlin-1-{serial}",
        "state": "FAILED",
        "src": "en",
        "tgt": "zh",
        "node_id": "node-0002",
        "attempts": 3,
        "reason": "NMT_TIMEOUT",
        "ended_at_ms": _now_ms() - serial * 17_000,
        "took_ms": 8_200,
    }
    return msgspec.convert(fields | more, JobLook)


def alarm(code: str, level: Level = Level.WARNING, subject: str = "", text: str = "", **values: Any) -> Alarm:
    since_ms = _now_ms() - 95_000
    return Alarm(code=code, level=level, subject=subject, since_ms=since_ms, text=text or code, values=values)


def event(kind: str, subject: str = "", ago_s: int = 20, level: Level = Level.NOTICE, **values: Any) -> Event:
    at_ms = _now_ms() - ago_s * 1000
    return Event(at_ms=at_ms, kind=kind, level=level, subject=subject, text=kind, values=values)


def picture(nodes: Sequence[NodeLook], **more: Any) -> Picture:
    now_ms = _now_ms()
    taken, total = sum(one.held for one in nodes), sum(one.max_jobs for one in nodes)
    fields: dict[str, Any] = {
        "serial": 1,
        "at_ms": now_ms,
        "is_stale": False,
        "made_by": "i-berlin-1",
        "release": "0.1.0",
        "redis_version": "9.0.1",
        "key_prefix": "lingua:v1",
        "now": moment(now_ms, slots_taken=taken, slots_total=total),
        "jobs_ended": {"DONE": 128_402, "NO_TEXT": 4_210, "FAILED": 61, "CANCELLED": 380},
        "session_languages": {"en:zh": 120, "auto:de+fr": 12},
        "nodes": list(nodes),
        "pairs": pairs_of(nodes),
        "instances": [instance("i-berlin-1", is_leader=True), instance("i-berlin-2", address="10.0.0.6:5010")],
        "leader": "i-berlin-1",
        "map_version": 7,
        "map_made_at_ms": now_ms - 3_000,
        "dead_letters": 0,
        "failures": [],
        "slow": [],
        "alarms": [],
    }
    return Picture(**(fields | more))


def _now_ms() -> int:
    return int(time.time() * 1000)
