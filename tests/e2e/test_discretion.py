"""What people say stays between them: not in a log, not in a metric, not in Redis; and no peer makes up a label."""

import base64
import json
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lingua_scheduler.domain.jobs.attempts import DispatchOutcome
from lingua_scheduler.domain.jobs.jobs import ENDED, JobEvent
from lingua_scheduler.domain.jobs.requests import RequestClaimOutcome
from lingua_scheduler.domain.nodes.complaints import SuspendOutcome
from lingua_scheduler.domain.nodes.nodes import NODE_ID, BeatOutcome
from lingua_scheduler.domain.pools.ladder import Rung
from lingua_scheduler.protocol.bus import KINDS
from lingua_scheduler.protocol.signals import Signal
from lingua_scheduler.services.cluster.mailroom import Posted
from lingua_scheduler.store.keys import FAMILIES
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.languages import is_code
from lingua_sdk.domain.losses import OTHER, REASONS
from tests.support import gossip
from tests.support.instances import Instance, instances
from tests.support.mail import ROOMY, letter
from tests.support.peers import field
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until
from tools import docs

SOURCE = docs.ROOT / "src" / "lingua_scheduler"


def named(call: str) -> set[str]:
    """The constants that a function of ours is called with."""
    return {name for path in SOURCE.rglob("*.py") for name in re.findall(rf'\b{call}\(\s*"(\w+)"', path.read_text())}


# Everything that may stand behind a label, whatever peers do.
ALLOWED: dict[tuple[str, str], Iterable[str]] = {
    ("lingua_node_registrations", "outcome"): ("registered", "refused", "conflict", "world_full", "delayed"),
    ("lingua_node_heartbeats", "outcome"): BeatOutcome,
    ("lingua_room_entries", "outcome"): ("created", "joined", "listening", "missed", "refused"),
    ("lingua_room_messages", "outcome"): ("sent", "received", "refused", "too_many", "lost"),
    ("lingua_room_captions", "outcome"): ("shown", "forwarded", "received", "too_many", "of_another_job"),
    ("lingua_room_utterances", "outcome"): ("fanned_out", "refused", "failed"),
    ("lingua_room_deliveries", "outcome"): ("sent", "missed", "late", "lost"),
    ("lingua_room_signals", "outcome"): (
        *("passed", "forwarded", "held", "crossed"),
        *("outside", "too_large", "too_many", "lost"),
    ),
    ("lingua_node_quarantines", "outcome"): ("begun", "ended"),
    ("lingua_node_complaints", "outcome"): (*SuspendOutcome, "dropped"),
    ("lingua_node_stage_seconds", "stage"): ("asr", "nmt", "tts"),
    ("lingua_sockets_open", "side"): ("node", "session"),
    ("lingua_frames_refused", "side"): ("node", "session"),
    ("lingua_sockets_throttled", "side"): ("node", "session"),
    ("lingua_sockets_cut_off", "reason"): ("strays", "too_busy", "unfinished", "unreadable", "unregistered"),
    ("lingua_door_refusals", "reason"): (
        "host",
        "origin",
        "fetch_site",
        "sockets",
        "handshakes",
        "credentials",
        "undeclared",
        "elsewhere",
        "unauthenticated",
        "not_permitted",
        "failures",
        "sessions",
        "watchers",
    ),
    ("lingua_idle_closed", "what"): ("socket", "session"),
    ("lingua_connections_cut", "reason"): ("headers", "body", "answer", "sockets", "malformed", "handshake"),
    ("lingua_tls_reloads", "outcome"): ("loaded", "failed"),
    ("lingua_outcomes_forgotten", "what"): ("speech", "outcome"),
    ("lingua_session_pauses", "reason"): ("audio", "rate"),
    ("lingua_outgoing_calls_refused", "purpose"): ("callback", "catalogue", "jwks"),
    ("lingua_job_dispatches", "outcome"): (*DispatchOutcome, "queue_full", "wait_over"),
    ("lingua_slot_reservations", "outcome"): DispatchOutcome,
    ("lingua_jobs_ended", "state"): ENDED,
    ("lingua_attempts_lost", "reason"): REASONS,
    ("lingua_job_retries", "outcome"): ("made", "too_late", "over_budget"),
    ("lingua_job_retries", "reason"): REASONS,
    ("lingua_job_rungs", "rung"): (Rung.SPLIT, Rung.PIVOT, Rung.TEXT_ONLY),
    ("lingua_recognitions_shared", "outcome"): ("done", "no_text", "failed"),
    ("lingua_messages_stale", "kind"): (JobEvent.ACCEPT, JobEvent.START, "result", "partial"),
    ("lingua_letters_posted", "outcome"): Posted,
    ("lingua_letters_handled", "kind"): (*KINDS, "unknown"),
    ("lingua_letters_handled", "outcome"): ("handled", "adopted", "failed", "dead"),
    ("lingua_letters_dead", "reason"): (
        "unknown_kind",
        "unreadable",
        "other_key",
        "no_handler",
        "never_done",
        "failed",
    ),
    ("lingua_redis_unreadable", "family"): {family.name for family in FAMILIES},
    ("lingua_pool_map_builds", "reason"): ("leader", "miss", "no_leader"),
    ("lingua_request_claims", "outcome"): RequestClaimOutcome,
    ("lingua_signals_heard", "kind"): (*(kind.__name__ for kind in get_args(Signal)), "unreadable"),
    ("lingua_task_failures", "nursery"): named("Nursery"),
    ("lingua_chore_failures", "chore"): named("every"),
    ("node_registration", "status"): ("success", "failure"),
    ("pool_query", "success"): ("true", "false"),
    ("node_selection", "result"): ("success", "failure"),
}


@pytest.fixture
async def gossiping(server: RedisProcess, tmp_path: Path) -> AsyncIterator[list[Instance]]:
    """Two instances to which everything was said that can be said."""
    changes: dict[str, int | str] = {"logs__level": "debug", "logs__storm_lines": 1_000_000, "job__keep_ms": 600_000}
    async with instances(tmp_path, server.url, 2, **changes) as both:
        async with field(both[0].port) as here, field(both[1].port) as there:
            await gossip.gossip(here, there, both)
            yield both


def labels_of(page: str) -> set[tuple[str, str, str]]:
    return {
        (family.name, label, value)
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        for label, value in sample.labels.items()
        if label != "le"
    }


def is_allowed(family: str, label: str, value: str) -> bool:
    if family.startswith("lingua_pair_") or family == "lingua_wanted_slots":
        # Which languages there are is the fleet's business; how many pairs are named is bounded elsewhere.
        return label in ("src", "tgt") and (value == OTHER or is_code(value))
    if (family, label) == ("lingua_room_lag_seconds", "language"):
        return value == OTHER or is_code(value)
    if (family, label) == ("lingua_node_quarantined", "node_id"):
        # An alert names the node; how many are named is bounded elsewhere.
        return NODE_ID.fullmatch(value) is not None
    return value in set(ALLOWED.get((family, label), ()))


async def test_no_peer_makes_up_a_label(gossiping: list[Instance], store: Store) -> None:
    for rubbish in (b"zebrafinch", b'{"type":"zebrafinch"}', b"\xff"):
        await store.line.call("PUBLISH", store.keys.signals, rubbish)
    await store.inboxes.post("i0", letter("u1", b"zebrafinch", "zebrafinch", "zebrafinch"), ROOMY)
    await until(lambda: _counts(gossiping[0], 'lingua_letters_handled_total{kind="unknown",outcome="dead"} 1.0'))
    for instance in gossiping:
        page = await instance.get("/metrics")
        strange = {found for found in labels_of(page) if not is_allowed(*found)}
        assert strange == set()
        # A node said that a stage took it longer than the age of the universe.
        sums = [float(total) for total in re.findall(r"^\w+_sum(?:\{.*\})? (\S+)$", page, re.MULTILINE)]
        assert len(sums) > 5
        assert all(0 <= total < 10_000 for total in sums)


async def _counts(instance: Instance, line: str) -> bool:
    return line in await instance.get("/metrics")


async def test_nothing_anybody_said_is_written_anywhere(gossiping: list[Instance], store: Store) -> None:
    for instance in gossiping:
        lines = instance.log.splitlines()
        assert any('"attempt.lost"' in line for line in lines) or instance.name == "i1"
        assert gossip.told_in(lines) == []
        assert gossip.told_in((await instance.get("/metrics")).splitlines()) == []
    lost = [json.loads(line) for line in gossiping[0].log.splitlines() if '"attempt.lost"' in line]
    assert lost
    for event in lost:
        assert {"session_id", "job_id", "node_id"} <= event.keys()
    assert {event["request_id"] for event in lost if event["session_id"] == "caller"} == {gossip.REQUEST_ID}
    assert all("utterance_index" in event for event in lost if event["session_id"] != "caller")
    await until(lambda: _is_delivered(store))
    kept = [f"{key}: {value}" async for key, value in everything_in(store)]
    assert len(kept) > 40
    assert any('"attempt":' in value or "job-0-" in value for value in kept)
    assert gossip.told_in(kept) == []


async def _is_delivered(store: Store) -> bool:
    """Letters are where speech passes through; when they have arrived there is nothing left of them."""
    return not any([await store.line.call("XLEN", store.keys.inbox(name)) for name in ("i0", "i1")])


READ = {
    "string": ("GET",),
    "hash": ("HGETALL",),
    "set": ("SMEMBERS",),
    "zset": ("ZRANGE", 0, -1),
    "list": ("LRANGE", 0, -1),
    "stream": ("XRANGE", "-", "+"),
}


async def everything_in(store: Store) -> AsyncIterator[tuple[str, str]]:
    for key in await store.line.call("KEYS", "*"):
        command, *more = READ[await store.line.call("TYPE", key)]
        yield key, str(await store.line.call(command, key, *more))


async def test_a_storm_of_events_is_cut_short_as_the_settings_say(tmp_path: Path) -> None:
    few = ("--data-dir", str(tmp_path / "data"), "--set", "logs.storm_lines=3")
    async with serve_process(tmp_path, *few) as serving:
        async with field(await until(lambda: serving.port, 60)) as peers:
            for _ in range(8):
                await peers.node()
        assert serving.log.count('"node.registered"') == 3


def test_the_needles_find_what_they_should() -> None:
    hidden = (gossip.TEXT, gossip.AUDIO.hex(), f"x{gossip.TEXT}"[1:].encode().hex(), ascii(gossip.TEXT))
    assert gossip.told_in(hidden) == list(hidden)
    for ahead in range(4):
        for said in (gossip.TEXT.encode(), gossip.AUDIO):
            coded = base64.b64encode(b"x" * ahead + said).decode()
            assert gossip.told_in([coded]) == [coded]
    assert gossip.told_in(["the quick brown fox"]) == []
