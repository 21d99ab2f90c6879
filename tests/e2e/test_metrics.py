"""Every metric moves when what it counts happens: a table of days in the life of a scheduler."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Gauge

from lingua_scheduler.console.siblings import Siblings
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.sessions.pseudonyms import Pseudonyms
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.protocol.bus import Finished, encode
from lingua_scheduler.services.dispatch.staged import Listeners
from lingua_scheduler.services.rooms.playable import playable
from lingua_scheduler.telemetry import departed, metrics
from lingua_sdk.protocol.session import TranslationResult
from tests.support.callers import caller_of
from tests.support.certificates import Authority
from tests.support.http_nodes import http_node
from tests.support.mail import BRISK, ROOMY, letter, who
from tests.support.peers import FakeNode, Frame, answer, field, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import work
from tests.support.text_nodes import able, do
from tests.support.waiting import until

SPEECH = b"\x00\x01" * 320
Moved = Callable[[], Coroutine[Any, Any, None]]


class Watch:
    """Whether metrics have moved since it began to look; one that moved and came back has moved."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._before = values()
        self.still = set(names)

    async def all_moved(self) -> None:
        try:
            await until(lambda: not self._look(), within_s=20)
        except AssertionError:
            raise AssertionError(f"never moved: {self.still}") from None

    def _look(self) -> set[str]:
        now = values()
        self.still -= {name for name in self.still if now[name] != self._before[name]}
        return self.still


def values() -> dict[str, float]:
    """One figure for each metric, over all its labels."""
    suffixes = {"counter": "_total", "histogram": "_count", "gauge": ""}
    return {
        family.name: sum(
            sample.value for sample in family.samples if sample.name == family.name + suffixes[family.type]
        )
        for family in metrics.REGISTRY.collect()
    }


def _forget_gauges() -> None:
    """Other tests of this process have left them as they were when a scheduler stopped."""
    for gauge in vars(metrics).values():
        if isinstance(gauge, Gauge) and not gauge._labelnames:
            gauge.set(0)
    for pairs in (metrics.PAIR_NODES, metrics.PAIR_SLOTS, metrics.PAIR_FREE_SLOTS, metrics.WANTED_SLOTS):
        pairs.clear()
    metrics.NODE_QUARANTINED.clear()


# The days


async def a_conversation(server: RedisProcess, _: Path, moved: Moved) -> None:
    """A node that tells what its stages took, and a client."""
    may_answer = asyncio.Event()

    async def work(node: FakeNode, job: Frame) -> None:
        await may_answer.wait()
        timings = {"asr_ms": 5, "nmt_ms": 2, "tts_ms": 9}
        await node.socket.send(result_of(job, node.node_id, extra={"service_timings": timings}))

    async with scheduler_on(server.url) as (scheduler, _store), field(scheduler.port) as peers:
        await peers.node(work)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: values()["lingua_leases_held"] == 1)
        watched = asyncio.create_task(moved())
        await asyncio.sleep(0.05)
        may_answer.set()
        assert (await client.outcome())["type"] == "translation_result"
        await watched


async def a_crowded_hour(server: RedisProcess, _: Path, moved: Moved) -> None:
    """One slot, two jobs: the second waits for the first."""
    async with scheduler_on(server.url) as (scheduler, _store), field(scheduler.port) as peers:
        node = await peers.node(stay_silent, max_concurrent_jobs=1)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: node.jobs)
        await client.utterance(1)
        await until(lambda: values()["lingua_jobs_waiting"] == 1)
        watched = asyncio.create_task(moved())
        await asyncio.sleep(0.05)
        await answer(node, node.jobs[0])
        await watched


async def bad_nodes(server: RedisProcess, _: Path, moved: Moved) -> None:
    """They fail, complain, and speak of jobs that are over."""

    async def fail(node: FakeNode, job: Frame) -> None:
        error = {"code": "PROCESSING_ERROR", "message": ""}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))

    changes = {"nodes__quarantine_consecutive": 1}
    async with scheduler_on(server.url, **changes) as (scheduler, _store), field(scheduler.port) as peers:
        node = await peers.node(fail)
        other = await peers.node(fail)
        client = await peers.client()
        await client.utterance(0)
        await client.outcome()
        complaint = {"code": "MODEL_NOT_AVAILABLE", "message": "", "details": {"service_id": "whisper"}}
        await node.socket.send({"type": "node_error", "node_id": node.node_id} | complaint)
        ghost = {"job_id": "job-0-x", "attempt_id": 1, "session_id": "s", "utterance_index": 0, "trace_id": "t"}
        await other.socket.send(result_of(ghost, other.node_id))
        await moved()


async def bad_clients(server: RedisProcess, _: Path, moved: Moved) -> None:
    """One speaks rubbish, one too fast."""
    async with (
        scheduler_on(server.url, sessions__max_frames_per_s=1, server__max_bad_frames_per_min=1) as (scheduler, _store),
        field(scheduler.port) as peers,
    ):
        client = await peers.client()
        await client.socket.socket.send_str("{")
        for _chunk in range(3):
            await client.chunk(SPEECH)
        other = await peers.client()
        for _rubbish in range(2):
            await other.socket.socket.send_str("{")
        await moved()


async def a_talkative_node(server: RedisProcess, _: Path, moved: Moved) -> None:
    """It shows more of one sentence than anybody can read."""
    async with scheduler_on(server.url) as (scheduler, _store), field(scheduler.port) as peers:
        node = await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        job = await until(lambda: node.jobs and node.jobs[0])
        about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
        for _partial in range(50):
            said = {"type": "asr_partial", "text": "a", "is_final": False, "node_id": node.node_id}
            await node.socket.send(said | about)
        await moved()


async def a_slow_sentence(server: RedisProcess, _: Path, moved: Moved) -> None:
    """The second is translated before the first."""
    async with (
        scheduler_on(server.url, delivery__hold_ms=10) as (scheduler, _store),
        field(scheduler.port) as peers,
    ):
        node = await peers.node(stay_silent)
        client = await peers.client()
        for index in range(2):
            await client.utterance(index)
        await until(lambda: len(node.jobs) == 2)
        first, second = sorted(node.jobs, key=lambda job: int(job["utterance_index"]))
        for job in (second, first):
            await answer(node, job)
            await client.outcome()
        await moved()


async def a_full_memory(server: RedisProcess, _: Path, moved: Moved) -> None:
    """More is said than may be remembered for clients that come back."""
    async with (
        scheduler_on(server.url, server__max_remembered_bytes=3_000) as (scheduler, _store),
        field(scheduler.port) as peers,
    ):
        await peers.node()
        client = await peers.client()
        for index in range(4):
            await client.utterance(index)
            await client.outcome()
        await moved()


async def a_slow_reader(server: RedisProcess, _: Path, moved: Moved) -> None:
    """A node over HTTP that does not fetch its jobs."""
    async with (
        scheduler_on(server.url, server__outbox_max_bytes=100_000) as (scheduler, _store),
        field(scheduler.port) as peers,
    ):
        await http_node(peers, max_concurrent_jobs=4)
        client = await peers.client()
        for index in range(3):
            await client.utterance(index, b"\x00\x01" * 16_000)
        await moved()


async def callers(server: RedisProcess, _: Path, moved: Moved) -> None:
    """A job over HTTP, with a request id."""
    async with (
        scheduler_on(server.url) as (scheduler, _store),
        field(scheduler.port) as peers,
        caller_of(scheduler.port) as caller,
    ):
        node = await peers.node(stay_silent)
        asked = await caller.dispatch(request_id="r1")
        await until(lambda: node.jobs and values()["lingua_calls_under_way"])
        watched = asyncio.create_task(moved())
        await asyncio.sleep(0.05)
        await answer(node, node.jobs[0])
        assert (await caller.result(asked.body["job_id"], 5_000)).body["state"] == "DONE"
        await watched


async def strangers(server: RedisProcess, _: Path, moved: Moved) -> None:
    """A page of somebody else, and two who say nothing."""
    brisk = {"server__header_timeout_ms": 100, "sessions__idle_socket_ms": 100}
    async with scheduler_on(server.url, **brisk) as (scheduler, _store):
        async with field(scheduler.port) as peers:
            await peers.socket("/ws/session")
            _reader, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
            assert (await peers.ask("GET", "/ws/session", headers={"Origin": "http://evil.example"}))[0] == 403
            await moved()
            writer.close()


async def a_guesser(server: RedisProcess, _: Path, moved: Moved) -> None:
    """Somebody names a session that is not its own."""
    async with scheduler_on(server.url) as (scheduler, _store), field(scheduler.port) as peers:
        socket = await peers.socket("/ws/session")
        await socket.send({"type": "client_heartbeat", "session_id": "s-0123456789ABCDEF", "timestamp": 1})
        await moved()


async def an_address_inside(server: RedisProcess, _: Path, moved: Moved) -> None:
    """A hub whose name leads to an address that is not public."""
    names = {"catalogue__url": f"http://{socket.gethostname()}:1025/", "catalogue__interval_ms": 100}
    async with scheduler_on(server.url, **names):
        await moved()


async def two_instances(server: RedisProcess, _: Path, moved: Moved) -> None:
    """The client is at one, the node at the other."""
    async with scheduler_on(server.url) as (first, _store), scheduler_on(server.url) as (second, _same):
        async with field(first.port) as here, field(second.port) as there:
            await there.node()
            client = await here.client()
            index = 0
            await client.utterance(index)
            while (await client.outcome())["type"] != "translation_result":
                # The first has not heard of the node yet.
                index += 1
                await client.utterance(index)
            await moved()


async def bad_mail(server: RedisProcess, _: Path, moved: Moved) -> None:
    """A letter that nobody can handle, and the mail of an instance that is dead."""
    async with scheduler_on(server.url, **BRISK) as (scheduler, store):
        await store.inboxes.prepare("dead")
        await store.instances.join(who("dead"), 400)
        poison = encode(Finished(attempt=Attempt("job-0-x", 1, "n1", 0), frame=b"{"))
        kind = str(Finished.__struct_config__.tag)
        await store.inboxes.post(scheduler.instance, letter("u1", poison, kind), ROOMY)
        await store.inboxes.post("dead", letter("u2", poison, kind), ROOMY)
        await moved()


async def a_flood(server: RedisProcess, _: Path, moved: Moved) -> None:
    """More jobs that nobody can do than anybody wants to read about."""
    async with scheduler_on(server.url) as (scheduler, _store), field(scheduler.port) as peers:
        clients = [await peers.client() for _ in range(4)]
        for index in range(30):
            for client in clients:
                await client.utterance(index)
        await moved()


async def surprises(server: RedisProcess, _: Path, moved: Moved) -> None:
    """Something nobody planned for: rubbish in Redis is no surprise any more."""

    async def surprise(*_args: object, **_more: object) -> None:
        raise ValueError

    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node()
        store.jobs.overdue = store.services.suspend = surprise  # type: ignore[method-assign, assignment]
        complaint = {"code": "MODEL_NOT_AVAILABLE", "message": ""}
        await node.socket.send({"type": "node_error", "node_id": node.node_id} | complaint)
        await moved()


async def a_worker_that_hangs(_: RedisProcess, folder: Path, moved: Moved) -> None:
    siblings = Siblings(folder, 0, "i-here")
    await siblings.open()
    departed.note(folder, "1-999", [])
    await siblings.together()
    await siblings.close()
    await moved()


async def a_room(server: RedisProcess, _: Path, moved: Moved) -> None:
    few = {"server__unmetered_addresses": [], "rooms__misses_per_min": 1}
    async with scheduler_on(server.url, **few) as (scheduler, store), field(scheduler.port) as peers:
        client = await peers.client()
        await client.socket.send({"type": "room_create", "client_ts": 1})
        code = (await client.socket.next("room_members"))["room_code"]
        await client.socket.send({"type": "webrtc_offer", "room_code": code, "to": "s-outside", "sdp": {}})
        guest = await peers.client()
        await guest.socket.send({"type": "room_join", "room_code": code, "listen_only": True, "room_events": True})
        await guest.socket.next("room_members")
        await client.socket.send({"type": "room_say", "room_code": code, "text": "hello"})
        await guest.socket.next("room_message")
        await client.chunk(SPEECH)
        await guest.socket.next("room_speaking")
        await client.chunk(SPEECH, is_final=True)
        await guest.socket.next("missing_result")
        for _try in range(2):
            await client.socket.send({"type": "room_join", "room_code": "100000" if code != "100000" else "100001"})
        await store.line.call("DEL", *store.keys.room_of(f"default:{code}").values())
        scheduler._rooms.overseer._here.lag.note_lag("en", 1.0)
        await moved()


async def speech_for_existing_pages(_: RedisProcess, _folder: Path, moved: Moved) -> None:
    result = TranslationResult(
        session_id="s",
        utterance_index=0,
        job_id="j",
        trace_id="t",
        text_asr="a",
        text_translated="b",
        tts_audio="QUFB",
        tts_format="mp3",
        scheduler_sent_at_ms=0,
    )
    await playable(result)
    await moved()


async def a_lost_record(server: RedisProcess, _: Path, moved: Moved) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        client = await peers.client()
        await store.line.call("DEL", store.keys.session(client.session_id))
        await client.chunk(SPEECH, is_final=True)
        await moved()


async def rubbish_in_redis(server: RedisProcess, _: Path, moved: Moved) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        await peers.node()
        await store.line.call("ZADD", store.keys.shard(0).leases, 0, "rubbish")
        await moved()


async def several_languages(server: RedisProcess, _: Path, moved: Moved) -> None:
    async with scheduler_on(server.url) as (scheduler, _store), field(scheduler.port) as peers:
        for abilities in (able(asr=["en"]), able(nmt=["en-pt", "en-es"]), able(tts=["pt"])):
            await peers.node(do, **abilities)
        await until(lambda: all(link.pools for link in scheduler._connected.links.all()))
        await scheduler._pool_map.look_again()
        listeners = Listeners(on_recognised=lambda *_: None, on_outcome=lambda *_: None, binding_of=lambda _: None)
        spoken = work(terms=Terms("en", ""), audio=SPEECH, names=Pseudonyms(b"key", "s-00000001"))
        scheduler._staged.start(spoken, {"pt": True, "es": False}, listeners)
        await moved()


async def a_renewed_certificate(server: RedisProcess, tmp_path: Path, moved: Moved) -> None:
    authority = Authority(tmp_path / "authority")
    files = authority.serve()
    tls = {"server__tls_cert_file": str(files.cert), "server__tls_key_file": str(files.key)}
    async with scheduler_on(server.url, **tls) as (scheduler, _):
        authority.serve()
        scheduler.reload_tls()
        await moved()


DAYS: dict[Callable[[RedisProcess, Path, Moved], Awaitable[None]], tuple[str, ...]] = {
    a_conversation: (
        *("lingua_nodes_connected", "lingua_sockets_open", "lingua_sessions_open", "lingua_audio_held_bytes"),
        *("lingua_node_registrations", "lingua_node_heartbeats", "lingua_node_heartbeat_seconds"),
        *("lingua_job_dispatches", "lingua_slot_reservations", "lingua_leases_held", "lingua_jobs_ended"),
        *("lingua_job_dispatch_seconds", "lingua_attempt_seconds", "lingua_node_stage_seconds", "lingua_job_seconds"),
        *("lingua_instances_alive", "lingua_instance_leading", "lingua_pool_map_builds", "lingua_redis_up"),
        *("lingua_redis_round_trip_seconds", "lingua_event_loop_lag_seconds", "lingua_workers"),
        *("lingua_pair_nodes", "lingua_pair_slots", "lingua_pair_free_slots", "lingua_snapshot_age_seconds"),
        *("lingua_wanted_slots", "lingua_fleet_wanted_slots"),
    ),
    several_languages: ("lingua_job_rungs", "lingua_recognitions_shared"),
    a_crowded_hour: ("lingua_jobs_waiting", "lingua_job_queue_wait_seconds"),
    bad_nodes: (
        "lingua_verdict",
        *("lingua_attempts_lost", "lingua_job_retries", "lingua_node_quarantines", "lingua_node_complaints"),
        *("lingua_messages_stale", "lingua_node_quarantined"),
    ),
    a_room: (
        *("lingua_rooms_open", "lingua_room_members", "lingua_room_entries", "lingua_room_signals"),
        *("lingua_rooms_restored", "lingua_room_guests", "lingua_room_messages", "lingua_room_captions"),
        *("lingua_room_lag_seconds", "lingua_room_utterances", "lingua_room_deliveries"),
        "lingua_room_guesses_refused",
    ),
    speech_for_existing_pages: ("lingua_room_speech_lost",),
    a_lost_record: ("lingua_session_records_restored",),
    bad_clients: (
        *("lingua_session_pauses", "lingua_frames_refused", "lingua_sockets_throttled", "lingua_sockets_cut_off"),
    ),
    a_full_memory: ("lingua_outcomes_remembered_bytes", "lingua_outcomes_forgotten"),
    rubbish_in_redis: ("lingua_redis_unreadable",),
    a_slow_reader: ("lingua_outbox_overflows",),
    a_slow_sentence: ("lingua_outcomes_late",),
    strangers: ("lingua_door_refusals", "lingua_connections_cut", "lingua_idle_closed"),
    a_renewed_certificate: ("lingua_tls_certificate_expires_timestamp_seconds", "lingua_tls_reloads"),
    a_talkative_node: ("lingua_partials_dropped",),
    a_guesser: ("lingua_session_misses",),
    an_address_inside: ("lingua_outgoing_calls_refused",),
    callers: ("lingua_request_claims", "lingua_calls_under_way", "lingua_results_kept_bytes"),
    two_instances: ("lingua_letters_posted", "lingua_letters_handled", "lingua_signals_heard"),
    bad_mail: ("lingua_inbox_letters", "lingua_letters_dead", "lingua_inbox_adoptions"),
    a_flood: ("lingua_job_records_skipped",),
    surprises: ("lingua_task_failures", "lingua_chore_failures"),
    a_worker_that_hangs: ("lingua_workers_silent",),
}


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.__name__)
@pytest.mark.expects_surprise("chore.failed", "letter.dead", "task.failed")
async def test_metrics_move(
    day: Callable[[RedisProcess, Path, Moved], Awaitable[None]], server: RedisProcess, tmp_path: Path
) -> None:
    _forget_gauges()
    watch = Watch(DAYS[day])
    await day(server, tmp_path, watch.all_moved)
    assert not watch.still


def test_every_metric_has_a_day_on_which_it_moves() -> None:
    named = [name for names in DAYS.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) == {family.name for family in metrics.REGISTRY.collect()}
