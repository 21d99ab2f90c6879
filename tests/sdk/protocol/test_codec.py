import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_sdk.protocol.bulk import SMALL_BYTES
from lingua_sdk.protocol.codec import (
    UnreadableFrame,
    decode_for_client,
    decode_for_node,
    decode_node,
    decode_session,
    encode,
)
from lingua_sdk.protocol.session import AudioChunk, ServerHeartbeat
from lingua_sdk.protocol.shapes import Message

DECODERS: list[Callable[[bytes | str], object]] = [decode_session, decode_node, decode_for_client, decode_for_node]

CHUNK = '{"type":"audio_chunk","session_id":"s-1","seq":%s,"is_final":false,"payload":%s}'
HEARTBEAT_SERVICES = (
    '{"type":"node_heartbeat","node_id":"n","timestamp":1,"capability_by_type":[],'
    '"resource_usage":{"cpu_percent":1,"mem_percent":1,"running_jobs":0},"installed_services":%s}'
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def refusal(decode: Callable[[bytes | str], object], frame: bytes | str) -> str:
    with pytest.raises(UnreadableFrame) as caught:
        decode(frame)
    return str(caught.value)


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        ("", "the frame is not JSON: Input data was truncated"),
        ("hello", "the frame is not JSON: JSON is malformed: invalid character (byte 0)"),
        ('{"type":"audio_chunk"', "the frame is not JSON: Input data was truncated"),
        ('{"type":"nonsense",]', "the frame is not JSON: JSON is malformed: object keys must be strings (byte 19)"),
        ("[]", "the frame is not a JSON object"),
        ("null", "the frame is not a JSON object"),
        ('"session_init"', "the frame is not a JSON object"),
        ("{}", 'the frame has no "type" field'),
        ('{"session_id":"s-1"}', 'the frame has no "type" field'),
        ('{"type":null}', 'the "type" field is not a string'),
        ('{"type":7}', 'the "type" field is not a string'),
        ('{"type":["session_init"]}', 'the "type" field is not a string'),
        ('{"type":' + "9" * 5000 + "}", 'the "type" field is not a string'),
        (b'{"type":"\xff"}', "the frame is not UTF-8 text"),
        ('{"type":"\ud800"}', "the frame is not UTF-8 text"),
    ],
)
def test_a_frame_that_is_no_message_at_all_is_refused(
    decode: Callable[[bytes | str], object], frame: bytes | str, sentence: str
) -> None:
    assert refusal(decode, frame) == sentence


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        ('{"type":"audio_chunk","session_id":"s-1","is_final":true}', 'audio_chunk: field "seq" is missing'),
        (CHUNK % ('"3"', "null"), 'audio_chunk: invalid field "seq": expected int, got str'),
        (CHUNK % ("3.0", "null"), 'audio_chunk: invalid field "seq": expected int, got float'),
        (CHUNK % ("-3", "null"), 'audio_chunk: invalid field "seq": expected int >= 0'),
        (CHUNK % ("3", "{}"), 'audio_chunk: invalid field "payload": expected bytes | null, got object'),
        (
            '{"type":"session_init","client_version":"1","platform":"p","src_lang":"a","tgt_lang":"b","auto_langs":["a",2]}',
            'session_init: invalid field "auto_langs[1]": expected str, got int',
        ),
        (
            '{"type":"webrtc_offer","room_code":"1","to":"s-1","sdp":{"speech":1e999}}',
            'webrtc_offer: invalid field "sdp[...]": number out of range',
        ),
    ],
)
def test_a_wrong_field_of_a_client_is_named(frame: str, sentence: str) -> None:
    assert refusal(decode_session, frame) == sentence


@pytest.mark.parametrize(
    ("services", "sentence"),
    [
        ("null", 'node_heartbeat: invalid field "installed_services": expected array, got null'),
        (
            '[{"service_id":"a","type":"asr","device":"gpu","status":"running"},{"service_id":"b"}]',
            'node_heartbeat: field "installed_services[1].type" is missing',
        ),
        (
            '[{"service_id":"a","type":7}]',
            'node_heartbeat: invalid field "installed_services[0].type": expected str, got int',
        ),
    ],
)
def test_a_wrong_field_deep_inside_is_named_by_its_path(services: str, sentence: str) -> None:
    assert refusal(decode_node, HEARTBEAT_SERVICES % services) == sentence


@pytest.mark.parametrize(
    ("decode", "wire_type", "sentence"),
    [
        (decode_session, "sesion_init", 'unknown type "sesion_init"; did you mean "session_init"?'),
        (decode_session, "audioChunk", 'unknown type "audioChunk"; did you mean "audio_chunk"?'),
        (decode_session, "job_result", 'unknown type "job_result"'),
        (decode_node, "job_results", 'unknown type "job_results"; did you mean "job_result"?'),
        (decode_node, "", 'unknown type ""'),
        (decode_node, "x" * 1000, f'unknown type "{"x" * 40}"'),
    ],
)
def test_an_unknown_type_is_named_with_the_nearest_known_one(
    decode: Callable[[bytes | str], object], wire_type: str, sentence: str
) -> None:
    assert refusal(decode, json.dumps({"type": wire_type})) == sentence


@pytest.mark.parametrize("decode", [decode_for_client, decode_for_node])
def test_a_peer_ignores_a_type_it_does_not_know(decode: Callable[[bytes | str], object]) -> None:
    assert decode('{"type":"invented_tomorrow","seq":"anything"}') is None


def test_a_peer_still_refuses_a_known_type_it_cannot_read() -> None:
    assert refusal(decode_for_node, '{"type":"job_cancel"}') == 'job_cancel: field "job_id" is missing'
    assert (
        refusal(decode_for_client, '{"type":"error","code":1}') == 'error: invalid field "code": expected str, got int'
    )


def test_a_chunk_whose_payload_is_no_base64_is_an_empty_one() -> None:
    frame = '{"type":"audio_chunk","session_id":"s-1","seq":3,"is_final":true,"payload":"not base64!"}'
    assert decode_session(frame) == AudioChunk(session_id="s-1", seq=3, is_final=True)
    assert decode_session(frame.encode()) == decode_session(frame)
    # Nothing else is overlooked with it.
    assert refusal(decode_session, frame.replace("3", '"3"')).startswith('audio_chunk: invalid field "')


def test_no_refusal_repeats_what_was_said() -> None:
    speech = "a secret that was spoken"
    frames: list[bytes | str] = [
        speech,
        json.dumps(speech),
        json.dumps({"type": {"text": speech}}),
        json.dumps({"type": "audio_chunk", "session_id": {"text": speech}}),
        json.dumps({"type": "session_init", speech: speech}),
        f'{{"type":"audio_chunk","session_id":"{speech}'.encode() + b'\xff","seq":1,"is_final":true}',
    ]
    for frame in frames:
        with pytest.raises(UnreadableFrame) as caught:
            decode_session(frame)
        assert "secret" not in str(caught.value)
        # A chained UnicodeError would carry the frame into whatever reports exceptions.
        assert caught.value.__context__ is None


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "nested",
    [
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
    ],
)
def test_a_frame_nested_without_end_is_refused(decode: Callable[[bytes | str], object], nested: str) -> None:
    told = refusal(decode, f'{{"type":"error","code":"c","message":"m","details":{nested}}}')
    # From strangers it is not even read, because it holds too much.
    assert told == "the frame is nested too deeply" or told.endswith("are allowed")


def test_whatever_was_read_can_be_written_from_deep_inside_a_service() -> None:
    def nested(depth: int) -> str:
        # The message itself is the first level.
        return f'{{"type":"error","code":"c","message":"m","details":{"[" * (depth - 1)}{"]" * (depth - 1)}}}'

    def write_from(frames_down: int, message: Message) -> bytes:
        return encode(message) if frames_down == 0 else write_from(frames_down - 1, message)

    deepest = decode_for_client(nested(100))
    assert deepest is not None
    assert write_from(500, deepest).decode() == nested(100)
    assert refusal(decode_for_client, nested(101)) == "the frame is nested too deeply"


@pytest.mark.parametrize(("lists", "objects"), [(51, 49), (50, 50)])
def test_a_large_frame_is_too_deep_though_half_of_its_levels_are_lists_and_half_objects(
    lists: int, objects: int
) -> None:
    """In a large frame either kind of bracket is looked for alone; the message itself is one more object."""
    padding = "m" * SMALL_BYTES

    def nested(lists: int, objects: int) -> str:
        details = "[" * lists + '{"a":' * objects + "0" + "}" * objects + "]" * lists
        return f'{{"type":"error","code":"c","message":"{padding}","details":{details}}}'

    assert refusal(decode_for_client, nested(lists, objects)) == "the frame is nested too deeply"
    assert decode_for_client(nested(lists - 1, objects)) is not None


def test_many_brackets_side_by_side_or_inside_speech_are_not_deep() -> None:
    details = [[{"text": '\\"[[[{'}]] * 200
    frame = json.dumps({"type": "error", "code": "c", "message": '\\\\"' + "[{" * 200, "details": details})

    for read in (decode_for_client(frame), decode_for_client(frame.encode())):
        assert read is not None
        assert json.loads(encode(read)) == json.loads(frame)


def test_the_type_may_stand_anywhere_in_the_frame() -> None:
    assert decode_session('{"seq":1,"session_id":"s","is_final":true,"type":"audio_chunk"}') == AudioChunk(
        session_id="s", seq=1, is_final=True
    )


def test_text_and_bytes_read_the_same() -> None:
    frame = CHUNK % ("3", '"AAEC"')

    assert decode_session(frame) == decode_session(frame.encode())


@pytest.mark.parametrize("decode", DECODERS)
@given(frame=st.binary() | st.text())
def test_no_bytes_and_no_text_break_the_reader(decode: Callable[[bytes | str], object], frame: bytes | str) -> None:
    with contextlib.suppress(UnreadableFrame):
        decode(frame)


@pytest.mark.parametrize("decode", DECODERS)
@given(
    wire_type=st.sampled_from(["session_init", "audio_chunk", "utterance", "job_result", "node_heartbeat", "error"]),
    fields=st.dictionaries(
        st.sampled_from(["session_id", "seq", "is_final", "payload", "extra", "code", "message", "details"])
        | st.text(),
        json_values,
    ),
)
def test_no_fields_break_the_reader(
    decode: Callable[[bytes | str], object], wire_type: str, fields: dict[str, object]
) -> None:
    with contextlib.suppress(UnreadableFrame):
        decode(json.dumps({**fields, "type": wire_type}))


@given(payload=st.binary(), seq=st.integers(0, 2**53 - 1), is_final=st.booleans())
def test_a_chunk_is_read_as_it_was_written(payload: bytes, seq: int, is_final: bool) -> None:
    chunk = AudioChunk(session_id="s-1", seq=seq, is_final=is_final, payload=payload)

    assert decode_session(encode(chunk)) == chunk


@given(timestamp=st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_time_is_read_as_it_was_written(timestamp: float) -> None:
    heartbeat = ServerHeartbeat(session_id="s-1", timestamp=timestamp)

    assert decode_for_client(encode(heartbeat)) == heartbeat


def test_how_deep_a_frame_goes_matters_only_where_a_message_keeps_it() -> None:
    deep = "[" * 150 + "]" * 150
    # A chunk keeps none of it.
    chunk = decode_session(f'{{"type":"audio_chunk","session_id":"s-1","seq":1,"is_final":true,"more":{deep}}}')
    assert chunk == AudioChunk(session_id="s-1", seq=1, is_final=True)
    result = '{"type":"node_error","node_id":"n","code":"c","message":"m","details":%s}'
    assert refusal(decode_node, result % deep) == "the frame is nested too deeply"
