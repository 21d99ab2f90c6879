"""What is really said on both sockets is what the running scheduler has published about them."""

import pytest

from tests.support.peers import FakeNode, Field, Frame, heartbeat, result_of
from tests.support.schemas import Wire
from tests.support.speech import PACKET
from tests.support.waiting import until

OPUS = PACKET * 10


async def published(peers: Field) -> Wire:
    status, document = await peers.get("/asyncapi.json")
    assert status == 200
    return Wire(document)


def about(job: Frame, node: FakeNode) -> Frame:
    return {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")} | {"node_id": node.node_id}


async def ask_start_and_tell(node: FakeNode, job: Frame) -> None:
    """All that a careful node says about a job; every second one fails."""
    granted = len(node.socket.of_type("job_grant")) + 1
    await node.socket.send({"type": "job_ack"} | about(job, node))
    await until(lambda: len(node.socket.of_type("job_grant")) == granted)
    await node.socket.send({"type": "job_started"} | about(job, node))
    partial = {"utterance_index": job["utterance_index"], "text": "he", "is_final": False}
    await node.socket.send({"type": "asr_partial"} | about(job, node) | partial)
    if job["utterance_index"] % 2:
        error = {"code": "PROCESSING_ERROR", "message": "no", "details": {"stage": "asr"}}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))
    else:
        await node.socket.send(result_of(job, node.node_id, extra={"language_probability": 0.9}))


async def test_everything_said_and_heard_is_as_published(peers: Field) -> None:
    wire = await published(peers)

    node = await peers.node(ask_start_and_tell, advanced_features=["job_ack"], max_concurrent_jobs=2, boot_id="b")
    await node.socket.send(heartbeat(node.node_id, running_job_ids=[], installed_models=None))
    await node.socket.send({"type": "node_error", "node_id": node.node_id, "code": "NO_GPU_AVAILABLE", "message": "m"})
    # Registering under another name on the same socket is refused.
    await node.socket.send(node.socket.said[0] | {"node_id": "somebody-else"})

    client = await peers.client(dialect=None, features={}, trace_id="9176")
    session = {"session_id": client.session_id}
    await client.chunk(OPUS)
    await client.chunk(is_final=True)
    result = await client.outcome()
    assert result["type"] == "translation_result"
    await client.socket.send({"type": "tts_started"} | session | {"ts_start_ms": 1, "group_id": None})
    await client.socket.send({"type": "tts_play_ended"} | session | {"ts_end_ms": 2.5})
    await client.utterance(1, pipeline={"use_asr": True, "use_nmt": True, "use_tts": True, "use_tone": None})
    assert (await client.outcome())["type"] == "missing_result"
    await client.socket.send({"type": "client_heartbeat"} | session | {"timestamp": 1})
    await client.socket.send({"type": "room_create", "client_ts": 1})
    await client.socket.send({"type": "session_close"} | session | {"reason": "bye"})
    await client.socket.next("session_close_ack")
    await client.chunk(OPUS)
    assert (await client.socket.next("error"))["code"] == "INVALID_SESSION"
    await until(lambda: len(node.socket.of_type("result_ack")) == 2 and node.socket.of_type("error"))

    conversation = {
        "session.receive": client.socket.said,
        "session.send": client.socket.heard,
        "node.receive": node.socket.said,
        "node.send": node.socket.heard,
    }
    for operation, frames in conversation.items():
        for frame in frames:
            assert wire.faults(operation, frame) == [], frame
    assert {operation: {frame["type"] for frame in frames} for operation, frames in conversation.items()} == {
        "session.receive": {"session_init", "audio_chunk", "utterance", "client_heartbeat", "session_close"}
        | {"tts_started", "tts_play_ended", "room_create"},
        "session.send": {"session_init_ack", "asr_partial", "translation_result", "ui_event", "missing_result"}
        | {"server_heartbeat", "room_create_ack", "room_members", "session_close_ack", "error"},
        "node.receive": {"node_register", "node_heartbeat", "job_ack", "job_started", "asr_partial", "job_result"}
        | {"node_error"},
        "node.send": {"node_register_ack", "node_heartbeat_ack", "job_assign", "job_grant", "result_ack", "error"},
    }


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "audio_chunk", "session_id": "s-1", "is_final": True},
        {"type": "audio_chunk", "session_id": "s-1", "seq": -1, "is_final": True},
        {"type": "audio_chunck", "session_id": "s-1", "seq": 0, "is_final": True},
    ],
)
async def test_what_is_refused_is_not_as_published(peers: Field, frame: Frame) -> None:
    wire = await published(peers)
    client = await peers.client()
    await client.socket.send(frame)
    assert (await client.socket.next("error"))["code"] == "INVALID_MESSAGE"
    assert wire.faults("session.receive", frame) != []


async def test_sockets_are_where_the_document_says(peers: Field) -> None:
    wire = await published(peers)
    for channel in wire.document["channels"].values():
        socket = await peers.socket(channel["address"])
        await socket.send({"type": "nonsense"})
        assert wire.faults("session.send", await socket.next("error")) == []


async def test_the_document_bears_the_version_of_the_scheduler(peers: Field) -> None:
    _, status = await peers.get("/v1/status")
    assert (await published(peers)).document["info"]["version"] == status["version"]
