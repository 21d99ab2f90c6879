"""Simulated speakers against a real scheduler: all they say is counted once, and they end when they should."""

import asyncio

import pytest

from lingua_scheduler.cli.load import crowd
from lingua_scheduler.cli.load.crowd import Crowd, Plan, probe
from lingua_sdk.audio import CHUNK_BYTES, SAMPLE_RATE
from lingua_sdk.client import Failed
from tests.support.fake_scheduler import Call, FakeScheduler, fake_scheduler
from tests.support.peers import Field, Frame, field, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.tones import tone
from tests.support.waiting import until

AUDIO = tone(300, SAMPLE_RATE, 0.4).tobytes()


def plan(port: int, **changes: object) -> Plan:
    made = Plan(f"127.0.0.1:{port}", "en", "zh", 3, 0.0, 60.0, 0.0, AUDIO)
    return made._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [0.0, 20.0])
async def test_everything_that_is_said_has_one_outcome(peers: Field, rate: float) -> None:
    node = await peers.node(max_concurrent_jobs=50)
    people = Crowd(plan(peers.port, rate=rate))
    running = asyncio.create_task(people.run())
    await until(lambda: people.tally.translated >= 6, within_s=30)
    people.stop()
    people.stop()
    await running
    tally = people.tally
    assert tally.said == tally.translated == len(node.jobs)
    assert (tally.under_way, tally.connected, tally.is_cut) == (0, 0, False)
    assert tally.problems(None) == []
    assert 0 < (tally.took.at(0.5) or 0) <= tally.took.max_ms


async def test_it_ends_by_itself_and_people_arrive_one_after_the_other(peers: Field) -> None:
    await peers.node(max_concurrent_jobs=50)
    people = Crowd(plan(peers.port, seconds=1.5, ramp_up_s=1.5))
    running = asyncio.create_task(people.run())
    await until(lambda: people.tally.connected == 1)
    assert not people.is_over
    async with asyncio.timeout(90):
        await running
    assert people.is_over
    assert people.elapsed_s == pytest.approx(1.5, abs=1.0)


async def test_who_gets_no_answer_is_counted_when_the_wait_is_over(
    peers: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd, "ANSWER_WITHIN_S", 0.2)
    await peers.node(stay_silent, max_concurrent_jobs=50)
    people = Crowd(plan(peers.port, rate=20.0))
    running = asyncio.create_task(people.run())
    await until(lambda: people.tally.said >= 3)
    people.stop()
    await running
    assert people.tally.unanswered == people.tally.said
    assert f"{people.tally.said} utterances got no answer" in people.tally.problems(None)


async def test_a_lost_session_is_counted_and_opened_anew(server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_sdk.client.RESUME_WITHIN_S", 0.0)
    monkeypatch.setattr(crowd, "RECONNECT_S", 0.05)
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(max_concurrent_jobs=50)
        people = Crowd(plan(scheduler.port, rate=20.0, sessions=2))
        running = asyncio.create_task(people.run())
        await until(lambda: people.tally.translated >= 2)
    await until(lambda: people.tally.sessions_lost.total() >= 4, within_s=30)
    async with (
        scheduler_on(server.url, server__port=scheduler.port) as (_, _),
        field(scheduler.port) as peers,
    ):
        await peers.node(max_concurrent_jobs=50)
        before = people.tally.translated
        await until(lambda: people.tally.translated > before, within_s=30)
        people.stop()
        await running
    assert people.tally.under_way == 0


async def test_a_rolling_restart_gives_no_sentence_two_answers_or_none(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The instance that stops translates what it has of each sentence; the rest of it is said to the next instance."""
    monkeypatch.setattr(crowd, "PAUSE_S", (0.1, 0.3))
    async with scheduler_on(server.url) as (staying, _), field(staying.port) as peers:
        node = await peers.node(max_concurrent_jobs=50)
        async with scheduler_on(server.url) as (leaving, _):
            people = Crowd(plan(leaving.port, sessions=4, audio=tone(300, SAMPLE_RATE, 3.0).tobytes()))
            running = asyncio.create_task(people.run())
            await until(lambda: people.tally.translated >= 4, within_s=30)
        async with scheduler_on(server.url, server__port=leaving.port):
            before = people.tally.translated
            await until(lambda: people.tally.translated >= before + 8, within_s=60)
            people.stop()
            await running
    tally = people.tally
    assert tally.resumed >= 4
    assert (tally.problems(None), dict(tally.gaps), dict(tally.failed)) == ([], {}, {})
    assert (tally.translated, tally.under_way, tally.is_cut) == (tally.said, 0, False)
    assert len(node.jobs) >= tally.said


def ack(**more: object) -> Frame:
    return {
        "type": "session_init_ack",
        "session_id": "s-1",
        "message": "",
        "trace_id": "t",
        "protocol_version": "1.0",
        "use_binary_frame": False,
        "negotiated_codec": "opus",
        "negotiated_audio_format": "opus",
        "negotiated_sample_rate": 16000,
        "negotiated_channel_count": 1,
        "resume_token": "s-1.secret",
    } | more


async def welcomed(scheduler: FakeScheduler, **more: object) -> Call:
    call = await scheduler.call()
    await call.next("session_init")
    await call.send(ack(**more))
    return call


async def translate(call: Call, index: int) -> None:
    texts = {"text_asr": "hello", "text_translated": "你好", "tts_audio": "", "tts_format": "pcm16"}
    ids = {"session_id": "s-1", "job_id": f"job-0-{index}", "trace_id": "t"}
    await call.send({"type": "translation_result", "utterance_index": index, "scheduler_sent_at_ms": 0, **ids, **texts})


async def hear_chunk(call: Call, seq: int) -> None:
    while (await call.next("audio_chunk"))["seq"] != seq:
        pass


@pytest.mark.parametrize("is_answered_first", [True, False])
@pytest.mark.parametrize("last_seq_heard", [2, 5])
async def test_a_handover_in_the_silence_after_a_sentence_leaves_no_part_to_wait_for(
    monkeypatch: pytest.MonkeyPatch, last_seq_heard: int, is_answered_first: bool
) -> None:
    """The stopping instance had all the speech; the silence that is sent to the next one makes no utterance.

    The socket closes while the silence is being said, or after all of it.
    """
    monkeypatch.setattr(crowd, "PAUSE_S", (0.1, 0.2))
    audio = tone(300, SAMPLE_RATE, 0.6).tobytes() + bytes(int(SAMPLE_RATE * 0.6) * 2)
    async with fake_scheduler() as scheduler:
        people = Crowd(plan(scheduler.port, sessions=1, audio=audio))
        running = asyncio.create_task(people.run())
        leaving = await welcomed(scheduler)
        await hear_chunk(leaving, last_seq_heard)
        if is_answered_first:
            await translate(leaving, 0)
        await leaving.socket.close(code=1012)
        staying = await welcomed(scheduler, resumed=True, next_seq=3, next_utterance_index=1)
        if not is_answered_first:
            await translate(staying, 0)
        await hear_chunk(staying, 11)
        people.stop()
        await translate(staying, 1)
        await staying.next("session_close")
        await staying.send({"type": "session_close_ack", "session_id": "s-1"})
        await running
    tally = people.tally
    assert (tally.said, tally.translated, tally.unanswered, tally.is_cut) == (2, 2, 0, False)
    assert tally.took.max_ms < 10_000


async def test_a_recording_that_the_scheduler_cuts_is_noted(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, sessions__max_duration_ms=1_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        await peers.node(max_concurrent_jobs=50)
        people = Crowd(plan(scheduler.port, sessions=1, audio=tone(300, SAMPLE_RATE, 3.0).tobytes()))
        running = asyncio.create_task(people.run())
        await until(lambda: people.tally.is_cut, within_s=30)
        # The pieces have numbers of their own; what is said after them is matched all the same.
        await until(lambda: people.tally.translated >= 2, within_s=20)
        people.stop()
        await running


async def test_a_probe_says_whether_anybody_serves_the_pair(peers: Field) -> None:
    failure = await probe(plan(peers.port))
    assert isinstance(failure, Failed)
    assert failure.code == "NO_CAPABLE_NODE"
    await peers.node()
    assert await probe(plan(peers.port)) is None


def test_the_silence_at_the_end_of_a_recording_is_known() -> None:
    loud, silent = AUDIO[:CHUNK_BYTES], bytes(CHUNK_BYTES)
    assert crowd.speech_in([silent, loud, silent]) == [False, True, False]
    assert [crowd.silent_end(has) for has in ([True], [True, False, False], [False, True], [False, False])] == [
        0,
        2,
        0,
        0,
    ]


def test_sessions_of_a_rate_ask_seldom() -> None:
    assert [crowd.sessions_for(rate) for rate in (0.1, 0.5, 20, 500)] == [1, 1, 40, 1000]
