"""Sessions on real sockets: what a client is told on the way, limits with clear answers, and long silences."""

import asyncio
import base64
from functools import partial
from typing import Any

import aiohttp
import pytest
import uvloop

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol import binary
from tests.support import jumping
from tests.support.peers import FakeClient, FakeNode, Field, Frame, answer, field, result_of, stay_silent
from tests.support.schedulers import scheduler_by, scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET, packet_of
from tests.support.waiting import until

OPUS = PACKET * 20  # 400 ms
PCM16 = b"\x00\x01" * 3_200  # 200 ms


def events(client: FakeClient) -> list[tuple[str, int]]:
    return [(event["event"], event["utterance_index"]) for event in client.socket.of_type("ui_event")]


async def outcomes(client: FakeClient, count: int) -> list[Frame]:
    return [await client.outcome(within_s=20) for _ in range(count)]


# Steps


async def test_a_speaker_is_told_how_the_utterance_gets_on(peers: Field) -> None:
    async def work(node: FakeNode, job: Frame) -> None:
        about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
        await node.socket.send({"type": "job_ack", "attempt_id": 1, "node_id": node.node_id} | about)
        await until(lambda: node.socket.of_type("job_grant"))
        said = {"type": "asr_partial", "node_id": node.node_id, "text": "hello", "is_final": True}
        await node.socket.send(said | about)
        await answer(node, job)

    node = await peers.node(stay_silent, advanced_features=["job_ack"])
    client = await peers.client()
    await client.chunk(OPUS, is_final=True)
    await until(lambda: node.jobs)
    await work(node, node.jobs[0])
    await client.outcome()
    await client.socket.send(
        {"type": "tts_started", "session_id": client.session_id, "trace_id": "t", "group_id": "g", "ts_start_ms": 1}
    )
    await client.socket.send(
        {"type": "tts_play_ended", "session_id": client.session_id, "trace_id": "t", "group_id": "g", "ts_end_ms": 2}
    )
    await until(lambda: len(events(client)) == 7)
    assert events(client) == [
        ("INPUT_STARTED", 0),
        ("INPUT_ENDED", 0),
        ("DISPATCHED", 0),
        ("NODE_ACCEPTED", 0),
        ("ASR_FINAL", 0),
        ("TTS_PLAY_STARTED", 0),
        ("TTS_PLAY_ENDED", 0),
    ]
    told = client.socket.of_type("ui_event")
    assert all(event["status"] == "ok" and event["session_id"] == client.session_id for event in told)
    assert [event["job_id"] for event in told] == ["", ""] + [node.jobs[0]["job_id"]] * 5
    assert told[1]["elapsed_ms"] == 400
    assert told[2]["elapsed_ms"] >= 0


async def test_an_operator_may_leave_the_steps_out(server: RedisProcess) -> None:
    async with scheduler_on(server.url, sessions__ui_events="errors") as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        client = await peers.client()
        await client.chunk(OPUS, is_final=True)
        await client.outcome()
        assert events(client) == []


# What a job and a result carry


async def test_a_sentence_right_after_another_brings_its_context_along(peers: Field) -> None:
    node = await peers.node(advanced_features=["context_text"])
    client = await peers.client()
    for index in range(2):
        await client.utterance(index)
        await client.outcome()
    first, second = client.socket.of_type("translation_result")
    assert (first["part_index"], second["part_index"]) == (0, 1)
    assert first["group_id"] == second["group_id"]
    assert "context_text" not in node.jobs[0]
    job = node.jobs[1]
    assert (job["part_index"], job["context_text"]) == (1, first["text_asr"])
    assert job["group_id"].startswith("group_")
    assert job["group_id"] != first["group_id"]


async def test_a_client_that_asks_for_binary_frames_may_send_them(peers: Field) -> None:
    node = await peers.node()
    client = await peers.client(use_binary_frame=True)
    assert client.ack["use_binary_frame"] is True
    await client.socket.socket.send_bytes(binary.encode_audio_chunk(client.session_id, 0, 0, PCM16, is_final=True))
    assert (await client.outcome())["type"] == "translation_result"
    assert [job["audio_format"] for job in node.jobs] == ["pcm16"]
    assert (await peers.client()).ack["use_binary_frame"] is False


async def test_the_times_of_a_result_are_filled_in(server: RedisProcess) -> None:
    async def work(node: FakeNode, job: Frame) -> None:
        extra = {"service_timings": {"asr_ms": 3, "nmt_ms": 1, "tts_ms": 2}, "secret": "x", "emotion": "calm"}
        await node.socket.send(result_of(job, node.node_id, extra=extra, processing_time_ms=0))

    async with scheduler_on(server.url, sessions__use_binary_frame=True) as (scheduler, _):
        async with field(scheduler.port) as peers:
            await peers.node(work)
            client = await peers.client()
            sent_ms = int(wall_ms()) - 70
            frame = binary.encode_audio_chunk(client.session_id, 0, sent_ms, PCM16, is_final=True)
            await client.socket.socket.send_bytes(frame)
            result = await client.outcome()
    assert result["service_timings"] == {"asr_ms": 3, "nmt_ms": 1, "tts_ms": 2, "total_ms": 0}
    network = result["network_timings"]
    assert 70 <= network["web_to_scheduler_ms"] < 10_000
    assert network["scheduler_to_node_ms"] >= 0
    assert network["node_to_scheduler_ms"] >= 0
    assert result["extra"] == {"service_timings": {"asr_ms": 3, "nmt_ms": 1, "tts_ms": 2}, "emotion": "calm"}


@pytest.mark.parametrize(
    ("init", "job_has"),
    [
        (
            {"src_lang": "auto", "mode": "two_way_auto", "lang_a": "zh", "lang_b": "en", "auto_langs": ["zh", "en"]},
            {"mode": "two_way_auto", "lang_a": "zh", "lang_b": "en", "auto_langs": ["zh", "en"], "src_lang": "auto"},
        ),
        ({"dialect": "us"}, {"dialect": "us"}),
        ({"features": {"emotion_detection": True}}, {"features": {"emotion_detection": True}}),
        (
            {"enable_streaming_asr": True, "partial_update_interval_ms": 250},
            {"enable_streaming_asr": True, "partial_update_interval_ms": 250},
        ),
    ],
)
async def test_what_a_client_asks_for_reaches_the_job(peers: Field, init: Frame, job_has: Frame) -> None:
    node = await peers.node()
    client = await peers.client(**init)
    await client.chunk(OPUS, is_final=True)
    await client.outcome()
    assert {name: node.jobs[0].get(name) for name in job_has} == job_has


@pytest.mark.parametrize(
    ("switches", "speaks"),
    [
        ({"use_asr": True, "use_nmt": True, "use_tts": False}, ()),
        ({"use_asr": True, "use_nmt": False, "use_tts": False}, ()),
        ({"use_asr": True, "use_nmt": False, "use_tts": True}, ("en",)),
    ],
)
async def test_switches_choose_the_pool_and_reach_the_job(
    peers: Field, switches: Frame, speaks: tuple[str, ...]
) -> None:
    able = {"asr_languages": ["en"], "tts_languages": list(speaks), "semantic_languages": ["en"]}
    node = await peers.node(language_capabilities=able | {"nmt_capabilities": [{"from": "en", "to": "zh"}]})
    client = await peers.client()
    await client.utterance(0)  # with speech in zh: this node cannot
    assert (await client.outcome())["type"] == "missing_result"
    await client.utterance(1, pipeline=switches)
    assert (await client.outcome())["type"] == "translation_result"
    assert {name: node.jobs[0]["pipeline"][name] for name in switches} == switches


# How much


async def test_too_much_audio_is_asked_to_pause_then_refused_and_room_comes_back(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, sessions__max_audio_bytes=40_000, nodes__believed_slots=0) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        node = await peers.node(stay_silent, max_concurrent_jobs=50)
        client, other = await peers.client(), await peers.client()
        for index in range(4):
            await client.utterance(index, PCM16 + PCM16[:3_600])  # 10 000 bytes
        pause = await client.socket.next("backpressure")
        assert (pause["action"], pause["resume_after_ms"]) == ("PAUSE", 1_000)
        await client.utterance(4, PCM16)
        refused = await client.outcome()
        assert (refused["type"], refused["code"]) == ("error", "NODE_OVERLOADED")
        await other.utterance(0, PCM16)  # others have their own
        await until(lambda: len(node.jobs) == 5)
        for job in node.jobs:
            await answer(node, job)
        await outcomes(client, 4)
        await client.utterance(4, PCM16)  # its number was not used up
        await until(lambda: len(node.jobs) == 6)
        await answer(node, node.jobs[-1])
        assert (await client.outcome())["utterance_index"] == 4
        await until(lambda: audio_held() == 0)


async def test_chunks_beyond_the_budget_are_refused_once_not_with_every_chunk(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, sessions__max_audio_bytes=20_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        client = await peers.client()
        for _ in range(20):
            await client.chunk(PCM16)
        await client.socket.send({"type": "client_heartbeat", "session_id": client.session_id, "timestamp": 1})
        await client.socket.next("server_heartbeat")
        assert len(client.socket.of_type("backpressure")) == 1
        assert [error["code"] for error in client.socket.of_type("error")] == ["NODE_OVERLOADED"]


async def test_a_pause_ends_what_is_said_while_an_earlier_outcome_waits_for_longer(server: RedisProcess) -> None:
    async def only_the_second(node: FakeNode, job: Frame) -> None:
        if job["utterance_index"] == 1:
            await answer(node, job)

    async with (
        scheduler_on(server.url, sessions__pause_ms=400, delivery__hold_ms=60_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        node = await peers.node(only_the_second)
        client = await peers.client()
        await client.utterance(0, PCM16)
        await client.utterance(1, PCM16)
        await until(lambda: len(node.jobs) == 2)
        # The answer to the second is held for the first: the timer of the session is set to a minute from now.
        await until(lambda: audio_held() == len(PCM16))
        await client.chunk(PCM16)
        await client.chunk(PCM16)
        await until(lambda: len(node.jobs) == 3)
        assert base64.b64decode(node.jobs[2]["audio"]) == PCM16 * 2


def audio_held() -> float | None:
    return metrics.REGISTRY.get_sample_value("lingua_audio_held_bytes")


async def test_the_audio_of_a_session_that_never_comes_back_is_given_back(server: RedisProcess) -> None:
    async with scheduler_on(server.url, sessions__grace_ms=50) as (scheduler, _), field(scheduler.port) as peers:
        client = await peers.client()
        await client.chunk(PCM16)
        await until(lambda: audio_held() == len(PCM16))
        await client.socket.close()
        await until(lambda: audio_held() == 0)


async def test_all_sessions_together_have_a_budget_too(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, server__max_audio_bytes=20_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        await peers.node(stay_silent)
        clients = [await peers.client() for _ in range(4)]
        for client in clients:
            await client.utterance(0, PCM16)
        refused = await clients[3].outcome()
        assert (refused["type"], refused["code"]) == ("error", "NODE_OVERLOADED")


# How fast


async def test_a_client_that_is_too_fast_is_slowed_down_and_loses_nothing(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, sessions__max_frames_per_s=20, sessions__max_duration_ms=600_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        node = await peers.node()
        fast, calm = await peers.client(), await peers.client()
        for _ in range(60):
            await fast.chunk(OPUS)
        await fast.chunk(is_final=True)
        assert (await fast.socket.next("backpressure"))["action"] == "PAUSE"
        # Nobody else waits: the other one's sentence is there while the fast one is still being read.
        await calm.utterance(0)
        assert (await calm.outcome())["type"] == "translation_result"
        assert not fast.socket.of_type("translation_result")
        await fast.outcome()
        job = next(job for job in node.jobs if job["session_id"] == fast.known_as(node.node_id))
        assert base64.b64decode(job["audio"]) == OPUS * 60


async def test_a_client_that_sends_too_many_bytes_is_slowed_down_too(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, sessions__max_bytes_per_s=20_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        await peers.node()
        client = await peers.client()
        await client.utterance(0, b"\x00\x01" * 20_000)
        assert (await client.socket.next("backpressure"))["action"] == "PAUSE"
        assert (await client.outcome())["type"] == "translation_result"


async def test_who_never_reads_is_closed_and_told_to_come_back(server: RedisProcess) -> None:
    speech = base64.b64encode(bytes(300_000)).decode()

    async def speak_at_length(node: FakeNode, job: Frame) -> None:
        await node.socket.send(result_of(job, node.node_id, tts_audio=speech))

    async with (
        scheduler_on(server.url, server__outbox_max_bytes=500_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        await peers.node(speak_at_length, max_concurrent_jobs=50)
        deaf, other = await peers.client(), await peers.client()
        before = metrics.OVERFLOWS._value.get()
        deaf.socket.fall_silent()
        for index in range(60):
            await deaf.utterance(index)
        await until(lambda: metrics.OVERFLOWS._value.get() > before)
        await other.utterance(0)
        assert (await other.outcome())["type"] == "translation_result"
        deaf.socket.cut()


# Coming back


async def test_chunks_sent_again_after_a_resume_are_not_heard_twice(peers: Field) -> None:
    node = await peers.node()
    client = await peers.client()
    for letter in "ab":
        await client.chunk(packet_of(letter))
    again = await peers.client(resume_token=client.ack["resume_token"])
    assert again.ack["next_seq"] == 2
    for letter in "abc":  # it sends from the beginning all the same
        await again.chunk(packet_of(letter))
    await again.chunk(is_final=True)
    await again.outcome()
    assert base64.b64decode(node.jobs[0]["audio"]) == b"".join(map(packet_of, "abc"))


# Long silences


def test_a_session_idle_for_five_minutes_still_translates_its_next_sentence(server: RedisProcess) -> None:
    loop = jumping.JumpingLoop()

    async def story() -> None:
        async with (
            scheduler_by(loop.time, server.url, redis__timeout_ms=3_600_000) as (scheduler, _),
            field(scheduler.port) as peers,
        ):
            await peers.node()
            client = await peers.client()
            await client.chunk(OPUS, is_final=True)
            assert (await client.outcome())["utterance_index"] == 0
            began_s = loop.time()
            await loop.jump(300)
            assert loop.time() - began_s >= 300
            await client.chunk(OPUS, is_final=True)
            outcome = await client.outcome()
            assert (outcome["type"], outcome["utterance_index"]) == ("translation_result", 1)

    jumping.run(loop, story)


# Sent twice


async def test_a_repeated_request_gets_no_second_job_and_another_one_under_its_id_is_refused(peers: Field) -> None:
    node = await peers.node(stay_silent)
    client = await peers.client()
    await client.utterance(0, request_id="r1")
    await until(lambda: node.jobs)
    await client.utterance(0, request_id="r1")
    await client.utterance(1, request_id="r1")
    await client.utterance(2, b"\x01\x02" * 320, request_id="r1")
    refused = await client.outcome()
    assert (refused["type"], refused["code"]) == ("error", "INVALID_MESSAGE")
    await answer(node, node.jobs[0])
    assert (await client.outcome())["utterance_index"] == 0
    await client.utterance(1, request_id="r2")
    await until(lambda: len(node.jobs) == 2)
    assert node.jobs[1]["utterance_index"] == 1


async def test_a_request_that_came_to_nothing_may_be_tried_anew(peers: Field) -> None:
    client = await peers.client()
    await client.utterance(0, request_id="r1")
    assert (await client.outcome())["type"] == "missing_result"
    await peers.node()
    await client.utterance(1, request_id="r1")
    assert (await client.outcome())["type"] == "translation_result"


# Everybody at once


async def test_every_index_of_a_window_is_dispatched_exactly_once_in_whatever_order(peers: Field) -> None:
    node = await peers.node(max_concurrent_jobs=40)
    client = await peers.client()
    indexes = [7, 3, 0, 12, 5, 1, 2, 4, 6, 11, 10, 9, 8]
    for index in indexes:
        await client.utterance(index)
        await client.utterance(index)  # and every one twice
    await until(lambda: len(client.socket.of_type("translation_result")) == len(indexes))
    await asyncio.sleep(0)
    assert sorted(job["utterance_index"] for job in node.jobs) == list(range(13))
    heard: list[Any] = [result["utterance_index"] for result in client.socket.of_type("translation_result")]
    assert sorted(heard) == list(range(13))


# Nodes that may say nothing, and the gateway


async def test_a_part_its_node_takes_long_for_is_overtaken_and_not_given_up(server: RedisProcess) -> None:
    changes = {"sessions__max_duration_ms": 200, "delivery__silent_hold_ms": 50, "delivery__hold_ms": 60_000}
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        node = await peers.node(stay_silent, max_concurrent_jobs=4)
        client = await peers.client()
        for part in range(3):
            await client.chunk(PACKET * 15)  # 300 ms, so the one before is cut
            await until(partial(has_jobs, node, part))
        await client.chunk(is_final=True)
        await until(partial(has_jobs, node, 3))
        await answer(node, node.jobs[1])
        assert (await client.outcome())["utterance_index"] == 1
        await asyncio.sleep(0.2)  # far longer than it was waited for
        await answer(node, node.jobs[0])
        late = await client.outcome()
        assert (late["type"], late["utterance_index"], late["late"]) == ("translation_result", 0, True)
        assert not node.socket.of_type("job_cancel")


async def test_a_sentence_its_node_says_nothing_of_is_overtaken_and_still_awaited(server: RedisProcess) -> None:
    changes = {"delivery__silent_hold_ms": 50, "delivery__hold_ms": 60_000}
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        node = await peers.node(stay_silent)
        client = await peers.client()
        for index in range(2):
            await client.utterance(index)
        first, second = await until(lambda: sorted(node.jobs, key=by_index) if len(node.jobs) == 2 else None)
        await answer(node, second)
        assert (await client.outcome())["utterance_index"] == 1
        await answer(node, first)
        late = await client.outcome()
        assert (late["type"], late["utterance_index"], late["late"]) == ("translation_result", 0, True)


async def test_a_result_the_gateway_did_not_wait_for_is_not_the_answer_to_its_next_question(peers: Field) -> None:
    node = await peers.node(stay_silent)
    first = await peers.client(platform="api-gateway")
    await first.utterance(0)
    await until(lambda: node.jobs)
    first.socket.cut()
    await answer(node, node.jobs[0])
    second = FakeClient(await peers.socket("/ws/session"))
    second.session_id = first.session_id
    await second.utterance(1)
    await until(lambda: len(node.jobs) == 2)
    await answer(node, node.jobs[1])
    assert (await second.outcome())["utterance_index"] == 1


async def test_a_gateway_socket_is_closed_after_an_utterance_that_cannot_be_read(peers: Field) -> None:
    client = await peers.client(platform="api-gateway")
    again = FakeClient(await peers.socket("/ws/session"))
    again.session_id = client.session_id
    await again.utterance(0, sample_rate=None)
    assert (await again.socket.next("error"))["code"] == "INVALID_MESSAGE"
    assert await again.socket.closed() == 1013


async def test_a_socket_is_not_pinged_before_it_has_spoken(server: RedisProcess) -> None:
    async with scheduler_on(server.url, server__ping_interval_ms=200) as (scheduler, _):
        async with aiohttp.ClientSession() as http:
            url = f"ws://127.0.0.1:{scheduler.port}/ws/session"
            async with http.ws_connect(url, autoping=False) as silent:
                with pytest.raises(TimeoutError):
                    await silent.receive(timeout=1.0)
                init = {"client_version": "1", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}
                await silent.send_json({"type": "session_init"} | init)
                assert (await silent.receive_json())["type"] == "session_init_ack"
                assert (await silent.receive(timeout=10)).type is aiohttp.WSMsgType.PING


async def test_the_first_step_of_an_utterance_has_its_number(peers: Field) -> None:
    await peers.node()
    client = await peers.client()
    client._seq = 73
    await client.chunk(OPUS, is_final=True)
    await client.outcome()
    started = [event for event in client.socket.of_type("ui_event") if event["event"] == "INPUT_STARTED"]
    assert [event["utterance_index"] for event in started] == [73]


async def test_jobs_of_a_caller_that_uses_the_name_of_a_session_are_none_of_it(
    server: RedisProcess,
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        client = await peers.client()
        body = {"session_id": client.session_id, "src_lang": "en", "tgt_lang": "zh", "audio": "AAECAw=="}
        for _ in range(3):
            status, _ = await peers.post("/v1/dispatch/f2f", body)
            assert status == 200
        session = scheduler._intake._sessions.find(client.session_id)
        assert session is not None
        assert session.away == {}


def has_jobs(node: FakeNode, count: int) -> bool:
    return len(node.jobs) == count


def by_index(job: Frame) -> int:
    return int(job["utterance_index"])


def test_a_timer_that_is_due_at_once_may_be_set_again_on_the_loop_we_serve_with(server: RedisProcess) -> None:
    async def story() -> int:
        async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
            await peers.node()
            client = await peers.client()
            intake = scheduler._intake
            session = intake._sessions.find(client.session_id)
            assert session is not None
            # A sentence whose pause was over long ago, as after the loop was held up.
            session.conversation.chunk(0, OPUS, 400, False, 0.0)
            for _ in range(3):
                intake._arm(session)
            return int((await client.outcome())["utterance_index"])

    loop = uvloop.new_event_loop()
    try:
        assert loop.run_until_complete(story()) == 0
    finally:
        loop.close()
