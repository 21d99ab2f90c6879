"""The fake peers on real sockets, beside a scheduler that only does what the test says: they behave as recorded."""

import asyncio
import base64
from collections.abc import AsyncIterator

import pytest

from lingua_sdk.protocol.binary import AudioChunkFrame, FinalFrame, decode_binary
from tests.support.fake_scheduler import Call, FakeScheduler, fake_scheduler
from tests.support.field_browser import FieldBrowser, one_way
from tests.support.field_frames import LANGUAGES
from tests.support.field_mind import Mind, translation
from tests.support.field_node import FieldNode
from tests.support.field_sockets import binary_audio
from tests.support.field_speech import NOISE, Slice, hear, opus, say
from tests.support.peers import Frame
from tests.support.waiting import until

SPEECH = say("bravo charlie delta")


@pytest.fixture
async def scheduler() -> AsyncIterator[FakeScheduler]:
    async with fake_scheduler() as started:
        yield started


# The node


async def registered(scheduler: FakeScheduler, node: FieldNode) -> tuple[Call, Frame]:
    starting = asyncio.create_task(node.start())
    call = await scheduler.call()
    said = await call.register("node-E4BB747B")
    await starting
    return call, said


async def assign(call: Call, serial: int, slices: list[Slice], **more: object) -> Frame:
    audio = base64.b64encode(opus(slices)).decode()
    asks: Frame = {"audio": audio, "audio_format": "opus", "is_manual_cut": True, "turn_id": f"turn-{serial}"}
    return await call.assign(serial, **asks | more)


async def test_a_node_registers_and_beats_as_recorded(scheduler: FakeScheduler) -> None:
    node = FieldNode(scheduler.port)
    call, said = await registered(scheduler, node)
    assert list(said) == [
        *("type", "node_id", "version", "capability_schema_version", "platform", "hardware", "installed_models"),
        *("installed_services", "capability_by_type", "features_supported", "accept_public_jobs"),
        "language_capabilities",
    ]
    assert said["node_id"] is None
    assert said["language_capabilities"]["asr_languages"] == list(LANGUAGES)
    assert len(LANGUAGES) == 14
    beat = await call.next("node_heartbeat")
    assert beat["node_id"] == "node-E4BB747B"
    assert set(beat["resource_usage"]) == {"cpu_percent", "gpu_percent", "mem_percent", "running_jobs"}
    await node.stop()


async def test_a_node_works_one_job_at_a_time_and_silence_overtakes_speech(scheduler: FakeScheduler) -> None:
    node = FieldNode(scheduler.port, lambda job: 0.3)
    call, _ = await registered(scheduler, node)
    await call.next("node_heartbeat")
    await assign(call, 0, SPEECH)
    await assign(call, 1, say("kilo lima mike"))
    await assign(call, 2, [NOISE] * 13)
    first = await call.next()
    assert (first["type"], first["utterance_index"], first["extra"]["reason"]) == ("job_result", 2, "ASR_EMPTY")
    await until(lambda: node.running_jobs == 2)
    await node.beat()
    usage = (await call.next("node_heartbeat"))["resource_usage"]
    assert (usage["running_jobs"], usage["gpu_queue_length"]) == (2, 1)
    assert [(await call.next("job_result"))["utterance_index"] for _ in range(2)] == [0, 1]
    assert {frame["type"] for frame in call.heard} == {"node_register", "node_heartbeat", "job_result"}
    await node.stop()


async def test_a_result_computed_while_the_socket_was_down_is_lost_and_the_memory_is_not(
    scheduler: FakeScheduler,
) -> None:
    node = FieldNode(scheduler.port, lambda job: 0.2, reconnect_s=(0.05, 0.4))
    call, _ = await registered(scheduler, node)
    job = await assign(call, 0, SPEECH)
    await until(lambda: node.jobs)
    call.drop()
    call = await scheduler.call()
    assert (await call.register("node-E4BB747B"))["node_id"] == "node-E4BB747B"
    await until(lambda: node.answered and node.answered[0].is_lost)
    await call.send(job)
    refused = await call.next("job_result")
    assert refused["error"]["message"].startswith("DUPLICATE_")
    await call.send(job | {"job_id": "job-again", "session_id": "s-00000001~2"})
    result = await call.next("job_result")
    assert (result["text_translated"], result["session_id"]) == (
        translation("bravo charlie delta", "en", "zh"),
        "s-00000001~2",
    )
    await node.stop()


async def test_another_process_has_another_memory(scheduler: FakeScheduler) -> None:
    node = FieldNode(scheduler.port, mind=Mind())
    call, _ = await registered(scheduler, node)
    job = await assign(call, 0, SPEECH)
    assert (await call.next("job_result"))["success"]
    await node.stop()
    other = FieldNode(scheduler.port)
    call, _ = await registered(scheduler, other)
    await call.send(job)
    assert (await call.next("job_result"))["success"]
    await other.stop()


# The browser


def result(index: int, **more: object) -> Frame:
    texts = {"text_asr": f"heard {index}", "text_translated": f"said {index}", "tts_audio": "", "tts_format": "opus"}
    return {"type": "translation_result", "utterance_index": index, "group_id": "g"} | texts | more


async def test_a_browser_introduces_itself_and_speaks_as_recorded(scheduler: FakeScheduler) -> None:
    browser = FieldBrowser(scheduler.port)
    browser.open()
    call = await scheduler.welcome("s-D17FE270")
    init = call.heard[0]
    assert init | {"trace_id": ""} == {
        "type": "session_init",
        "client_version": "web-client-v1.0",
        "platform": "web",
        "src_lang": "auto",
        "tgt_lang": "en",
        "dialect": None,
        "features": {},
        "pairing_code": None,
        "mode": "two_way_auto",
        "lang_a": "zh",
        "lang_b": "en",
        "auto_langs": ["zh", "en"],
        "trace_id": "",
        "tenant_id": None,
    }
    await until(lambda: browser.session_id)
    await browser.say("alpha bravo")
    await until(lambda: len([sent for sent in browser.sent if sent.is_final]) >= 4, 30)
    chunks = call.of("audio_chunk")
    assert [chunk["seq"] for chunk in chunks] == list(range(len(chunks)))
    assert [list(chunk) for chunk in chunks[:1]] == [["type", "session_id", "seq", "is_final", "payload"]]
    first = next(place for place, chunk in enumerate(chunks) if chunk["is_final"])
    assert [chunk["is_final"] for chunk in chunks[first : first + 5]] == [True, False, True, False, True]
    audio = b"".join(base64.b64decode(chunk["payload"]) for chunk in chunks)
    assert hear(audio, "opus").text == "alpha bravo"
    await browser.stop()


async def test_with_the_button_the_frame_in_the_making_comes_after_the_final(scheduler: FakeScheduler) -> None:
    browser = FieldBrowser(scheduler.port)
    browser.open()
    call = await scheduler.welcome("s-D17FE270")
    await until(lambda: browser.session_id)
    await browser.say("alpha bravo", presses_send=True)
    # On a busy machine the browser sends many frames before the button is pressed: wait for the one behind the final.
    await until(lambda: any(chunk["is_final"] for chunk in call.of("audio_chunk")[:-1]))
    chunks = call.of("audio_chunk")
    final = [chunk["is_final"] for chunk in chunks].index(True)
    late = base64.b64decode(chunks[final + 1]["payload"])
    assert len(late) > 13 * 10, "speech is in it"
    await browser.stop()


async def test_a_browser_shows_each_index_once_and_counts_on_over_a_reconnect(scheduler: FakeScheduler) -> None:
    browser = FieldBrowser(scheduler.port, reconnect_s=0.05, doubles_recorder=True)
    browser.open()
    call = await scheduler.welcome("s-D17FE270")
    await until(lambda: browser.session_id)
    await browser.press_send()
    await call.send(result(3))
    await call.send(result(1))
    await call.send(result(3))
    await until(lambda: browser.hidden)
    assert [shown.frame["utterance_index"] for shown in browser.shown] == [3, 1]
    call.drop()
    call = await scheduler.welcome("s-0B330037")
    await until(lambda: browser.session_id == "s-0B330037")
    await call.send(result(1))
    await until(lambda: len(browser.hidden) == 2)
    await browser.say("alpha")
    chunks = call.of("audio_chunk")
    assert [chunk["seq"] for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert chunks[0]["payload"] == chunks[1]["payload"], "two recorders"
    await browser.stop()


async def test_a_browser_alerts_and_stays_on_an_open_socket_and_comes_back_to_a_closed_one(
    scheduler: FakeScheduler,
) -> None:
    browser = FieldBrowser(scheduler.port, reconnect_s=0.05)
    browser.open()
    call = await scheduler.call()
    await call.next("session_init")
    await call.send({"type": "error", "code": "SCHEDULER_DEPENDENCY_DOWN", "message": "m"})
    await until(lambda: browser.alerts)
    with pytest.raises(TimeoutError):
        await scheduler.call(within_s=0.5)
    assert browser.looks_connected
    await call.socket.close(code=1013)
    await scheduler.welcome("s-D17FE270")
    await until(lambda: browser.session_id)
    assert browser.close_codes == [1013]
    await browser.stop()


async def test_a_browser_freezes_unless_it_is_asked_to_pause(scheduler: FakeScheduler) -> None:
    browser = FieldBrowser(scheduler.port)
    browser.open()
    call = await scheduler.welcome("s-D17FE270")
    await call.send({"type": "backpressure", "action": "PAUSE", "resume_after_ms": 10, "message": ""})
    await until(lambda: browser.session_id)
    await browser.say("alpha")
    assert call.of("audio_chunk")
    await call.send({"type": "backpressure", "action": "BUSY", "resume_after_ms": 10, "message": ""})
    await until(lambda: browser.is_frozen)
    count = len(browser.sent)
    await browser.press_send()
    assert len(browser.sent) == count
    await browser.stop()


async def test_a_browser_sends_nothing_while_it_plays(scheduler: FakeScheduler) -> None:
    browser = FieldBrowser(scheduler.port, asks=one_way())
    browser.open()
    call = await scheduler.welcome("s-D17FE270")
    await until(lambda: browser.session_id)
    await browser.say("alpha")
    await call.send(result(0, tts_audio=base64.b64encode(opus(SPEECH[:40])).decode()))
    await until(lambda: browser.shown)
    await browser.play()
    await call.next("tts_play_ended")
    types = [frame["type"] for frame in call.heard]
    assert types[types.index("tts_started") + 1] == "tts_play_ended"
    started = call.of("tts_started")[0]
    assert list(started) == ["type", "session_id", "trace_id", "group_id", "ts_start_ms"]
    await browser.stop()


def test_binary_frames_are_read_by_the_scheduler() -> None:
    chunk = decode_binary(binary_audio("s-0B330037", 24, b"sound", is_final=False))
    assert isinstance(chunk, AudioChunkFrame)
    assert (chunk.session_id, chunk.seq, chunk.is_final, chunk.audio) == ("s-0B330037", 24, False, b"sound")
    final = decode_binary(binary_audio("s-0B330037", 32, b"", is_final=True))
    assert isinstance(final, FinalFrame)
    assert len(binary_audio("s-0B330037", 32, b"", is_final=True)) == 20
