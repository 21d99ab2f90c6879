"""Translating over HTTP: where the job is, what became of it, and every documented problem."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lingua_scheduler.app import Scheduler
from tests.support.callers import SPEECH, Answer, Caller, caller_of
from tests.support.mail import who
from tests.support.peers import FakeNode, Field, Frame, answer, field, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until

USED = {"src_lang": "en", "tgt_lang": "zh"}


class Place:
    """One scheduler, its peers, and somebody who calls it."""

    def __init__(self, scheduler: Scheduler, peers: Field, caller: Caller) -> None:
        self.scheduler = scheduler
        self.peers = peers
        self.caller = caller


@asynccontextmanager
async def place_on(url: str, **changes: Any) -> AsyncIterator[Place]:
    async with (
        scheduler_on(url, **changes) as (scheduler, _),
        field(scheduler.port) as peers,
        caller_of(scheduler.port) as caller,
    ):
        yield Place(scheduler, peers, caller)


@pytest.fixture
async def place(server: RedisProcess) -> AsyncIterator[Place]:
    async with place_on(server.url, dispatch__queue_wait_ms=300) as found:
        yield found


class Gate:
    """Nodes answer when it opens."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, node: FakeNode, job: Frame) -> None:
        await self.opened.wait()
        await answer(node, job)


async def refuse(node: FakeNode, job: Frame) -> None:
    error = {"code": "NODE_OVERLOADED", "message": "no"}
    await node.socket.send(result_of(job, node.node_id, success=False, error=error))


def problem(found: Answer) -> tuple[int, str]:
    assert set(found.body) == {"error", "detail"}
    return found.status, found.body["error"]


async def test_the_audio_of_callers_counts_until_it_is_translated(server: RedisProcess) -> None:
    gate = Gate()
    async with place_on(server.url, server__max_audio_bytes=2_048) as place:
        await place.peers.node(gate)
        first = await place.caller.dispatch()
        assert first.status == 200
        refused = await place.caller.dispatch()
        assert problem(refused) == (503, "NODE_OVERLOADED")
        assert "Retry-After" in refused.headers
        gate.opened.set()
        assert (await place.caller.result(first.body["job_id"], 5_000)).body["state"] == "DONE"
        assert (await place.caller.dispatch()).status == 200


# A job that is done


async def test_a_caller_learns_where_its_job_is_and_fetches_the_result(place: Place) -> None:
    async def translate(node: FakeNode, job: Frame) -> None:
        words = {"text_asr": "hello", "text_translated": "你好", "tts_audio": "AAAA", "tts_format": "opus"}
        await node.socket.send(result_of(job, node.node_id, **words))

    node = await place.peers.node(translate)
    placed = await place.caller.dispatch()
    assert placed.status == 200
    job_id = placed.body["job_id"]
    assert placed.body == {"job_id": job_id, "node_id": node.node_id, "attempt_id": 1, "languages_used": USED}
    fetched = await place.caller.result(job_id, 5_000)
    assert fetched.status == 200
    assert fetched.body == {
        "job_id": job_id,
        "state": "DONE",
        "text_asr": "hello",
        "text_translated": "你好",
        "tts_audio": "AAAA",
        "tts_format": "opus",
    }
    assert (await place.caller.result(job_id)).body == fetched.body


async def test_a_node_gets_what_the_caller_sent(place: Place) -> None:
    node = await place.peers.node()
    await place.caller.dispatch(session_id="anna", sample_rate=8_000)
    # How the caller names itself is no business of the node.
    job = (await until(lambda: node.jobs))[0]
    sent = {"src_lang": "en", "tgt_lang": "zh", "sample_rate": 8_000, "audio_format": "pcm16"}
    assert job | sent == job
    assert "anna" not in str(job)
    assert base64.b64decode(job["audio"]) == SPEECH
    assert job["pipeline"]["use_tts"] is True
    assert "audio_ref" not in job


async def test_a_reference_to_the_audio_is_passed_on_as_it_is(place: Place) -> None:
    node = await place.peers.node()
    placed = await place.caller.dispatch(None, audio_ref="s3://bucket/ü?sig=1", audio_format="opus")
    assert placed.status == 200
    job = (await until(lambda: node.jobs))[0]
    assert (job["audio_ref"], job["audio"], job["audio_format"]) == ("s3://bucket/ü?sig=1", "", "opus")


async def test_a_caller_of_text_gets_a_node_that_cannot_speak(place: Place) -> None:
    both = ["en", "zh"]
    mute = {"asr_languages": both, "semantic_languages": both, "tts_languages": ["en"]}
    node = await place.peers.node(language_capabilities=mute)
    assert problem(await place.caller.dispatch()) == (422, "NO_CAPABLE_NODE")
    assert (await place.caller.dispatch(options={"require_tts": False})).status == 200
    assert (await until(lambda: node.jobs))[0]["pipeline"]["use_tts"] is False


async def test_the_preferred_node_is_taken(place: Place) -> None:
    nodes = [await place.peers.node() for _ in range(3)]
    for node in nodes:
        options = {"preferred_node_id": node.node_id, "strict": True}
        assert (await place.caller.dispatch(options=options)).body["node_id"] == node.node_id


async def test_an_affinity_key_finds_its_node_again(place: Place) -> None:
    for _ in range(4):
        await place.peers.node()
    placed = [await place.caller.dispatch(options={"affinity_key": "anna"}) for _ in range(6)]
    assert len({found.body["node_id"] for found in placed}) == 1


async def test_a_job_that_is_lost_goes_on_elsewhere_after_the_caller_was_answered(place: Place) -> None:
    first, second = await place.peers.node(refuse), await place.peers.node()
    placed = await place.caller.dispatch(options={"preferred_node_id": first.node_id})
    assert (placed.body["node_id"], placed.body["attempt_id"]) == (first.node_id, 1)
    assert (await place.caller.result(placed.body["job_id"], 5_000)).body["state"] == "DONE"
    assert [job["attempt_id"] for job in second.jobs] == [2]


# Results


async def test_a_job_under_way_is_said_to_be_so(place: Place) -> None:
    gate = Gate()
    await place.peers.node(gate)
    job_id = (await place.caller.dispatch()).body["job_id"]
    assert (await place.caller.result(job_id)).body == {"job_id": job_id, "state": "DISPATCHED"}
    assert (await place.caller.result(job_id, 20)).body == {"job_id": job_id, "state": "DISPATCHED"}
    waiting = asyncio.create_task(place.caller.result(job_id, 30_000))
    gate.opened.set()
    assert (await waiting).body["state"] == "DONE"


async def test_a_node_that_heard_nothing_is_reported_as_no_text(place: Place) -> None:
    async def hear_nothing(node: FakeNode, job: Frame) -> None:
        await node.socket.send(result_of(job, node.node_id, text_asr="", extra={"reason": "ASR_EMPTY"}))

    await place.peers.node(hear_nothing)
    job_id = (await place.caller.dispatch()).body["job_id"]
    assert (await place.caller.result(job_id, 5_000)).body["state"] == "NO_TEXT"


async def test_a_failed_job_says_why(place: Place) -> None:
    async def fail(node: FakeNode, job: Frame) -> None:
        error = {"code": "UNSUPPORTED_FEATURE", "message": "secret"}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))

    await place.peers.node(fail)
    job_id = (await place.caller.dispatch()).body["job_id"]
    fetched = await place.caller.result(job_id, 5_000)
    assert fetched.status == 200
    assert fetched.body["state"] == "FAILED"
    assert fetched.body["error"] == {"code": "UNSUPPORTED_FEATURE", "detail": "the node failed the job"}


async def test_results_are_forgotten_after_their_time(server: RedisProcess) -> None:
    async with place_on(server.url, calls__keep_ms=1) as place:
        await place.peers.node()
        job_id = (await place.caller.dispatch()).body["job_id"]

        async def is_forgotten() -> bool:
            return (await place.caller.result(job_id, 5_000)).status == 404

        await until(is_forgotten)


@pytest.mark.parametrize("job_id", ["job-0-never", "job-999-x", "nonsense", "job-0-" + "x" * 100])
async def test_an_unknown_job_has_no_result(place: Place, job_id: str) -> None:
    assert problem(await place.caller.result(job_id)) == (404, "NOT_FOUND")


@pytest.mark.parametrize("wait_ms", [-1, 30_001, "soon"])
async def test_a_wait_out_of_range_is_refused(place: Place, wait_ms: Any) -> None:
    assert problem(await place.caller.result("job-0-x", wait_ms)) == (400, "INVALID_MESSAGE")


async def test_beside_an_older_release_the_result_of_another_instance_is_with_that_instance(
    server: RedisProcess,
) -> None:
    async with place_on(server.url) as here, place_on(server.url) as there:
        await here.peers.node()
        job_id = (await here.caller.dispatch()).body["job_id"]
        await there.scheduler._store.instances.join(who("i-old"), 60_000)
        await there.scheduler.presence.look()
        found = await there.caller.result(job_id)
        assert problem(found) == (409, "JOB_ELSEWHERE")
        assert here.scheduler.instance in found.body["detail"]


async def test_more_waiters_than_allowed_are_answered_at_once(server: RedisProcess) -> None:
    async with place_on(server.url, calls__max_jobs=1) as place:
        gate = Gate()
        await place.peers.node(gate)
        job_id = (await place.caller.dispatch()).body["job_id"]
        waiting = asyncio.create_task(place.caller.result(job_id, 30_000))
        await until(lambda: place.scheduler._calls._waiters)
        assert (await place.caller.result(job_id, 30_000)).body["state"] == "DISPATCHED"
        gate.opened.set()
        assert (await waiting).body["state"] == "DONE"


# Problems


async def test_what_nobody_serves_is_said_in_words(place: Place) -> None:
    await place.peers.node(languages=("de", "zh"))
    found = await place.caller.dispatch()
    assert problem(found) == (422, "NO_CAPABLE_NODE")
    told = "no node understands English or repairs English text; start one with: lingua node --languages en,zh"
    assert found.body["detail"] == told


async def test_when_every_slot_is_taken_the_caller_is_told_to_come_back(place: Place) -> None:
    await place.peers.node(stay_silent, max_concurrent_jobs=1)
    assert (await place.caller.dispatch()).status == 200
    found = await place.caller.dispatch()
    assert problem(found) == (503, "ALL_CANDIDATES_FULL_OR_FAILED")
    assert found.body["detail"] == "every node for en→zh is busy"
    assert found.headers["Retry-After"] == "1"


async def test_a_caller_may_wait_less_long_and_its_job_then_never_runs(server: RedisProcess) -> None:
    async with place_on(server.url, dispatch__queue_wait_ms=60_000) as place:
        gate = Gate()
        node = await place.peers.node(gate, max_concurrent_jobs=1)
        await place.caller.dispatch()
        found = await place.caller.dispatch(options={"timeout_ms": 30}, request_id="r")
        assert problem(found) == (503, "ALL_CANDIDATES_FULL_OR_FAILED")
        assert found.body["detail"] == "no node for en→zh was free within 30 ms"
        # It stays in line no longer than its caller waits.
        await until(lambda: len(place.scheduler._calls.jobs) == 1, 30)
        gate.opened.set()
        await until(lambda: not len(place.scheduler._calls.jobs))
        assert len(node.jobs) == 1
        # Its slot is free again, and the request may be tried anew.
        assert (await place.caller.dispatch(request_id="r")).status == 200
        await until(lambda: len(node.jobs) == 2)


async def test_a_demanded_node_that_cannot_is_a_conflict(place: Place) -> None:
    await place.peers.node()
    found = await place.caller.dispatch(options={"preferred_node_id": "node-NOBODY", "strict": True})
    assert problem(found) == (409, "PREFERRED_NODE_NOT_CAPABLE")
    assert found.body["detail"] == "node-NOBODY is not connected or does not serve en→zh"
    assert (await place.caller.dispatch(options={"preferred_node_id": "node-NOBODY"})).status == 200


async def test_without_redis_the_caller_is_told_at_once() -> None:
    redis = RedisProcess(str(binaries()["valkey"]))
    try:
        async with place_on(redis.url) as place:
            await place.peers.node()
            redis.stop()
            await until(lambda: not place.scheduler._store.is_ready)
            found = await place.caller.dispatch()
            assert problem(found) == (503, "SCHEDULER_DEPENDENCY_DOWN")
            assert found.headers["Retry-After"] == "1"
            assert problem(await place.caller.result("job-0-x")) == (503, "SCHEDULER_DEPENDENCY_DOWN")
    finally:
        redis.stop()


async def test_more_callers_than_allowed_are_told_to_come_back(server: RedisProcess) -> None:
    async with place_on(server.url, calls__max_jobs=2) as place:
        gate = Gate()
        await place.peers.node(gate, max_concurrent_jobs=8)
        jobs = [(await place.caller.dispatch()).body["job_id"] for _ in range(2)]
        found = await place.caller.dispatch()
        assert problem(found) == (503, "NODE_OVERLOADED")
        assert found.headers["Retry-After"] == "1"
        gate.opened.set()
        for job_id in jobs:
            assert (await place.caller.result(job_id, 5_000)).body["state"] == "DONE"
        assert (await place.caller.dispatch()).status == 200


async def test_too_much_audio_is_refused(server: RedisProcess) -> None:
    async with place_on(server.url, sessions__max_utterance_bytes=2_000, server__max_frame_bytes=10_000) as place:
        await place.peers.node()
        assert (await place.caller.dispatch(b"\0" * 2_000)).status == 200
        assert problem(await place.caller.dispatch(b"\0" * 2_001)) == (413, "INVALID_MESSAGE")
        assert (await place.caller.dispatch(b"\0" * 20_000)).status == 413


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"session_id": ""}, "session_id"),
        ({"session_id": "x" * 129}, "session_id"),
        ({"src_lang": "english!"}, "src_lang"),
        ({"src_lang": "auto"}, "for sessions only"),
        ({"tgt_lang": "auto"}, "tgt_lang"),
        ({"audio_ref": "ref"}, "either audio or audio_ref"),
        ({"audio": None}, "either audio or audio_ref"),
        ({"audio": ""}, "audio is empty"),
        ({"audio": "§"}, "audio"),
        ({"audio": None, "audio_ref": "x" * 2049}, "audio_ref"),
        ({"audio_format": "mp3"}, "audio_format"),
        ({"sample_rate": 0}, "sample_rate"),
        ({"request_id": "x" * 129}, "request_id"),
        ({"options": {"strict": True}}, "preferred_node_id"),
        ({"options": {"timeout_ms": -1}}, "timeout_ms"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(place: Place, fields: Frame, words: str) -> None:
    found = await place.caller.dispatch(**fields)
    assert problem(found) == (400, "INVALID_MESSAGE")
    assert words in found.body["detail"]


async def test_a_scheduler_that_stops_finishes_its_calls_and_takes_no_more(server: RedisProcess) -> None:
    async with place_on(server.url) as place:
        gate = Gate()
        await place.peers.node(gate)
        job_id = (await place.caller.dispatch()).body["job_id"]
        waiting = asyncio.create_task(place.caller.result(job_id, 30_000))
        await until(lambda: place.scheduler._calls._waiters)
        stopping = asyncio.create_task(place.scheduler.stop())
        await until(lambda: not place.scheduler._calls.is_open)
        assert problem(await place.caller.dispatch()) == (503, "NODE_OVERLOADED")
        gate.opened.set()
        assert (await waiting).body["state"] == "DONE"
        await stopping


@pytest.mark.expects_surprise("call.surprised")
async def test_a_surprise_is_told_as_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(place.scheduler._calls._requests, "translate", fail)
    assert problem(await place.caller.dispatch()) == (500, "INTERNAL_ERROR")


# Request ids


async def test_a_repeated_request_is_answered_with_the_same_job(place: Place) -> None:
    node = await place.peers.node()
    first = await place.caller.dispatch(request_id="r")
    await place.caller.result(first.body["job_id"], 5_000)
    again = await place.caller.dispatch(request_id="r")
    assert (again.status, again.body) == (200, first.body)
    assert len(node.jobs) == 1


async def test_a_repeat_while_the_first_waits_in_line_waits_with_it(server: RedisProcess) -> None:
    async with place_on(server.url, dispatch__queue_wait_ms=10_000) as place:
        gate = Gate()
        node = await place.peers.node(gate, max_concurrent_jobs=1)
        await place.caller.dispatch()
        both = [asyncio.create_task(place.caller.dispatch(request_id="r")) for _ in range(2)]
        await until(lambda: len(place.scheduler._waiting) == 1)
        gate.opened.set()
        answers = [await one for one in both]
        assert answers[0].body == answers[1].body
        await until(lambda: len(node.jobs) == 2)
        await place.caller.result(answers[0].body["job_id"], 5_000)
        assert len(node.jobs) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"audio": base64.b64encode(b"\0\2" * 320).decode()},
        {"tgt_lang": "en"},
        {"sample_rate": 8_000},
        {"options": {"require_tts": False}},
        {"audio": None, "audio_ref": "ref"},
    ],
)
async def test_the_same_request_id_for_something_else_is_a_conflict(place: Place, other: Frame) -> None:
    await place.peers.node()
    await place.caller.dispatch(request_id="r")
    assert problem(await place.caller.dispatch(request_id="r", **other)) == (409, "REQUEST_CONFLICT")


@pytest.mark.parametrize("other", [{"session_id": "b"}, {"tenant_id": "b"}, {"request_id": "b"}])
async def test_a_request_id_belongs_to_its_tenant_and_session(place: Place, other: Frame) -> None:
    await place.peers.node()
    scope: Frame = {"session_id": "a", "tenant_id": "a", "request_id": "a"}
    mine, theirs = await place.caller.dispatch(**scope), await place.caller.dispatch(**scope | other)
    assert mine.body["job_id"] != theirs.body["job_id"]


async def test_a_request_that_found_nobody_may_be_tried_anew(place: Place) -> None:
    assert problem(await place.caller.dispatch(request_id="r")) == (422, "NO_CAPABLE_NODE")
    await place.peers.node()
    assert (await place.caller.dispatch(request_id="r")).status == 200


async def test_a_repeat_is_told_the_latest_attempt(place: Place) -> None:
    first, second = await place.peers.node(refuse), await place.peers.node()
    placed = await place.caller.dispatch(request_id="r", options={"preferred_node_id": first.node_id})
    await place.caller.result(placed.body["job_id"], 5_000)
    again = await place.caller.dispatch(request_id="r", options={"preferred_node_id": first.node_id})
    told = {"job_id": placed.body["job_id"], "node_id": second.node_id, "attempt_id": 2}
    assert again.body == told | {"languages_used": USED}


async def test_no_request_leaves_speech_or_its_reference_in_redis_or_its_names_in_keys(
    place: Place, server: RedisProcess
) -> None:
    await place.peers.node()
    placed = await place.caller.dispatch(None, audio_ref="s3://secret", request_id="my-id", tenant_id="my-tenant")
    await place.caller.result(placed.body["job_id"], 5_000)
    keys = server.command("KEYS", "*").decode()
    assert ":{request:" in keys
    assert "my-id" not in keys
    assert "my-tenant" not in keys
    call = place.scheduler._store.line.call
    (name,) = await call("KEYS", "*{request:*")
    assert "secret" not in str(await call("HGETALL", name))


async def test_an_unknown_audio_format_is_refused_with_those_that_are_known(place: Place) -> None:
    found = await place.caller.dispatch(audio_format="mp3")
    assert problem(found) == (400, "INVALID_MESSAGE")
    assert found.body["detail"] == "invalid field \"audio_format\": invalid enum value 'mp3'; send opus or pcm16"


OGG = b"OggS\0\x02" + bytes(1_000)


async def test_a_sound_file_is_not_taken_for_samples(place: Place) -> None:
    await place.peers.node(answer)
    for declared in ({}, {"audio_format": "pcm16"}):
        found = await place.caller.dispatch(OGG, **declared)
        assert problem(found) == (415, "UNSUPPORTED_MEDIA_TYPE")
        assert "POST /v1/translate" in found.body["detail"]
    assert (await place.caller.dispatch(OGG, audio_format="opus")).status == 200


async def test_a_sound_file_in_an_utterance_is_refused(place: Place) -> None:
    await place.peers.node(answer)
    client = await place.peers.client()
    await client.utterance(0, OGG)
    refused = await client.socket.next("error")
    assert (refused["code"], refused["message"][:30]) == ("INVALID_MESSAGE", "utterance: audio is an Ogg fil")
    await client.utterance(0, OGG, audio_format="opus")
    await client.socket.next("translation_result")
