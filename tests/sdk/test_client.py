"""The client others build on: opens a session, speaks, hears, and knows when it is over."""

import asyncio
import base64
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from lingua_sdk.access import Access
from lingua_sdk.address import BadAddress
from lingua_sdk.audio import CHUNK_BYTES, Audio
from lingua_sdk.client import (
    AccessDenied,
    Client,
    Failed,
    Gap,
    Heard,
    NoText,
    Partial,
    Result,
    SessionFailed,
    Translation,
    paced,
)
from lingua_sdk.protocol.session import AsrPartial, MissingResult, TranslationResult, UiEvent
from lingua_sdk.protocol.shapes import PipelineChoice
from lingua_sdk.room_events import Said
from lingua_sdk.spoken import MAX_UNANSWERED
from lingua_sdk.websocket import WebSocket
from tests.support.fake_scheduler import Call, FakeScheduler, fake_scheduler
from tests.support.peers import FakeNode, Field, Frame, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

PCM16 = b"\x00\x01" * 3200  # 200 ms
ACK: Frame = {
    "type": "session_init_ack",
    "session_id": "s-00000001",
    "message": "",
    "trace_id": "t",
    "protocol_version": "1.0",
    "use_binary_frame": False,
    "negotiated_codec": "opus",
    "negotiated_audio_format": "opus",
    "negotiated_sample_rate": 16000,
    "negotiated_channel_count": 1,
}


def client_of(peers: Field, src_lang: str = "en", tgt_lang: str = "zh") -> Client:
    return Client(f"127.0.0.1:{peers.port}", src_lang, tgt_lang)


async def all_heard(client: Client) -> list[Heard]:
    async with asyncio.timeout(90):
        return [heard async for heard in client.heard()]


# With a real scheduler


@pytest.mark.parametrize(
    "value",
    [Translation(0, "oi", "hi", bytes(32_000)), Said("p-1", "Ann", "oi", "hi", "en", 1, bytes(32_000))],
)
def test_what_is_printed_of_a_result_is_its_text_and_not_its_sound(value: Translation | Said) -> None:
    assert "translated='hi'" in repr(value)
    assert "speech=<32000 bytes>" in repr(value)
    assert repr(value.audio()) == "Audio(samples=<32000 bytes>, sample_rate=16000)"


async def test_it_opens_a_session(peers: Field) -> None:
    async with client_of(peers) as client:
        assert client.session_id.startswith("s-")
        _, status = await peers.get("/v1/status")
        assert status["sessions"] == 1


async def test_speech_in_chunks_is_translated_and_finishing_ends_what_is_heard(peers: Field) -> None:
    node = await peers.node()
    async with client_of(peers) as client:
        await client.send(PCM16)
        await client.send(PCM16)
        await client.final()
        await client.finish()
        assert not client.is_finished
        (heard,) = await all_heard(client)
        assert client.is_finished
    assert isinstance(heard, TranslationResult)
    assert heard.text_translated == f"said {node.jobs[0]['session_id']} 0"
    assert len(node.jobs) == 1


async def test_what_was_said_before_finishing_is_translated_without_a_final(peers: Field) -> None:
    await peers.node()
    async with client_of(peers) as client:
        await client.send(PCM16)
        await client.finish()
        assert [type(heard) for heard in await all_heard(client)] == [TranslationResult]


async def test_who_says_nothing_hears_nothing(peers: Field) -> None:
    async with client_of(peers) as client:
        await client.final()
        await client.finish()
        assert await all_heard(client) == []


async def test_audio_goes_as_binary_frames_when_the_scheduler_asks_for_them(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, sessions__use_binary_frame=True) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        node = await peers.node()
        async with client_of(peers) as client:
            assert client.use_binary_frame
            await client.send(PCM16, is_final=True)
            await client.finish()
            assert [type(heard) for heard in await all_heard(client)] == [TranslationResult]
        assert node.jobs[0]["is_manual_cut"] is True


async def test_whole_utterances_are_counted(peers: Field) -> None:
    node = await peers.node()
    async with client_of(peers) as client:
        assert [await client.utterance(PCM16) for _ in range(3)] == [0, 1, 2]
        await client.finish()
        heard = await all_heard(client)
    assert [result.utterance_index for result in heard] == [0, 1, 2]
    job = node.jobs[0]
    assert (job["src_lang"], job["tgt_lang"]) == ("en", "zh")
    assert (job["audio_format"], job["sample_rate"], job["is_manual_cut"]) == ("pcm16", 16_000, True)


async def test_chunks_and_whole_utterances_may_follow_each_other(peers: Field) -> None:
    await peers.node()
    async with client_of(peers) as client:
        heard = client.heard()
        await client.send(PCM16, is_final=True)
        first = await anext(heard)
        assert isinstance(first, TranslationResult)
        assert await client.utterance(PCM16) == first.utterance_index + 1
        second = await anext(heard)
        assert isinstance(second, TranslationResult)
        assert second.utterance_index == first.utterance_index + 1


async def test_one_may_ask_for_text_alone(peers: Field) -> None:
    node = await peers.node()
    async with client_of(peers) as client:
        await client.utterance(PCM16, pipeline=PipelineChoice(use_asr=True, use_nmt=True, use_tts=False))
        await client.finish()
        await all_heard(client)
    assert node.jobs[0]["pipeline"]["use_tts"] is False


async def test_gaps_partials_and_events_are_heard_too(peers: Field) -> None:
    async def work(node: FakeNode, job: Frame) -> None:
        about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
        await node.socket.send(
            {"type": "asr_partial", "node_id": node.node_id, "text": "hea", "is_final": False} | about
        )
        await node.socket.send(
            result_of(job, node.node_id, success=False, error={"code": "UNSUPPORTED_FEATURE", "message": "no"})
        )

    await peers.node(work)
    async with client_of(peers) as client:
        await client.utterance(PCM16)
        await client.finish()
        heard = await all_heard(client)
    assert [type(message) for message in heard] == [AsrPartial, UiEvent, MissingResult]


def refusal(port: int, src_lang: str, tgt_lang: str) -> tuple[str, list[str]]:
    """Why a session was not opened, and what was left behind; with a loop of its own, as a script has."""

    async def knock() -> None:
        async with Client(f"127.0.0.1:{port}", src_lang, tgt_lang):
            pass

    with warnings.catch_warnings(record=True) as left_behind:
        warnings.simplefilter("always")
        with pytest.raises(SessionFailed) as caught:
            asyncio.run(knock())
        reason = str(caught.value)
        del caught
        gc.collect()
    return reason, [str(warning.message) for warning in left_behind]


@pytest.mark.parametrize(
    ("src_lang", "tgt_lang", "words"),
    [
        ("english", "zh", "invalid src_lang: expected auto or a code"),
        ("en", "", "invalid tgt_lang: expected a language code"),
    ],
)
async def test_a_session_that_is_refused_says_why(peers: Field, src_lang: str, tgt_lang: str, words: str) -> None:
    reason, _ = await asyncio.to_thread(refusal, peers.port, src_lang, tgt_lang)
    assert reason.startswith(f"the scheduler did not open a session: INVALID_MESSAGE: session_init: {words}")


async def test_a_session_that_is_refused_leaves_no_connection_open(peers: Field) -> None:
    _, left_behind = await asyncio.to_thread(refusal, peers.port, "english", "zh")
    assert left_behind == []


# With a scheduler that does what it is told


@pytest.fixture
async def scheduler() -> AsyncIterator[FakeScheduler]:
    async with fake_scheduler() as found:
        yield found


async def opened(scheduler: FakeScheduler) -> tuple[Client, Call]:
    client = Client(f"127.0.0.1:{scheduler.port}", "en", "zh", platform="test")
    opening = asyncio.create_task(client.__aenter__())
    call = await scheduler.call()
    assert (await call.next("session_init"))["platform"] == "test"
    await call.send(ACK)
    await opening
    return client, call


async def test_chunks_and_finals_are_counted_from_nought(scheduler: FakeScheduler) -> None:
    client, call = await opened(scheduler)
    async with asyncio.timeout(90):
        await client.send(b"\x00\x01")
        await client.final()
        await client.send(b"\x02", is_final=True)
        chunks = [await call.next("audio_chunk") for _ in range(3)]
    assert [(chunk["seq"], chunk["payload"], chunk["is_final"]) for chunk in chunks] == [
        (0, "AAE=", False),
        (1, "", True),
        (2, "Ag==", True),
    ]
    assert {chunk["session_id"] for chunk in chunks} == {"s-00000001"}
    await client.__aexit__(None, None, None)


async def test_messages_it_does_not_know_are_passed_over(scheduler: FakeScheduler) -> None:
    client, call = await opened(scheduler)
    await call.send({"type": "invented_later"})
    await call.send({"type": "server_heartbeat", "session_id": "s-00000001", "timestamp": 1})
    await call.send(
        {
            "type": "missing_result",
            "session_id": "s-00000001",
            "utterance_index": 0,
            "reason": "no_text",
            "created_at_ms": 1,
        }
    )
    await call.send({"type": "session_close_ack", "session_id": "s-00000001"})
    assert [type(heard) for heard in await all_heard(client)] == [MissingResult]
    await client.__aexit__(None, None, None)


async def test_an_error_ends_what_is_heard_with_its_reason(scheduler: FakeScheduler) -> None:
    client, call = await opened(scheduler)
    await call.send({"type": "error", "code": "INTERNAL_ERROR", "message": "sorry"})
    with pytest.raises(SessionFailed, match="INTERNAL_ERROR: sorry"):
        await all_heard(client)
    await client.__aexit__(None, None, None)


ends: list[Callable[[Call], object]] = [lambda call: call.socket.close(), lambda call: call.drop()]


@pytest.mark.parametrize("end", ends, ids=["closed", "dropped"])
async def test_a_connection_that_ends_ends_what_is_heard(
    scheduler: FakeScheduler, end: Callable[[Call], object]
) -> None:
    client, call = await opened(scheduler)
    ending = end(call)
    if asyncio.iscoroutine(ending):
        await asyncio.gather(ending, all_heard(client))
    else:
        assert await all_heard(client) == []
    assert not client.is_finished
    await client.__aexit__(None, None, None)


async def test_one_that_is_told_not_to_come_back_does_not(scheduler: FakeScheduler) -> None:
    client, call = await opened(scheduler)
    closing = asyncio.create_task(call.socket.close(code=4007))
    with pytest.raises(AccessDenied, match="sessions of other connections"):
        await all_heard(client)
    await closing
    await client.__aexit__(None, None, None)


async def test_a_scheduler_that_hangs_up_has_opened_no_session(scheduler: FakeScheduler) -> None:
    client = Client(f"127.0.0.1:{scheduler.port}", "en", "zh")
    opening = asyncio.create_task(client.__aenter__())
    call = await scheduler.call()
    await call.next("session_init")
    await call.socket.close()
    with pytest.raises(SessionFailed, match="it closed the connection"):
        await opening


async def test_nobody_at_the_address_is_an_error_of_the_connection() -> None:
    with pytest.raises(ConnectionRefusedError):
        async with Client("127.0.0.1:1", "en", "zh"):
            pass


async def test_who_speaks_before_the_session_is_open_is_told_how_to_open_it(scheduler: FakeScheduler) -> None:
    client = Client(f"127.0.0.1:{scheduler.port}", "en", "zh")
    with pytest.raises(SessionFailed, match="the session is not open; use: async with Client"):
        await client.send(b"\x00\x01")
    opening = asyncio.create_task(client.__aenter__())
    call = await scheduler.call()
    await call.send(ACK)
    await opening
    await client.__aexit__(None, None, None)


async def test_an_address_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(BadAddress):
        Client("ftp://host", "en", "zh")


# Broken connections


async def spoken_until_cut(peers: Field, cut_after: int) -> tuple[list[int], list[bytes], int]:
    """Say two sentences in seven steps and break the connection after one of them; what came of it."""
    node = await peers.node()
    async with client_of(peers) as client:
        steps: list[Callable[[], Awaitable[None]]] = [
            lambda: client.send(b"\x01\x20" * 160),
            lambda: client.send(b"\x02\x20" * 160),
            lambda: client.final(),
            lambda: until(lambda: node.jobs),
            lambda: client.send(b"\x03\x20" * 160),
            lambda: client.send(b"\x04\x20" * 160, is_final=True),
            lambda: client.finish(),
        ]
        indexes: list[int] = []

        async def listen() -> None:
            async for heard in client.heard():
                if isinstance(heard, TranslationResult | MissingResult):
                    indexes.append(heard.utterance_index)

        listening = asyncio.create_task(listen())
        for number, step in enumerate(steps):
            await step()
            if number == cut_after:
                cut(client)
        async with asyncio.timeout(90):
            await listening
        audio = [base64.b64decode(job["audio"]) for job in node.jobs]
        return indexes, audio, client.times_resumed


async def test_of_several_addresses_the_first_that_answers_opens_the_session(peers: Field) -> None:
    async with Client(["127.0.0.1:1", f"127.0.0.1:{peers.port}"], "en", "zh") as client:
        assert client.session_id.startswith("s-")


async def test_nobody_at_any_of_the_addresses_is_an_error_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    connect = Access.connect

    async def noting(access: Access, url: str, within_s: float) -> WebSocket:
        asked.append(url)
        return await connect(access, url, within_s)

    monkeypatch.setattr(Access, "connect", noting)
    with pytest.raises(ConnectionRefusedError):
        async with Client(["127.0.0.1:1", "127.0.0.1:2"], "en", "zh"):
            pass
    assert asked == ["ws://127.0.0.1:1/ws/session", "ws://127.0.0.1:2/ws/session"]


async def test_when_its_scheduler_is_gone_it_goes_on_at_the_next_address(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (second, _), field(second.port) as peers:
        node = await peers.node()
        async with scheduler_on(server.url) as (first, _):
            client = Client([f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}"], "en", "zh")
            await client.__aenter__()
        await client.utterance(PCM16)
        await client.finish()
        heard = await all_heard(client)
        assert [type(message) for message in heard] == [TranslationResult]
        assert (len(node.jobs), client.times_resumed) == (1, 1)
        await client.__aexit__(None, None, None)


async def test_a_connection_that_broke_is_made_again_where_it_was(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (first, _), scheduler_on(server.url) as (second, _):
        async with (
            field(first.port) as peers,
            Client([f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}"], "en", "zh") as client,
        ):
            await peers.node()
            cut(client)
            await client.utterance(PCM16)
            async with asyncio.timeout(90):
                assert isinstance(await anext(client.heard()), TranslationResult)
            assert client.times_resumed == 1
            _, status = await peers.get("/v1/status")
            assert status["sessions"] == 1


def cut(client: Client) -> None:
    """As if the network was gone: no closing handshake, and what was under way is lost."""
    socket = client._line.socket
    assert socket is not None
    socket.abort()


@pytest.mark.parametrize("cut_after", range(7))
async def test_a_connection_cut_anywhere_costs_no_speech_and_doubles_none(peers: Field, cut_after: int) -> None:
    indexes, audio, times_resumed = await spoken_until_cut(peers, cut_after)
    assert times_resumed == 1
    assert indexes == list(range(len(indexes)))
    assert b"".join(audio) == b"".join(bytes((value, 0x20)) * 160 for value in (1, 2, 3, 4))


async def test_a_whole_utterance_cut_off_on_its_way_is_sent_again(peers: Field) -> None:
    node = await peers.node()
    async with client_of(peers) as client:
        cut(client)
        await client.utterance(b"\x01\x00" * 160)
        await client.finish()
        async with asyncio.timeout(90):
            heard = [message async for message in client.heard()]
        assert [type(message) for message in heard] == [TranslationResult]
        assert len(node.jobs) == 1


# What it does by itself


def results_of(client: Client) -> "asyncio.Task[list[Result]]":
    async def gather() -> list[Result]:
        return [result async for result in client.results()]

    return asyncio.create_task(gather())


async def test_results_are_plain_values(scheduler: FakeScheduler) -> None:
    client, call = await opened(scheduler)
    about = {"session_id": "s-00000001", "job_id": "job-0-1", "trace_id": "t"}
    missing = {"type": "missing_result", "session_id": "s-00000001", "created_at_ms": 1}
    said = {"text_asr": "hello", "text_translated": "olá", "tts_audio": "AQI=", "tts_format": "pcm16"}
    ok = {"type": "ui_event", "event": "DISPATCHED", "status": "ok", "utterance_index": 0}
    wrong = {"type": "ui_event", "event": "ERROR", "status": "error", "utterance_index": 2}
    await call.send(ok | about)
    await call.send({"type": "asr_partial", "utterance_index": 0, "text": "hel", "is_final": False} | about)
    await call.send({"type": "translation_result", "utterance_index": 0, "scheduler_sent_at_ms": 1} | said | about)
    await call.send(missing | {"utterance_index": 1, "reason": "no_text"})
    await call.send(wrong | about | {"error_code": "NO_CAPABLE_NODE", "hint": "no node speaks French"})
    await call.send(missing | {"utterance_index": 2, "reason": "job_failed"})
    await call.send(missing | {"utterance_index": 3, "reason": "gap_timeout"})
    await call.send({"type": "session_close_ack", "session_id": "s-00000001"})
    results = await results_of(client)
    assert results == [
        Partial(0, "hel"),
        Translation(0, "hello", "olá", b"\x01\x02", "pcm16"),
        NoText(1, "no_text"),
        Failed(2, "NO_CAPABLE_NODE", "no node speaks French"),
        Gap(3, "gap_timeout"),
    ]
    assert isinstance(results[1], Translation)
    assert results[1].audio() == Audio(b"\x01\x02", 16_000)
    await client.__aexit__(None, None, None)


async def test_a_scheduler_that_hangs_up_for_good_is_told_by_the_results(scheduler: FakeScheduler) -> None:
    client, call = await opened(scheduler)
    await call.socket.close()
    with pytest.raises(SessionFailed, match="closed the connection before everything was translated"):
        await results_of(client)
    with pytest.raises(SessionFailed, match="the session has ended"):
        await client.send(b"\x00\x01")
    await client.__aexit__(None, None, None)


async def test_what_ended_the_session_is_told_to_whoever_speaks_on(scheduler: FakeScheduler) -> None:
    client, call = await opened(scheduler)
    await call.send({"type": "error", "code": "INTERNAL_ERROR", "message": "sorry"})
    await until(lambda: client._is_over)
    with pytest.raises(SessionFailed, match="INTERNAL_ERROR: sorry"):
        await client.send(b"\x00\x01")
    await client.__aexit__(None, None, None)


async def test_after_finishing_nothing_more_can_be_said(peers: Field) -> None:
    async with client_of(peers) as client:
        await client.finish()
        with pytest.raises(SessionFailed, match="the session has ended"):
            await client.utterance(PCM16)


async def test_a_pause_is_obeyed_whether_or_not_somebody_listens(scheduler: FakeScheduler) -> None:
    client, call = await opened(scheduler)
    await call.send({"type": "backpressure", "action": "PAUSE", "resume_after_ms": 300, "message": ""})
    await until(lambda: client._paused_until_s > 0)
    began_s = asyncio.get_running_loop().time()
    await client.send(b"\x00\x01")
    assert asyncio.get_running_loop().time() - began_s > 0.1
    await call.next("audio_chunk")
    await client.__aexit__(None, None, None)


RESUMABLE = ACK | {"resume_token": "s-00000001.secret"}


async def resumed(scheduler: FakeScheduler, next_seq: int) -> Call:
    call = await scheduler.call()
    assert (await call.next("session_init"))["resume_token"] == "s-00000001.secret"
    await call.send(RESUMABLE | {"resumed": True, "next_seq": next_seq, "next_utterance_index": 0})
    return call


async def resumable(scheduler: FakeScheduler) -> tuple[Client, Call]:
    client = Client(f"127.0.0.1:{scheduler.port}", "en", "zh")
    opening = asyncio.create_task(client.__aenter__())
    call = await scheduler.call()
    await call.send(RESUMABLE)
    await opening
    return client, call


async def test_what_is_said_while_the_line_is_broken_follows_what_was_lost(scheduler: FakeScheduler) -> None:
    client, call = await resumable(scheduler)
    await client.send(b"\x00\x00")
    await client.send(b"\x01\x00")
    await call.next("audio_chunk")
    call.drop()
    call = await scheduler.call()
    await call.next("session_init")  # and it is not answered yet
    await client.send(b"\x02\x00")
    await client.send(b"\x03\x00")
    await call.send(RESUMABLE | {"resumed": True, "next_seq": 1, "next_utterance_index": 0})
    assert [(await call.next("audio_chunk"))["seq"] for _ in range(3)] == [1, 2, 3]
    await client.send(b"\x04\x00")
    assert (await call.next("audio_chunk"))["seq"] == 4
    await client.__aexit__(None, None, None)


async def test_audio_that_was_not_taken_is_sent_again_after_a_pause(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lingua_sdk.client.REFUSED_PAUSE_S", 0.02)
    client, call = await resumable(scheduler)
    await client.utterance(PCM16)
    await client.send(b"\x00\x01")
    await call.send({"type": "error", "code": "NODE_OVERLOADED", "message": "too much audio waits"})
    call = await resumed(scheduler, next_seq=0)
    assert {(await call.next("utterance", "audio_chunk"))["type"] for _ in range(2)} == {"utterance", "audio_chunk"}
    await client.__aexit__(None, None, None)


async def test_outcomes_that_come_after_a_refusal_are_heard(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler that is stopping takes nothing any more, and what it still sends no other one has."""
    monkeypatch.setattr("lingua_sdk.client.REFUSED_PAUSE_S", 0.02)
    client, call = await resumable(scheduler)
    await client.utterance(PCM16)
    await client.utterance(PCM16)
    await call.send({"type": "error", "code": "NODE_OVERLOADED", "message": "the scheduler is stopping"})
    missing = {"type": "missing_result", "session_id": "s-00000001", "utterance_index": 0, "reason": "no_text"}
    await call.send(missing | {"created_at_ms": 1})
    call = await scheduler.call()
    assert (await call.next("session_init"))["last_utterance_index"] == 0
    await call.send(RESUMABLE | {"resumed": True, "next_seq": 0, "next_utterance_index": 1})
    assert (await call.next("utterance"))["utterance_index"] == 1
    await client.__aexit__(None, None, None)


async def test_a_scheduler_whose_redis_is_away_is_asked_again(scheduler: FakeScheduler) -> None:
    client, call = await resumable(scheduler)
    call.drop()
    call = await scheduler.call()
    await call.send({"type": "error", "code": "SCHEDULER_DEPENDENCY_DOWN", "message": "Redis is away"})
    await resumed(scheduler, next_seq=0)
    await until(lambda: client.times_resumed == 1)
    await client.__aexit__(None, None, None)


async def test_only_so_many_utterances_are_under_way_at_once(scheduler: FakeScheduler) -> None:
    client, call = await opened(scheduler)
    for _ in range(MAX_UNANSWERED):
        await client.utterance(b"\x00\x01")
    one_more = asyncio.create_task(client.utterance(b"\x00\x01"))
    await call.next("utterance")
    assert not one_more.done()
    missing = {"type": "missing_result", "session_id": "s-00000001", "utterance_index": 0, "reason": "no_text"}
    await call.send(missing | {"created_at_ms": 1})
    async with asyncio.timeout(90):
        assert await one_more == MAX_UNANSWERED
    await client.__aexit__(None, None, None)


async def test_two_people_may_talk_and_partials_may_be_asked_for(scheduler: FakeScheduler) -> None:
    client = Client(f"127.0.0.1:{scheduler.port}", "auto", "en", both_ways=("zh", "en"), partials=True)
    opening = asyncio.create_task(client.__aenter__())
    call = await scheduler.call()
    init = await call.next("session_init")
    assert (init["mode"], init["src_lang"], init["lang_a"], init["lang_b"]) == ("two_way_auto", "auto", "zh", "en")
    assert init["enable_streaming_asr"] is True
    await call.send(ACK)
    await opening
    await client.utterance(PCM16, speech=False)
    said = await call.next("utterance")
    assert (said["mode"], said["lang_a"], said["enable_streaming_asr"]) == ("two_way_auto", "zh", True)
    assert said["pipeline"]["use_tts"] is False
    await client.__aexit__(None, None, None)


async def test_a_stream_is_sent_at_the_pace_of_speech_and_ends_with_a_final(scheduler: FakeScheduler) -> None:
    client, call = await opened(scheduler)
    began_s = asyncio.get_running_loop().time()
    await client.stream(paced(bytes(3 * CHUNK_BYTES)))
    assert asyncio.get_running_loop().time() - began_s > 0.35
    assert [(await call.next("audio_chunk"))["is_final"] for _ in range(4)] == [False, False, False, True]
    await client.__aexit__(None, None, None)
