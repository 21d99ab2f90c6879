"""Nodes driven over HTTP: they work as well as those on a socket, and are judged the same."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol import pairs as pairs_module
from tests.support.fleet import ledger, wide_codes
from tests.support.http_nodes import LANGUAGES, HttpNode, door, http_node, never, said_of, take
from tests.support.peers import Field, Frame, answer, field, registration, stay_silent
from tests.support.schedulers import scheduler_on, settings_with
from tests.support.servers import RedisProcess
from tests.support.waiting import until

LOCAL = {"server__allow_calls_to": ["127.0.0.1"]}


@pytest.fixture
async def scheduler(server: RedisProcess) -> AsyncIterator[Scheduler]:
    async with scheduler_on(server.url, **LOCAL) as (started, _):
        yield started


@pytest.fixture
async def peers(scheduler: Scheduler) -> AsyncIterator[Field]:
    async with field(scheduler.port) as found:
        yield found


def is_polling(scheduler: Scheduler, node: HttpNode) -> bool:
    return scheduler._http_nodes._nodes[node.node_id].box._polls > 0


async def shown(peers: Field, node_id: str) -> Frame:
    status, body = await peers.get(f"/v1/nodes/{node_id}")
    assert status == 200
    return body  # type: ignore[no-any-return]


async def node_ids(peers: Field) -> set[str]:
    return {node["node_id"] for node in (await peers.get("/v1/nodes"))[1]["nodes"]}


# Registration


async def test_a_node_that_can_get_no_jobs_is_told_what_is_missing(peers: Field) -> None:
    says = {"node_id": "node-bare", "asr_langs": ["en"], "tts_langs": ["fr"], "nmt_pairs": ["en:fr"]}
    status, body = await peers.post("/v1/node/register", says)
    assert (status, body["state"]) == (200, "registering")
    assert body["hint"] == "no jobs until it declares semantic_langs (pools.admission)"
    status, body = await peers.post("/v1/node/heartbeat", {"node_id": "node-bare", "semantic_langs": ["en"]})
    assert (status, body["state"], "hint" in body) == (200, "ready", False)


# Work


async def test_a_polling_node_serves_a_clients_utterance(peers: Field) -> None:
    node = await http_node(peers, node_id="node-poll", max_concurrent_jobs=2)
    client = await peers.client()
    await client.utterance(0, b"\x00\x01" * 320)
    job = await node.fetch()
    assert job["type"] == "job_assign"
    assert (job["attempt_id"], job["src_lang"], job["tgt_lang"], job["start_within_ms"]) == (1, "en", "zh", 5000)
    assert base64.b64decode(job["audio"]) == b"\x00\x01" * 320
    assert (await shown(peers, "node-poll"))["jobs"][0]["state"] == "DISPATCHED"
    assert await node.report("ack", job) == (200, {"ok": True})
    assert (await shown(peers, "node-poll"))["jobs"][0]["state"] == "ACCEPTED"
    assert await node.report("done", job, **said_of(job), processing_time_ms=7) == (200, {"ok": True})
    outcome = await client.outcome()
    assert (outcome["type"], outcome["text_asr"], outcome["text_translated"]) == (
        "translation_result",
        "heard 0",
        "said 0",
    )
    assert outcome["service_timings"] == {"total_ms": 7}
    assert (await shown(peers, "node-poll"))["held"] == 0


async def test_a_waiting_poll_is_answered_as_soon_as_there_is_a_job(peers: Field) -> None:
    node = await http_node(peers)
    client = await peers.client()
    polling = asyncio.create_task(node.poll(30_000))
    await client.utterance(0)
    (job,) = (await polling)["assignments"]
    await node.do(job)
    assert (await client.outcome())["text_asr"] == "heard 0"


async def test_a_called_node_serves_a_clients_utterance(peers: Field) -> None:
    async with door(take) as opened:
        node = await http_node(peers, callback_url=opened.url)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: opened.calls)
        (job,) = opened.calls
        assert job["type"] == "job_assign"
        await node.do(job)
        assert (await client.outcome())["text_translated"] == "said 0"
        assert await node.poll() == {"assignments": [], "cancels": [], "controls": []}


async def test_a_node_may_accept_and_answer_before_its_door_closes(server: RedisProcess) -> None:
    """It works inside the call, and the call takes too long; but it had accepted."""

    async def work_slowly(job: Frame) -> int:
        if job["type"] == "job_assign":
            assert (await node.report("ack", job))[0] == 200
        return await never(job)

    async with (
        scheduler_on(server.url, nodes__callback_timeout_ms=200, **LOCAL) as (scheduler, _),
        field(scheduler.port) as peers,
        door(work_slowly) as opened,
    ):
        node = await http_node(peers, callback_url=opened.url)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: opened.calls)
        (job,) = opened.calls
        await until(lambda: not len(scheduler._http_nodes._errands))
        assert (await node.report("done", job, **said_of(job)))[0] == 200
        assert (await client.outcome())["text_asr"] == "heard 0"


async def test_a_failed_job_goes_to_another_node_if_its_code_says_so(peers: Field) -> None:
    first = await http_node(peers)
    client = await peers.client()
    await client.utterance(0)
    job = await first.fetch()
    await peers.node(answer)
    await first.report("ack", job)
    error = {"code": "NODE_OVERLOADED", "message": "no room"}
    assert await first.report("fail", job, error=error) == (200, {"ok": True})
    assert (await client.outcome())["type"] == "translation_result"


async def test_a_job_may_fail_for_good(peers: Field) -> None:
    node = await http_node(peers)
    client = await peers.client()
    await client.utterance(0)
    job = await node.fetch()
    error = {"code": "UNSUPPORTED_FEATURE", "message": "no"}
    assert await node.report("fail", job, error=error) == (200, {"ok": True})
    outcome = await client.outcome()
    assert (outcome["type"], outcome["reason"]) == ("missing_result", "job_failed")
    event = client.socket.of_type("ui_event")[-1]
    assert event["error_code"] == "UNSUPPORTED_FEATURE"


async def test_nothing_to_hear_is_said_as_on_a_socket(peers: Field) -> None:
    node = await http_node(peers)
    client = await peers.client()
    await client.utterance(0)
    job = await node.fetch()
    assert (await node.report("done", job, extra={"reason": "ASR_EMPTY"}))[0] == 200
    assert (await client.outcome())["reason"] == "no_text"


# Failures


async def test_a_node_that_dies_in_a_job_loses_it_to_another(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, nodes__missed_heartbeats=1) as (scheduler, store),
        field(scheduler.port) as peers,
    ):
        node = await http_node(peers, node_id="node-dying", heartbeat_interval_ms=1_000)
        client = await peers.client()
        await client.utterance(0)
        job = await node.fetch()
        await node.report("ack", job)
        other = await peers.node(answer)
        outcome = await client.outcome()
        assert outcome["type"] == "translation_result"
        assert [again["attempt_id"] for again in other.jobs] == [2]
        assert await node_ids(peers) == {other.node_id}
        assert await ledger(store, "node-dying") == (0, None, 0)
        await until(lambda: not len(scheduler._http_nodes))
        status, body = await node.report("done", job, **said_of(job))
        assert (status, body["error"]) == (404, "UNKNOWN_NODE")


async def test_a_job_that_is_never_accepted_goes_to_another(server: RedisProcess) -> None:
    async with scheduler_on(server.url, job__reservation_ttl_ms=300) as (scheduler, _), field(scheduler.port) as peers:
        node = await http_node(peers)
        client = await peers.client()
        await client.utterance(0)
        job = await node.fetch()
        await peers.node(answer)
        assert (await client.outcome())["type"] == "translation_result"
        (cancel,) = (await node.poll())["cancels"]
        assert (cancel["job_id"], cancel["reason"]) == (job["job_id"], "ack_timeout")
        for verb in ("ack", "done", "fail"):
            status, body = await node.report(verb, job)
            assert (status, body["error"]) == (409, "STALE_ATTEMPT")
            assert job["job_id"] in body["detail"]


async def test_an_order_that_nobody_fetched_is_withdrawn_not_cancelled(server: RedisProcess) -> None:
    async with scheduler_on(server.url, job__reservation_ttl_ms=200) as (scheduler, _), field(scheduler.port) as peers:
        node = await http_node(peers)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: held_by(peers, node.node_id))
        await peers.node(answer)
        assert (await client.outcome())["type"] == "translation_result"
        assert await node.poll() == {"assignments": [], "cancels": [], "controls": []}


async def held_by(peers: Field, node_id: str) -> int:
    return (await shown(peers, node_id))["held"]  # type: ignore[no-any-return]


async def test_a_job_is_done_once(peers: Field) -> None:
    node = await http_node(peers)
    client = await peers.client()
    await client.utterance(0)
    job = await node.fetch()
    await node.do(job)
    for verb in ("ack", "done", "fail"):
        status, body = await node.report(verb, job, **({"text_asr": "again"} if verb == "done" else {}))
        assert (status, body["error"]) == (409, "STALE_ATTEMPT")
    assert (await client.outcome())["text_asr"] == "heard 0"
    await client.utterance(1)
    await node.do(await node.fetch())
    assert (await client.outcome())["text_asr"] == "heard 1"


async def test_only_the_node_that_has_the_job_is_believed(peers: Field) -> None:
    node = await http_node(peers)
    client = await peers.client()
    await client.utterance(0)
    job = await node.fetch()
    liar = await http_node(peers)
    for verb in ("ack", "done", "fail"):
        status, body = await liar.report(verb, job)
        assert (status, body["error"]) == (409, "STALE_ATTEMPT")
    status, body = await node.report("done", job | {"attempt_id": 2}, text_asr="a lie")
    assert (status, body["error"]) == (409, "STALE_ATTEMPT")
    await node.do(job)
    assert (await client.outcome())["text_asr"] == "heard 0"


@pytest.mark.parametrize("fault", ["500", "302", "silence", "nobody"])
async def test_a_door_that_does_not_take_a_job_sends_it_to_another_node(server: RedisProcess, fault: str) -> None:
    async def respond(message: Frame) -> int:
        return await never(message) if fault == "silence" else int(fault)

    async with (
        scheduler_on(server.url, nodes__callback_timeout_ms=200, **LOCAL) as (
            scheduler,
            store,
        ),
        field(scheduler.port) as peers,
        door(respond) as opened,
    ):
        url = "http://127.0.0.1:1025/jobs" if fault == "nobody" else opened.url
        node, other = await http_node(peers, callback_url=url), await peers.node(answer)
        before = lost("send_failed")
        client = await peers.client()
        for index in range(50):
            await client.utterance(index)
            assert (await client.outcome())["type"] == "translation_result"
            if other.jobs[-1]["attempt_id"] == 2:
                break
        else:
            raise AssertionError("nobody ever tried the node that is called")
        assert lost("send_failed") == before + 1
        assert [call["type"] for call in opened.calls][:1] == ["job_assign"] * (fault != "nobody")
        assert opened.calls_elsewhere == 0
        assert await ledger(store, node.node_id) == (0, 4, 0)


def lost(reason: str) -> float:
    return metrics.REGISTRY.get_sample_value("lingua_attempts_lost_total", {"reason": reason}) or 0.0


async def test_a_full_mailbox_sends_jobs_elsewhere(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, server__outbox_max_bytes=100_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        node = await http_node(peers, max_concurrent_jobs=4)
        client = await peers.client()
        for index in range(2):
            await client.utterance(index, b"\x00\x01" * 16_000)  # 43 kB each as base64
        await until(lambda: is_held(peers, node.node_id, 2))
        other = await peers.node(answer, max_concurrent_jobs=1)
        await client.utterance(2, b"\x00\x01" * 16_000)
        # Whichever node it was offered to first, only one of them had room.
        await until(lambda: other.jobs)
        assert len((await node.poll())["assignments"]) == 2


async def is_held(peers: Field, node_id: str, jobs: int) -> bool:
    return (await shown(peers, node_id))["held"] == jobs  # type: ignore[no-any-return]


# Being alive, and whose an id is


async def test_only_beats_and_polls_are_signs_of_life(scheduler: Scheduler, peers: Field) -> None:
    node = await http_node(peers)
    box = scheduler._http_nodes._nodes[node.node_id].box
    registered_at = box._seen_at
    await node.report("ack", {"job_id": "job-0-x", "attempt_id": 1})
    assert box._seen_at == registered_at
    await node.poll()
    polled_at = box._seen_at
    assert polled_at > registered_at
    await node.post("/v1/node/heartbeat")
    assert box._seen_at > polled_at


async def test_a_silent_node_is_gone_and_its_mail_with_it(server: RedisProcess) -> None:
    async with scheduler_on(server.url, nodes__missed_heartbeats=1) as (scheduler, _), field(scheduler.port) as peers:
        node = await http_node(peers, heartbeat_interval_ms=1_000)
        await until(lambda: is_empty(peers))
        await until(lambda: not len(scheduler._http_nodes))
        for path in ("/v1/node/heartbeat", "/v1/node/poll"):
            status, body = await node.post(path)
            assert (status, body["error"]) == (404, "UNKNOWN_NODE")
            assert "register again" in body["detail"]
        assert (await http_node(peers, node_id=node.node_id)).node_id == node.node_id


async def is_empty(peers: Field) -> bool:
    return not await node_ids(peers)


async def test_a_poll_that_waits_keeps_its_node_alive(server: RedisProcess) -> None:
    async with scheduler_on(server.url, nodes__missed_heartbeats=1) as (scheduler, _), field(scheduler.port) as peers:
        node = await http_node(peers, heartbeat_interval_ms=1_000)
        before = (await shown(peers, node.node_id))["alive_until_ms"]
        await node.poll(2_500)
        assert (await shown(peers, node.node_id))["alive_until_ms"] >= before + 1_500


async def test_of_two_polls_the_earlier_ends_empty(scheduler: Scheduler, peers: Field) -> None:
    node = await http_node(peers)
    earlier = asyncio.create_task(node.poll(30_000))
    await until(lambda: is_polling(scheduler, node))
    later = asyncio.create_task(node.poll(30_000))
    assert await earlier == {"assignments": [], "cancels": [], "controls": []}
    client = await peers.client()
    await client.utterance(0)
    assert len((await later)["assignments"]) == 1


async def test_a_poll_whose_caller_left_takes_no_job_with_it(scheduler: Scheduler, peers: Field) -> None:
    node = await http_node(peers)
    left = asyncio.create_task(node.poll(30_000))
    await until(lambda: is_polling(scheduler, node))
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: held_by(peers, node.node_id))
    (job,) = (await node.poll())["assignments"]
    await node.do(job)
    assert (await client.outcome())["text_asr"] == "heard 0"


async def test_an_id_that_answers_is_not_given_away(peers: Field) -> None:
    await http_node(peers, node_id="node-mine", boot_id="boot-1")
    status, body = await peers.post("/v1/node/register", LANGUAGES | {"node_id": "node-mine", "boot_id": "boot-2"})
    assert (status, body["error"]) == (409, "NODE_ID_CONFLICT")
    socket = await peers.socket("/ws/node")
    await socket.send(registration(node_id="node-mine"))
    assert (await socket.next("error"))["code"] == "NODE_ID_CONFLICT"


async def test_the_same_process_may_register_again(peers: Field) -> None:
    node = await http_node(peers, node_id="node-mine", boot_id="boot-1")
    client = await peers.client()
    await client.utterance(0)
    job = await node.fetch()
    await node.report("ack", job)
    await http_node(peers, node_id="node-mine", boot_id="boot-1")
    assert (await node.report("done", job, **said_of(job)))[0] == 200
    assert (await client.outcome())["text_asr"] == "heard 0"


async def test_orders_wait_for_the_same_process_while_it_registers_again(peers: Field) -> None:
    await http_node(peers, node_id="node-mine", boot_id="boot-1")
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: held_by(peers, "node-mine"))
    again = await http_node(peers, node_id="node-mine", boot_id="boot-1")
    (job,) = (await again.poll())["assignments"]
    assert job["attempt_id"] == 1
    await again.do(job)
    assert (await client.outcome())["text_asr"] == "heard 0"


async def test_orders_of_a_former_process_are_void(server: RedisProcess) -> None:
    async with scheduler_on(server.url, nodes__missed_heartbeats=60) as (scheduler, _), field(scheduler.port) as peers:
        await http_node(peers, node_id="node-mine", boot_id="boot-1", heartbeat_interval_ms=1_000)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: held_by(peers, "node-mine"))
        other = await peers.node(answer)
        await until(lambda: can_register(peers, "node-mine", "boot-2"))
        status, body = await peers.post("/v1/node/poll", {"node_id": "node-mine", "wait_ms": 0})
        assert (status, body["assignments"]) == (200, [])
        assert (await client.outcome())["type"] == "translation_result"
        assert [job["attempt_id"] for job in other.jobs] == [2]


async def test_a_node_that_fell_silent_loses_its_id_to_who_asks(server: RedisProcess) -> None:
    async with scheduler_on(server.url, nodes__missed_heartbeats=60) as (scheduler, _), field(scheduler.port) as peers:
        first = await http_node(peers, node_id="node-mine", boot_id="boot-1", heartbeat_interval_ms=1_000)
        await until(lambda: can_register(peers, "node-mine", "boot-2"))
        for path in ("/v1/node/heartbeat", "/v1/node/poll"):
            status, body = await first.post(path, boot_id="boot-1")
            assert (status, body["error"]) == (409, "NODE_ID_CONFLICT")
        for verb in ("ack", "done", "fail"):
            status, body = await first.report(verb, {"job_id": "job-0-x", "attempt_id": 1}, boot_id="boot-1")
            assert (status, body["error"]) == (409, "NODE_ID_CONFLICT")
        assert (await first.post("/v1/node/heartbeat", boot_id="boot-2"))[0] == 200


async def can_register(peers: Field, node_id: str, boot_id: str) -> bool:
    return (await peers.post("/v1/node/register", LANGUAGES | {"node_id": node_id, "boot_id": boot_id}))[0] == 200


async def test_a_socket_takes_over_from_http_and_its_polls_hear_of_it(scheduler: Scheduler, peers: Field) -> None:
    node = await http_node(peers, node_id="node-mine", boot_id="boot-1")
    polling = asyncio.create_task(node.post("/v1/node/poll", wait_ms=30_000))
    await until(lambda: is_polling(scheduler, node))
    await peers.node(stay_silent, node_id="node-mine", boot_id="boot-1")
    status, body = await polling
    assert (status, body["error"]) == (409, "NODE_ID_CONFLICT")
    assert "register again" in body["detail"]
    status, body = await node.post("/v1/node/heartbeat")
    assert (status, body["error"]) == (409, "NODE_ID_CONFLICT")
    assert (await shown(peers, "node-mine"))["platform"] == "linux"


# What a node says of itself


async def test_a_node_is_given_an_id_and_told_how_often_to_beat(peers: Field) -> None:
    status, body = await peers.post("/v1/node/register", {"semantic_langs": ["en"], "tts_langs": ["en"]})
    assert status == 200
    assert body.pop("node_id").startswith("node-")
    assert body == {"ok": True, "state": "ready", "heartbeat_interval_ms": 15_000}


async def test_languages_heard_are_those_repaired_unless_said_otherwise(peers: Field) -> None:
    node = await http_node(peers, semantic_langs=["en", "zh"], tts_langs=["zh"], nmt_pairs=["en:zh"])
    found = await shown(peers, node.node_id)
    assert found["languages"] == {
        "asr": ["en", "zh"],
        "semantic": ["en", "zh"],
        "tts": ["zh"],
        "translations": ["en:zh"],
    }
    assert found["acknowledges"] is True
    assert "zh:en" not in found["pairs"]
    assert (await node.post("/v1/node/heartbeat", asr_langs=["zh"]))[0] == 200
    found = await shown(peers, node.node_id)
    assert (found["languages"]["asr"], found["languages"]["tts"]) == (["zh"], ["zh"])
    assert found["pairs"] == ["zh:zh"]


@pytest.mark.parametrize("when", ["register", "heartbeat"])
async def test_a_node_that_is_not_well_gets_no_work_until_it_is(peers: Field, when: str) -> None:
    node = await http_node(peers, health="failing" if when == "register" else "ok")
    if when == "heartbeat":
        assert (await node.post("/v1/node/heartbeat", health="failing"))[1]["state"] == "degraded"
    found = await shown(peers, node.node_id)
    assert (found["state"], found["free"]) == ("degraded", None)
    assert (await node.post("/v1/node/heartbeat"))[1]["state"] == "degraded"
    assert (await node.post("/v1/node/heartbeat", health="ok"))[1]["state"] == "ready"
    assert (await shown(peers, node.node_id))["free"] == 4


async def test_a_node_changes_between_polling_and_being_called(peers: Field) -> None:
    async with door(take) as opened:
        node = await http_node(peers)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: held_by(peers, node.node_id))
        await node.post("/v1/node/heartbeat", callback_url=opened.url)
        await until(lambda: opened.calls)
        await node.do(opened.calls[0])
        await node.post("/v1/node/heartbeat", callback_url="")
        await client.utterance(1)
        await node.do(await node.fetch())
        assert [(await client.outcome())["text_asr"] for _ in range(2)] == ["heard 0", "heard 1"]
        assert len(opened.calls) == 1


@pytest.mark.parametrize(
    ("field_name", "value"),
    [
        ("nmt_pairs", ["en:zh", "english to chinese"]),
        ("nmt_pairs", [{"von": "en"}]),
        ("tts_langs", ["Chinese"]),
        ("semantic_langs", "en"),
        ("max_concurrent_jobs", -1),
        ("node_id", "two words"),
        ("callback_url", "ftp://host/jobs"),
        ("callback_url", "http://user:secret@host/jobs"),
        ("callback_url", "http:///jobs"),
        ("callback_url", "http://[::1/jobs"),
        ("callback_url", "http://127.0.0.1:22/jobs"),
        ("callback_url", "http://10.0.0.7/jobs"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(peers: Field, field_name: str, value: Any) -> None:
    status, body = await peers.post("/v1/node/register", LANGUAGES | {field_name: value})
    assert (status, body["error"]) == (400, "INVALID_MESSAGE")
    assert field_name in body["detail"]
    if field_name != "node_id":
        node = await http_node(peers)
        status, body = await node.post("/v1/node/heartbeat", **{field_name: value})
        assert (status, body["error"]) == (400, "INVALID_MESSAGE")
        assert field_name in body["detail"]


async def test_long_lists_are_read_at_the_pace_of_changes_and_once(
    peers: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    pair_of = pairs_module._pair

    def counted(candidate: object) -> list[tuple[str, str]]:
        read.append(candidate)
        return pair_of(candidate)

    codes = wide_codes(80)
    pairs = [f"{src}:{tgt}" for src in codes for tgt in codes][:6_000]
    node = await http_node(peers, nmt_pairs=pairs)
    monkeypatch.setattr(pairs_module, "_pair", counted)
    # 20 changes a minute, and 6000 pairs count as seven.
    answers = [await node.post("/v1/node/heartbeat", nmt_pairs=pairs[turn:]) for turn in range(1, 6)]
    assert [status for status, _ in answers] == [200, 200, 429, 429, 429]
    assert answers[-1][1]["error"] == "RATE_LIMITED"
    assert len(read) < 2 * len(pairs)
    # What it says already, and all else, is always heard.
    assert (await node.post("/v1/node/heartbeat", nmt_pairs=pairs[2:]))[0] == 200
    assert (await node.post("/v1/node/heartbeat", max_concurrent_jobs=7))[0] == 200
    assert len(read) < 2 * len(pairs)


async def test_a_fleet_that_is_full_takes_no_more(server: RedisProcess) -> None:
    async with scheduler_on(server.url, server__max_nodes=1) as (scheduler, _), field(scheduler.port) as peers:
        await http_node(peers)
        status, body = await peers.post("/v1/node/register", LANGUAGES)
        assert (status, body["error"]) == (503, "NODE_UNAVAILABLE")
        url = f"http://127.0.0.1:{peers.port}/v1/node/register"
        async with aiohttp.ClientSession() as http, http.post(url, json=LANGUAGES) as response:
            assert response.headers["Retry-After"] == "5"


async def test_a_stop_ends_waiting_polls_and_takes_no_newcomers(store: Store) -> None:
    scheduler = Scheduler(settings_with(), store)
    await scheduler.start()
    async with field(scheduler.port) as peers:
        node = await http_node(peers)
        polling = asyncio.create_task(node.post("/v1/node/poll", wait_ms=30_000))
        await until(lambda: is_polling(scheduler, node))
        scheduler._http_nodes.is_open = False
        status, body = await peers.post("/v1/node/register", LANGUAGES)
        assert (status, body["error"]) == (503, "NODE_UNAVAILABLE")
        await scheduler.stop()
        status, body = await polling
        assert (status, body["error"]) == (404, "UNKNOWN_NODE")
