import json
from typing import Any

import pytest

from lingua_sdk.protocol import node
from lingua_sdk.protocol.codec import UnreadableFrame, decode_for_node, decode_node, encode
from lingua_sdk.protocol.node import Hardware, JobAssign, JobResult, LanguageCandidates, NodeHeartbeat, NodeRegister
from lingua_sdk.protocol.shapes import CapabilityByType, InstalledService, JobError, JobPipeline, Message

NODE_REGISTER = """{"type":"node_register","node_id":null,"version":"2.0.0","capability_schema_version":"2.0","platform":"linux","hardware":{"cpu_cores":2,"memory_gb":24},"installed_models":[],"installed_services":[{"service_id":"faster-whisper-vad","type":"asr","device":"gpu","status":"running","version":"1"}],"capability_by_type":[{"type":"asr","ready":true,"devices":["gpu"]}],"features_supported":{"emotion_detection":false},"accept_public_jobs":true,"language_capabilities":{"asr_languages":["zh","en"],"tts_languages":["zh","en"],"semantic_languages":["zh","en"],"semantic_core_ready":true}}"""  # noqa: E501 - as seen on the wire
JOB_RESULT = """{"type":"job_result","job_id":"job-1","attempt_id":1,"node_id":"node-TEST0001","session_id":"s-AAAA1111","utterance_index":0,"success":true,"text_asr":"你好","text_translated":"hello","tts_audio":"","tts_format":"opus","extra":{"language_probability":0.9},"processing_time_ms":51,"trace_id":"tr-1"}"""  # noqa: E501 - as seen on the wire
FAILED_JOB_RESULT = """{"type":"job_result","job_id":"job-9","attempt_id":1,"node_id":"node-…","session_id":"s-…","utterance_index":4,"success":false,"processing_time_ms":12,"error":{"code":"MODEL_NOT_AVAILABLE","message":"…","details":{"service_id":"X","service_version":"1.0","reason":"…"}},"trace_id":"…"}"""  # noqa: E501 - as seen on the wire

NODE_HEARTBEAT: dict[str, Any] = json.loads(
    '{"type":"node_heartbeat","node_id":"node-TEST0001","timestamp":1700000000000,"resource_usage":{"cpu_percent":25.0,'
    '"mem_percent":45,"running_jobs":0},"installed_services":[],"capability_by_type":[]}'
)

REQUIRED_OF_A_RESULT = ["job_id", "attempt_id", "node_id", "session_id", "utterance_index", "success", "trace_id"]


def job_assign(**optional: Any) -> JobAssign:
    return JobAssign(
        job_id="job-1",
        attempt_id=1,
        session_id="s-1A2B3C4D",
        utterance_index=0,
        src_lang="zh",
        tgt_lang="en",
        pipeline=JobPipeline(use_asr=True, use_nmt=True, use_tts=True, use_semantic=True, use_tone=False),
        audio=b"\x00\x01\x02\x03",
        audio_format="pcm16",
        sample_rate=16000,
        enable_streaming_asr=False,
        partial_update_interval_ms=0,
        trace_id="tr-1",
        turn_id="turn-1",
        **optional,
    )


def without_nulls(frame: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in frame.items() if value is not None}


def test_an_existing_nodes_registration_is_read() -> None:
    message = decode_node(NODE_REGISTER)

    assert isinstance(message, NodeRegister)
    assert message.node_id is None
    assert message.hardware == Hardware(cpu_cores=2, memory_gb=24)
    assert message.installed_services == [
        InstalledService(service_id="faster-whisper-vad", type="asr", device="gpu", status="running", version="1")
    ]
    assert message.capability_by_type == [CapabilityByType(type="asr", ready=True, devices=["gpu"])]
    assert message.language_capabilities is not None
    assert message.language_capabilities.semantic_languages == ["zh", "en"]
    assert message.language_capabilities.nmt_capabilities is None


def test_writing_a_registration_again_leaves_out_only_what_was_null() -> None:
    assert json.loads(encode(decode_node(NODE_REGISTER))) == without_nulls(json.loads(NODE_REGISTER))


def test_every_optional_field_of_a_registration_may_be_null_as_well_as_absent() -> None:
    optional = ("node_id", "capability_schema_version", "installed_services", "language_capabilities")
    required = {name: value for name, value in json.loads(NODE_REGISTER).items() if name not in optional}
    nulls = {name: None for name in NodeRegister.__struct_fields__ if name not in required}

    assert decode_node(json.dumps({**required, **nulls})) == decode_node(json.dumps(required))


def test_an_unknown_service_type_device_status_or_field_leaves_a_registration_readable() -> None:
    frame = json.loads(NODE_REGISTER)
    frame["installed_services"] = [
        {"service_id": "x", "type": "smell", "device": "TPU", "status": "Dreaming", "age": 1}
    ]
    frame["capability_by_type"] = [{"type": "smell", "ready": False, "reason": None}]
    frame["features_supported"] = {"time_travel": {"backwards": True}}

    message = decode_node(json.dumps(frame))

    assert isinstance(message, NodeRegister)
    assert message.installed_services == [
        InstalledService(service_id="x", type="smell", device="TPU", status="Dreaming")
    ]


@pytest.mark.parametrize("memory_gb", [24, 24.0, 23.5])
def test_a_measure_may_be_written_with_or_without_a_fraction(memory_gb: float) -> None:
    frame = json.loads(NODE_REGISTER)
    frame["hardware"] = {"cpu_cores": 2.0, "memory_gb": memory_gb, "gpus": [{"name": "GPU", "memory_gb": memory_gb}]}

    message = decode_node(json.dumps(frame))

    assert isinstance(message, NodeRegister)
    assert message.hardware.gpus is not None
    assert message.hardware.gpus[0].memory_gb == message.hardware.memory_gb == memory_gb


def test_a_newer_node_says_what_it_runs_and_how_it_beats() -> None:
    ours = {"running_job_ids": ["job-1"], "max_concurrent_jobs": 4, "boot_id": "b", "heartbeat_interval_ms": 5000.0}
    register = decode_node(json.dumps({**json.loads(NODE_REGISTER), "advanced_features": ["job_ack"], **ours}))
    heartbeat = decode_node(json.dumps({**NODE_HEARTBEAT, **ours}))

    assert isinstance(register, NodeRegister)
    assert isinstance(heartbeat, NodeHeartbeat)
    assert register.advanced_features == ["job_ack"]
    for message in (register, heartbeat):
        assert {name: getattr(message, name) for name in ours} == ours


def test_a_heartbeat_is_read_with_its_required_fields_alone() -> None:
    message = decode_node(json.dumps(NODE_HEARTBEAT))

    assert isinstance(message, NodeHeartbeat)
    assert message.resource_usage.running_jobs == 0
    assert json.loads(encode(message)) == NODE_HEARTBEAT


def test_a_heartbeats_metrics_may_have_any_shape() -> None:
    metrics = {"rerun_metrics": {"total": 1}, "asr_metrics": [1, "two"], "processing_metrics": None}

    message = decode_node(json.dumps({**NODE_HEARTBEAT, **metrics}))

    assert isinstance(message, NodeHeartbeat)
    assert message.asr_metrics == [1, "two"]
    assert json.loads(encode(message)) == without_nulls({**NODE_HEARTBEAT, **metrics})


def test_a_result_is_read_and_its_speech_stays_base64_text() -> None:
    message = decode_node(JOB_RESULT.replace('"tts_audio":""', '"tts_audio":"AAEC"'))

    assert isinstance(message, JobResult)
    assert (message.success, message.text_asr, message.text_translated) == (True, "你好", "hello")
    assert (message.tts_audio, message.extra) == ("AAEC", {"language_probability": 0.9})


def test_a_failed_result_carries_its_error() -> None:
    message = decode_node(FAILED_JOB_RESULT)

    assert isinstance(message, JobResult)
    assert message.success is False
    assert message.text_asr is None
    details = {"service_id": "X", "service_version": "1.0", "reason": "…"}
    assert message.error == JobError(code="MODEL_NOT_AVAILABLE", message="…", details=details)


@pytest.mark.parametrize("frame", [JOB_RESULT, FAILED_JOB_RESULT])
def test_a_result_survives_being_written_again(frame: str) -> None:
    assert json.loads(encode(decode_node(frame))) == json.loads(frame)


def test_every_optional_field_of_a_result_may_be_null() -> None:
    required = {name: json.loads(FAILED_JOB_RESULT)[name] for name in ("type", *REQUIRED_OF_A_RESULT)}
    nulls = {name: None for name in JobResult.__struct_fields__ if name not in required}

    assert decode_node(json.dumps({**required, **nulls})) == decode_node(json.dumps(required))


@pytest.mark.parametrize("name", REQUIRED_OF_A_RESULT)
def test_every_required_field_of_a_result_is_required(name: str) -> None:
    frame = json.loads(JOB_RESULT)
    del frame[name]

    with pytest.raises(UnreadableFrame, match=f'^job_result: field "{name}" is missing$'):
        decode_node(json.dumps(frame))


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"job_ack","job_id":"j","attempt_id":1,"node_id":"n","session_id":"s","trace_id":"t"}',
        '{"type":"job_started","job_id":"j","attempt_id":1,"node_id":"n","session_id":"s","trace_id":"t"}',
        '{"type":"asr_partial","job_id":"j","node_id":"n","session_id":"s","utterance_index":0,"text":"你",'
        '"is_final":false,"trace_id":"t"}',
        '{"type":"node_error","node_id":"n","code":"BRAND_NEW_CODE","message":"m"}',
        '{"type":"node_error","node_id":"n","code":"BRAND_NEW_CODE","message":"m","details":"gpu fell off"}',
    ],
)
def test_every_other_message_of_a_node_is_read_whole(frame: str) -> None:
    assert encode(decode_node(frame)).decode() == frame


def test_a_job_is_written_with_every_promised_field_and_nothing_else() -> None:
    assert encode(job_assign()).decode() == (
        '{"type":"job_assign","job_id":"job-1","attempt_id":1,"session_id":"s-1A2B3C4D","utterance_index":0,'
        '"src_lang":"zh","tgt_lang":"en","pipeline":{"use_asr":true,"use_nmt":true,"use_tts":true,'
        '"use_semantic":true,"use_tone":false},"audio":"AAECAw==","audio_format":"pcm16","sample_rate":16000,'
        '"enable_streaming_asr":false,"partial_update_interval_ms":0,"trace_id":"tr-1","turn_id":"turn-1"}'
    )


def test_a_jobs_marks_are_written_only_when_true() -> None:
    written = json.loads(encode(job_assign(is_manual_cut=True)))

    assert {name: mark for name, mark in written.items() if name.startswith("is_")} == {"is_manual_cut": True}


def test_a_node_reads_the_job_it_was_sent() -> None:
    languages = {"mode": "two_way_auto", "lang_a": "zh", "lang_b": "en", "auto_langs": ["zh", "en"], "dialect": "d"}
    place = {"group_id": "g", "part_index": 0, "context_text": "before", "padding_ms": 220, "start_within_ms": 800}
    marks = {"is_manual_cut": True, "is_timeout_triggered": True, "is_max_duration_triggered": True}
    lid = LanguageCandidates(candidates=["zh", "en"])
    job = job_assign(features={"emotion_detection": True}, lid=lid, **languages, **place, **marks)

    written = json.loads(encode(job))

    assert {"features": {"emotion_detection": True}, **languages, **place, **marks}.items() <= written.items()
    assert written["lid"] == {"candidates": ["zh", "en"]}
    assert decode_for_node(encode(job)) == job


def test_a_jobs_audio_is_an_empty_string_when_it_follows_as_a_binary_frame() -> None:
    job = job_assign()
    job.audio = b""

    assert json.loads(encode(job))["audio"] == ""


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"node_register_ack","node_id":"node-1A2B3C4D","message":"","status":"registering"}',
        '{"type":"node_heartbeat_ack","node_id":"n","timestamp":0}',
        '{"type":"job_cancel","job_id":"j"}',
        '{"type":"job_cancel","job_id":"j","trace_id":"t","reason":"r"}',
        '{"type":"job_grant","job_id":"j","attempt_id":0,"verdict":"stale"}',
        '{"type":"result_ack","job_id":"j","attempt_id":0}',
        '{"type":"node_control","command":"drain"}',
        '{"type":"node_control","command":"drain","reason":"r"}',
        '{"type":"error","code":"NODE_ID_CONFLICT","message":""}',
    ],
)
def test_what_a_node_is_told_has_all_its_required_fields_and_no_empty_optional_ones(frame: str) -> None:
    message = decode_for_node(frame)

    assert message is not None
    assert encode(message).decode() == frame


def test_every_message_of_the_module_belongs_to_a_direction() -> None:
    declared = {
        thing
        for thing in vars(node).values()
        if isinstance(thing, type) and issubclass(thing, Message) and thing is not Message
    }

    assert declared == set(node.NodeIncoming.__args__) | set(node.NodeOutgoing.__args__)
