"""Rubbish gets a clear answer, and only the one who sent it notices."""

import json

import pytest

from tests.support.peers import FakeClient, Field, Frame, registration
from tests.support.waiting import until

CHUNK = {"type": "audio_chunk", "session_id": "s-00000000", "seq": 0, "is_final": True}

session_rubbish = [
    ("malformed JSON", '{"type":', "INVALID_MESSAGE", "the frame is not JSON"),
    ("not an object", "[1, 2]", "INVALID_MESSAGE", "not a JSON object"),
    ("no type", "{}", "INVALID_MESSAGE", 'no "type" field'),
    ("unknown type", '{"type": "audio_chunck"}', "INVALID_MESSAGE", 'did you mean "audio_chunk"?'),
    (
        "missing field",
        '{"type": "audio_chunk", "session_id": "x", "is_final": true}',
        "INVALID_MESSAGE",
        '"seq" is missing',
    ),
    ("wrong type", json.dumps(CHUNK | {"seq": "one"}), "INVALID_MESSAGE", 'invalid field "seq"'),
    ("5 MB frame", '{"type": "audio_chunk", "payload": "%s"}' % ("A" * 5_000_000), "INVALID_MESSAGE", "are allowed"),
    ("nobody's session", json.dumps(CHUNK), "INVALID_SESSION", "unknown session"),
    ("deep nesting", '{"type": "audio_chunk", "x": %s1%s}' % ("[" * 1500, "]" * 1500), "INVALID_MESSAGE", "nested"),
]


@pytest.mark.parametrize(("rubbish", "code", "words"), [pytest.param(*r[1:], id=r[0]) for r in session_rubbish])
async def test_a_client_is_told_what_is_wrong_and_others_do_not_notice(
    peers: Field, rubbish: str, code: str, words: str
) -> None:
    await peers.node()
    bad, good = await peers.client(), await peers.client()
    await bad.socket.socket.send_str(rubbish)
    error = await bad.socket.next("error")
    assert error["code"] == code
    assert words in error["message"]
    for client in (good, bad):  # the socket that sent it stays open too
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"


@pytest.mark.parametrize("rubbish", ["{", '{"type": "node_registre"}', '{"type": "node_heartbeat", "node_id": 5}'])
async def test_a_node_is_told_what_is_wrong_and_goes_on_working(peers: Field, rubbish: str) -> None:
    node = await peers.node()
    await node.socket.socket.send_str(rubbish)
    await until(lambda: node.socket.of_type("error"))
    client = await peers.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"


async def test_a_binary_frame_that_is_none_is_refused(peers: Field) -> None:
    client = await peers.client()
    await client.socket.socket.send_bytes(b"\x07\x00")
    assert (await client.socket.next("error"))["code"] == "INVALID_MESSAGE"


async def test_jobs_may_not_be_talked_about_before_registering(peers: Field) -> None:
    socket = await peers.socket("/ws/node")
    ack: Frame = {"job_id": "job-0-1", "attempt_id": 1, "node_id": "n", "session_id": "s", "trace_id": "t"}
    await socket.send({"type": "job_ack"} | ack)
    assert "not registered" in (await socket.next("error"))["message"]


@pytest.mark.parametrize("node_id", ["has space", "a#b", "x" * 65, "-dash", ""])
async def test_an_id_that_cannot_be_a_key_is_refused(peers: Field, node_id: str) -> None:
    socket = await peers.socket("/ws/node")
    await socket.send(registration(node_id=node_id))
    frame = await socket.next("error", "node_register_ack")
    # An empty id is no id: the node gets one.
    assert frame["type"] == ("error" if node_id else "node_register_ack")


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ({"src_lang": "english"}, "invalid src_lang: expected auto or a code"),
        ({"tgt_lang": ""}, "invalid tgt_lang: expected a language code"),
        ({"src_lang": "auto"}, "requires lang_a and lang_b"),
    ],
)
async def test_a_session_that_cannot_be_served_is_refused_in_words(peers: Field, init: Frame, words: str) -> None:
    client: FakeClient = await peers.client(**init)
    assert client.ack["type"] == "error"
    assert words in client.ack["message"]


async def test_an_index_that_is_under_way_is_not_dispatched_twice(peers: Field) -> None:
    async def never(node, job):  # type: ignore[no-untyped-def]
        pass

    node = await peers.node(never)
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: node.jobs)
    await client.utterance(0)
    assert "was already sent" in (await client.socket.next("error"))["message"]
    assert len(node.jobs) == 1
