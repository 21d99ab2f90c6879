"""What a message may hold is looked at before it is read, and every free text and list of a stranger has a limit."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect

from lingua_scheduler.protocol import http, http_dispatch, http_instances
from lingua_sdk.protocol.bulk import OF_CLIENTS, OF_NODES, brackets_of
from lingua_sdk.protocol.codec import UnreadableFrame, decode_body, decode_node, decode_session
from lingua_sdk.protocol.node import NodeHeartbeat, NodeIncoming
from lingua_sdk.protocol.session import SessionIncoming, SessionInit, Utterance
from lingua_sdk.protocol.shapes import FeatureFlags
from tests.support.peers import heartbeat, registration, result_of

INIT = {"type": "session_init", "client_version": "1", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}
UTTERANCE = {
    "type": "utterance",
    "session_id": "s-1",
    "utterance_index": 0,
    "manual_cut": True,
    "src_lang": "en",
    "tgt_lang": "zh",
    "audio": "AAAA" * 1_000_000,
    "audio_format": "pcm16",
    "sample_rate": 16_000,
}
JOB = {"job_id": "job-1", "attempt_id": 1, "session_id": "s-1", "utterance_index": 0, "trace_id": "t"}


def written(message: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(message | more).encode()


def brackets(field: str, count: int) -> bytes:
    return written(INIT)[:-1] + b', "%s": {"x": [%s[]]}}' % (field.encode(), b"[]," * count)


def refusal(decode: Callable[[bytes], object], frame: bytes) -> str:
    with pytest.raises(UnreadableFrame) as refused:
        decode(frame)
    return str(refused.value)


@pytest.mark.parametrize("field", ["features", "unknown"])
def test_a_session_init_full_of_brackets_is_refused_unread(field: str) -> None:
    frame = brackets(field, 1_380_000)
    began = time.process_time()
    assert "besides its speech; at most 65536 are allowed" in refusal(decode_session, frame)
    took_ms = (time.process_time() - began) * 1000
    print(f"{len(frame)} bytes refused in {took_ms:.1f} ms")
    assert took_ms < 200
    assert "objects and lists; at most 256 are allowed" in refusal(decode_session, brackets(field, 5_000))


@pytest.mark.parametrize("order", [sorted(UTTERANCE), sorted(UTTERANCE, reverse=True)])
@pytest.mark.parametrize("separators", [(",", ":"), (" ,\n ", " : ")])
def test_speech_may_be_long_wherever_it_stands(order: list[str], separators: tuple[str, str]) -> None:
    frame = json.dumps({name: UTTERANCE[name] for name in order}, separators=separators).encode()
    assert brackets_of(frame, OF_CLIENTS) == 1
    message = decode_session(frame)
    assert isinstance(message, Utterance)
    assert len(message.audio) == 3_000_000


@pytest.mark.parametrize("gap", ['"audio"{}:"', '"audio":{}"'])
def test_white_space_without_end_costs_nothing(gap: str) -> None:
    frame = ("{" + gap.format(" " * 4_000_000) + 'x"}').encode()
    began = time.process_time()
    assert "besides its speech" in refusal(decode_session, frame)
    # Step by step it took 600 ms.
    assert time.process_time() - began < 0.2


def test_what_is_beside_long_speech_is_counted() -> None:
    assert "besides its speech" in refusal(decode_session, written(UTTERANCE, more="x" * 70_000))
    assert "besides its speech" in refusal(decode_session, written({"more": ["x" * 70_000]} | UTTERANCE))
    assert "objects and lists" in refusal(decode_session, written(UTTERANCE, more=[[]] * 2_000))


def test_a_node_may_list_all_it_can_do_and_say_less_of_a_job() -> None:
    pairs = [{"from": f"l{source:03}", "to": f"l{target:03}"} for source in range(128) for target in range(128)]
    capable = {"asr_languages": ["en"], "nmt_capabilities": pairs}
    frame = written(heartbeat("node-1", language_capabilities=capable))
    assert len(frame) > 500_000
    assert isinstance(decode_node(frame), NodeHeartbeat)
    assert isinstance(decode_node(written(result_of(JOB, "node-1", tts_audio="A" * 4_000_000))), object)
    assert "262144 are allowed" in refusal(decode_node, written(result_of(JOB, "node-1", extra={"x": "y" * 300_000})))
    assert "4096 are allowed" in refusal(decode_node, written(result_of(JOB, "node-1", segments_meta=[[]] * 5_000)))
    assert "are allowed" in refusal(decode_node, written(heartbeat("node-1", rerun_metrics=[[]] * 40_000)))
    assert "are allowed" in refusal(decode_node, written(registration(version="x" * 1_100_000)))


def test_a_body_is_looked_at_too() -> None:
    decoder = msgspec.json.Decoder(http_dispatch.F2fDispatch)
    asked = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh"}
    assert decode_body(written(asked, audio="AAAA" * 500_000), decoder).audio is not None
    with pytest.raises(UnreadableFrame, match=r"the body has .* besides its speech"):
        decode_body(written(asked, more="x" * 70_000), decoder)


def test_features_are_flags_and_others_are_left_out() -> None:
    message = decode_session(written(INIT, features={"emotion_detection": True, "another": {"deep": [1]}}))
    assert isinstance(message, SessionInit)
    assert message.features == FeatureFlags(emotion_detection=True)


def test_a_text_that_is_too_long_is_named() -> None:
    frame = written(INIT, trace_id="x" * 257)
    assert refusal(decode_session, frame) == 'session_init: invalid field "trace_id": expected str of length <= 256'


BODIES = [
    *(http.NodeRegistration, http.NodeBeat, http.NodePoll, http.JobAcked, http.JobDone, http.JobFailed),
    *(http_dispatch.F2fDispatch, http_instances.LetterChoice),
]
STRANGERS = [*get_args(SessionIncoming), *get_args(NodeIncoming), *BODIES]
# Bounded by the frame or the body alone.
SPEECH = {"tts_audio", "audio", "payload"}


@pytest.mark.parametrize("struct", STRANGERS, ids=lambda struct: f"{struct.__module__[27:]} {struct.__name__}")
def test_every_free_text_and_list_has_a_limit(struct: type) -> None:
    assert list(_unlimited(inspect.type_info(struct), "", set())) == []


def test_the_limits_of_nodes_hold_what_they_may_declare() -> None:
    assert OF_NODES.list_brackets > 16_384 + 4_096


def _unlimited(kind: inspect.Type, at: str, seen: set[type]) -> Iterator[str]:
    match kind:
        case inspect.StructType():
            if kind.cls not in seen:
                seen.add(kind.cls)
                for field in kind.fields:
                    if field.encode_name not in SPEECH:
                        yield from _unlimited(field.type, f"{at}.{field.encode_name}", seen)
        case inspect.Metadata():
            yield from _unlimited(kind.type, at, seen)
        case inspect.UnionType():
            for option in kind.types:
                yield from _unlimited(option, at, seen)
        case inspect.StrType():
            if kind.max_length is None and "{0,63}" not in (kind.pattern or ""):
                yield at
        case inspect.ListType():
            if kind.max_length is None:
                yield at
            yield from _unlimited(kind.item_type, f"{at}[]", seen)
        case inspect.DictType():
            # Of an object inside a list the frame's number of brackets is the limit.
            if kind.max_length is None and "[]" not in at:
                yield at
