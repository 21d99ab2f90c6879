import json
from typing import Any

import pytest

from lingua_sdk.protocol import session
from lingua_sdk.protocol.codec import UnreadableFrame, decode_for_client, decode_session, encode
from lingua_sdk.protocol.session import (
    AudioChunk,
    ClientHeartbeat,
    SessionInit,
    SessionInitAck,
    TranslationResult,
    Utterance,
    WebrtcIce,
)
from lingua_sdk.protocol.shapes import FeatureFlags, Message, NetworkTimings, ServiceTimings

SESSION_INIT = """{"type":"session_init","client_version":"web-client-v1.0","platform":"web","src_lang":"auto","tgt_lang":"en","dialect":null,"features":{},"pairing_code":null,"mode":"two_way_auto","lang_a":"zh","lang_b":"en","auto_langs":["zh","en"],"trace_id":"9176…","tenant_id":null}"""  # noqa: E501 - as seen on the wire
SESSION_INIT_ACK = """{"type":"session_init_ack","session_id":"s-1A2B3C4D","message":"session created","trace_id":"…","protocol_version":"1.0","use_binary_frame":false,"negotiated_codec":"opus","negotiated_audio_format":"opus","negotiated_sample_rate":16000,"negotiated_channel_count":1}"""  # noqa: E501 - as seen on the wire

UTTERANCE: dict[str, Any] = json.loads(
    '{"type":"utterance","session_id":"s-1A2B3C4D","utterance_index":0,"manual_cut":true,"src_lang":"zh",'
    '"tgt_lang":"en","audio":"AAECAw==","audio_format":"pcm16","sample_rate":16000}'
)


def translation_result(**optional: Any) -> TranslationResult:
    return TranslationResult(
        session_id="s-1A2B3C4D",
        utterance_index=0,
        job_id="job-1",
        trace_id="tr-1",
        text_asr="",
        text_translated="",
        tts_audio="",
        tts_format="pcm16",
        scheduler_sent_at_ms=1700000000000,
        **optional,
    )


def test_the_browsers_session_init_is_read() -> None:
    message = decode_session(SESSION_INIT)

    assert message == SessionInit(
        client_version="web-client-v1.0",
        platform="web",
        src_lang="auto",
        tgt_lang="en",
        features=FeatureFlags(),
        mode="two_way_auto",
        lang_a="zh",
        lang_b="en",
        auto_langs=["zh", "en"],
        trace_id="9176…",
    )


def test_writing_a_session_init_again_leaves_out_only_what_was_null() -> None:
    written = json.loads(encode(decode_session(SESSION_INIT)))

    assert written == {name: value for name, value in json.loads(SESSION_INIT).items() if value is not None}


def test_every_optional_field_may_be_null_as_well_as_absent() -> None:
    required = {"type": "session_init", "client_version": "1", "platform": "?", "src_lang": "zh", "tgt_lang": "en"}
    absent = decode_session(json.dumps(required))
    nulls = {name: None for name in SessionInit.__struct_fields__ if name not in required}

    assert decode_session(json.dumps({**required, **nulls})) == absent


def test_an_unknown_mode_platform_or_field_leaves_a_session_init_readable() -> None:
    frame = {**json.loads(SESSION_INIT), "mode": "telepathy", "platform": "fridge", "shoe_size": {"eu": [43]}}

    message = decode_session(json.dumps(frame))

    assert isinstance(message, SessionInit)
    assert (message.mode, message.platform) == ("telepathy", "fridge")


def test_a_session_init_may_carry_a_resume_token() -> None:
    message = decode_session(json.dumps({**json.loads(SESSION_INIT), "resume_token": "again"}))

    assert isinstance(message, SessionInit)
    assert message.resume_token == "again"


@pytest.mark.parametrize(("payload", "audio"), [('"AAECAw=="', b"\x00\x01\x02\x03"), ('""', b""), ("null", None)])
def test_a_chunks_base64_payload_arrives_as_bytes(payload: str, audio: bytes | None) -> None:
    frame = f'{{"type":"audio_chunk","session_id":"s-1","seq":3,"is_final":false,"payload":{payload}}}'

    assert decode_session(frame) == AudioChunk(session_id="s-1", seq=3, is_final=False, payload=audio)


def test_a_final_chunk_needs_no_payload() -> None:
    message = decode_session('{"session_id":"s-1","seq":4,"is_final":true,"type":"audio_chunk"}')

    assert message == AudioChunk(session_id="s-1", seq=4, is_final=True)


@pytest.mark.parametrize("seq", [-1, 2**53, 1.0, "1", True, None])
def test_a_seq_that_counts_nothing_is_refused(seq: object) -> None:
    frame = {"type": "audio_chunk", "session_id": "s-1", "seq": seq, "is_final": False}

    with pytest.raises(UnreadableFrame, match=r'^audio_chunk: invalid field "seq": '):
        decode_session(json.dumps(frame))


def test_a_time_may_be_written_as_an_integer_or_with_a_fraction() -> None:
    heartbeat = '{"type":"client_heartbeat","session_id":"s-1","timestamp":%s}'

    assert decode_session(heartbeat % "1700000000000") == ClientHeartbeat(session_id="s-1", timestamp=1700000000000)
    assert decode_session(heartbeat % "24.5") == ClientHeartbeat(session_id="s-1", timestamp=24.5)


def test_a_number_is_passed_on_as_it_was_spelled() -> None:
    heartbeat = b'{"type":"client_heartbeat","session_id":"s-1","timestamp":%s}'

    for spelling in (b"24", b"24.0"):
        assert encode(decode_session(heartbeat % spelling)) == heartbeat % spelling


def test_a_whole_utterance_is_read_with_its_required_fields_alone() -> None:
    message = decode_session(json.dumps(UTTERANCE))

    assert isinstance(message, Utterance)
    assert message.audio == b"\x00\x01\x02\x03"
    assert message.pipeline is None
    assert message.request_id is None
    assert json.loads(encode(message)) == UTTERANCE


def test_every_required_field_of_an_utterance_is_required() -> None:
    for name in UTTERANCE.keys() - {"type"}:
        without = {field: value for field, value in UTTERANCE.items() if field != name}
        with pytest.raises(UnreadableFrame, match=f'^utterance: field "{name}" is missing$'):
            decode_session(json.dumps(without))


def test_an_utterances_pipeline_needs_three_stages_and_may_name_five() -> None:
    three = {"use_asr": True, "use_nmt": True, "use_tts": False}
    message = decode_session(json.dumps({**UTTERANCE, "pipeline": {**three, "use_tone": None}}))

    assert isinstance(message, Utterance)
    assert message.pipeline is not None
    assert (message.pipeline.use_tts, message.pipeline.use_semantic) == (False, None)
    assert json.loads(encode(message))["pipeline"] == three

    with pytest.raises(UnreadableFrame, match=r'^utterance: field "pipeline\.use_tts" is missing$'):
        decode_session(json.dumps({**UTTERANCE, "pipeline": {"use_asr": True, "use_nmt": True}}))


def test_a_sample_rate_of_zero_is_refused_before_anyone_divides_by_it() -> None:
    with pytest.raises(UnreadableFrame, match='"sample_rate"'):
        decode_session(json.dumps({**UTTERANCE, "sample_rate": 0}))


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"client_heartbeat","session_id":"s-1","timestamp":0}',
        '{"type":"session_close","session_id":"s-1","reason":"user"}',
        '{"type":"tts_started","session_id":"s-1","trace_id":"t","group_id":"g","ts_start_ms":5}',
        '{"type":"tts_play_ended","session_id":"s-1","trace_id":"t","group_id":"g","ts_end_ms":6}',
        '{"type":"room_create","client_ts":7,"display_name":"A","preferred_lang":"en"}',
        '{"type":"room_join","room_code":"1","display_name":"A","preferred_lang":"en"}',
        '{"type":"room_leave","room_code":"1"}',
        '{"type":"room_raw_voice_preference","room_code":"1","target_session_id":"s","receive_raw_voice":false}',
        '{"type":"webrtc_offer","room_code":"1","to":"s-2","sdp":"v=0"}',
        '{"type":"webrtc_answer","room_code":"1","to":"s-2","sdp":{"type":"answer","sdp":"v=0"}}',
        '{"type":"webrtc_ice","room_code":"1","to":"s-2","candidate":null}',
    ],
)
def test_every_other_message_of_a_client_is_read_whole(frame: str) -> None:
    assert encode(decode_session(frame)).decode() == frame


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"client_heartbeat","session_id":"s-1"}',
        '{"type":"session_close","session_id":"s-1"}',
        '{"type":"tts_started","session_id":"s-1","ts_start_ms":5}',
        '{"type":"tts_play_ended","session_id":"s-1","ts_end_ms":6}',
        '{"type":"room_create"}',
        '{"type":"room_join","room_code":"1"}',
    ],
)
def test_what_nobody_needs_to_act_may_be_left_out(frame: str) -> None:
    assert encode(decode_session(frame)).decode() == frame


def test_what_browsers_say_to_each_other_is_forwarded_whole() -> None:
    candidate = {"candidate": "candidate:1 1 udp", "sdpMLineIndex": 0, "sdpMid": "0", "usernameFragment": None}
    frame = {"type": "webrtc_ice", "room_code": "1", "to": "s-2", "candidate": candidate}

    received = decode_for_client(encode(decode_session(json.dumps(frame))))

    assert received == WebrtcIce(room_code="1", to="s-2", candidate=candidate)
    assert json.loads(encode(WebrtcIce(room_code="1", to="s-2", candidate=None)))["candidate"] is None


def test_the_session_init_ack_is_written_as_clients_know_it() -> None:
    ack = decode_for_client(SESSION_INIT_ACK)

    assert isinstance(ack, SessionInitAck)
    assert encode(ack).decode() == SESSION_INIT_ACK
    assert ack.resume_token is None


def test_a_translation_result_always_carries_its_texts_and_audio_even_when_empty() -> None:
    assert encode(translation_result()).decode() == (
        '{"type":"translation_result","session_id":"s-1A2B3C4D","utterance_index":0,"job_id":"job-1",'
        '"trace_id":"tr-1","text_asr":"","text_translated":"","tts_audio":"","tts_format":"pcm16",'
        '"scheduler_sent_at_ms":1700000000000}'
    )


def test_a_translation_result_carries_what_else_is_known() -> None:
    optional: dict[str, Any] = {
        "extra": {"language_probability": 0.9, "reason": None},
        "group_id": "group_s-1_1",
        "part_index": 0,
        "asr_quality_level": "good",
        "reason_codes": [],
        "quality_score": 1,
        "rerun_count": 0,
        "segments_meta": [{"no_speech_prob": 0.1}],
    }
    result = translation_result(
        service_timings=ServiceTimings(asr_ms=12, total_ms=40.5),
        network_timings=NetworkTimings(scheduler_to_node_ms=0),
        **optional,
    )

    written = json.loads(encode(result))

    assert {name: written[name] for name in optional} == optional
    assert written["service_timings"] == {"asr_ms": 12, "total_ms": 40.5}
    assert written["network_timings"] == {"scheduler_to_node_ms": 0}
    assert decode_for_client(encode(result)) == result


def test_speech_in_a_result_stays_base64_text() -> None:
    result = decode_for_client(encode(translation_result()).replace(b'"tts_audio":""', b'"tts_audio":"AAEC"'))

    assert isinstance(result, TranslationResult)
    assert result.tts_audio == "AAEC"


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"asr_partial","session_id":"s","utterance_index":0,"job_id":"j","text":"","is_final":false,"trace_id":""}',
        '{"type":"missing_result","session_id":"s","utterance_index":0,"reason":"gap_timeout","created_at_ms":0}',
        '{"type":"missing_result","session_id":"s","utterance_index":0,"reason":"","created_at_ms":0,"trace_id":"t"}',
        '{"type":"error","code":"INVALID_MESSAGE","message":"…"}',
        '{"type":"error","code":"","message":"","details":{"room":"1"}}',
        '{"type":"ui_event","trace_id":"","session_id":"","job_id":"","utterance_index":0,"event":"","status":""}',
        '{"type":"ui_event","trace_id":"t","session_id":"s","job_id":"j","utterance_index":1,"event":"ERROR",'
        '"status":"error","elapsed_ms":12,"error_code":"JOB_TIMEOUT","hint":"again"}',
        '{"type":"backpressure","action":"PAUSE","resume_after_ms":0,"message":""}',
        '{"type":"server_heartbeat","session_id":"s-1","timestamp":0}',
        '{"type":"session_close_ack","session_id":"s-1"}',
        '{"type":"room_create_ack","room_code":"1","room_id":"r"}',
        '{"type":"room_members","room_code":"1","members":[]}',
        '{"type":"room_members","room_code":"1","members":[{"participant_id":"p","session_id":"s-1",'
        '"raw_voice_preferences":{},"joined_at":"2024-01-01T00:00:00Z"}]}',
        '{"type":"room_members","room_code":"1","members":[{"participant_id":"p","session_id":"s-1","display_name":"A",'
        '"preferred_lang":"en","raw_voice_preferences":{"s-2":false},"joined_at":"2024-01-01T00:00:00Z"}]}',
        '{"type":"room_error","code":"ROOM_FULL","message":""}',
        '{"type":"room_expired","room_code":"1","message":""}',
        '{"type":"webrtc_offer","room_code":"1","to":"s-1","sdp":"v=0"}',
        '{"type":"webrtc_answer","room_code":"1","to":"s-1","sdp":"v=0"}',
    ],
)
def test_what_a_client_is_told_has_all_its_required_fields_and_no_empty_optional_ones(frame: str) -> None:
    message = decode_for_client(frame)

    assert message is not None
    assert encode(message).decode() == frame


def test_every_message_of_the_module_belongs_to_a_direction() -> None:
    declared = {
        thing
        for thing in vars(session).values()
        if isinstance(thing, type) and issubclass(thing, Message) and thing is not Message
    }

    assert declared == set(session.SessionIncoming.__args__) | set(session.SessionOutgoing.__args__)
