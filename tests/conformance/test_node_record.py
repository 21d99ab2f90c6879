"""What a node says, frame by frame."""

import json
from typing import Any

import msgspec
import pytest

from lingua_scheduler.conformance.book import Book, CheckVerdict
from lingua_scheduler.conformance.checks import NODE_CHECKS, PeerProfile
from lingua_scheduler.conformance.node_record import JobKey, NodeRecord, pair_of, wrong_in_result
from lingua_sdk.protocol.node import JobAssign, JobResult, NodeRegister
from lingua_sdk.protocol.shapes import JobPipeline
from tests.support.peers import heartbeat, registration, result_of

NODE = "node-1"


class Told:
    """A record that has heard a registration."""

    def __init__(self, **more: Any) -> None:
        self.book = Book(NODE_CHECKS, PeerProfile.STANDARD)
        self.record = NodeRecord(self.book, 0.0)
        self.say(registration(**more))
        self.record.acknowledged(NODE)

    def say(self, frame: dict[str, Any], at_s: float = 0.0) -> None:
        self.record.heard(json.dumps(frame), at_s)

    def assign(self) -> dict[str, Any]:
        job = JobAssign(
            job_id="job-1",
            attempt_id=1,
            session_id="s-1",
            utterance_index=0,
            src_lang="en",
            tgt_lang="zh",
            pipeline=JobPipeline(use_asr=True, use_nmt=True, use_tts=False, use_semantic=False, use_tone=False),
            audio=b"",
            audio_format="pcm16",
            sample_rate=16_000,
            enable_streaming_asr=False,
            partial_update_interval_ms=1_000,
            trace_id="t-1",
            turn_id="turn-1",
        )
        self.record.assigned(job)
        said: dict[str, Any] = msgspec.to_builtins(job)
        return said

    @property
    def failed(self) -> list[str]:
        return self.book.of(CheckVerdict.FAILED)


def test_a_whole_result_passes() -> None:
    told = Told()
    told.say(result_of(told.assign(), NODE))
    assert told.failed == []
    assert "result-ids" in told.book.of(CheckVerdict.PASSED)


@pytest.mark.parametrize("name", ["attempt_id", "session_id", "utterance_index", "trace_id", "node_id"])
def test_each_id_must_be_repeated(name: str) -> None:
    told = Told()
    result = result_of(told.assign(), NODE)
    told.say(result | {name: 7 if isinstance(result[name], int) else "another"})
    assert told.failed == ["result-ids"]


def test_a_second_success_is_a_failure_unless_it_was_not_acknowledged() -> None:
    told = Told(advanced_features=["job_ack"])
    result = result_of(told.assign(), NODE)
    told.record.granted(JobKey("job-1", 1))
    told.say(result)
    told.say(result)
    assert told.failed == []
    told.record.confirmed.add(JobKey("job-1", 1))
    told.say(result)
    assert told.failed == ["answers-once"]


def test_work_before_the_grant_is_found() -> None:
    told = Told(advanced_features=["job_ack"])
    told.say(result_of(told.assign(), NODE))
    assert told.failed == ["waits-for-grant"]


def test_heartbeats_too_far_apart() -> None:
    told = Told(heartbeat_interval_ms=1_000)
    told.say(heartbeat(NODE), 10.0)
    told.say(heartbeat(NODE), 13.0)
    assert told.failed == []
    told.say(heartbeat(NODE), 16.5)
    assert told.failed == ["heartbeat-interval"]


def test_what_cannot_be_read_fails_the_check_of_its_type() -> None:
    told = Told()
    told.say({"type": "job_result"})
    told.record.heard("{", 0.0)
    told.record.heard(b"binary", 0.0)
    assert told.failed == ["readable-frames", "result-fields"]


def test_a_pair_that_the_node_both_hears_and_speaks() -> None:
    said = msgspec.convert({k: v for k, v in registration().items() if k != "type"}, NodeRegister)
    pair = pair_of(said)
    assert pair is not None
    assert set(pair) == {"en", "zh"}
    said.language_capabilities = None
    assert pair_of(said) is None


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"text_asr": "hello"}, ""),
        ({"extra": {"reason": "silence"}}, ""),
        ({}, "neither"),
        ({"text_asr": "hello", "tts_audio": "not base64!"}, "base64"),
    ],
)
def test_what_a_success_must_have(more: dict[str, Any], wrong: str) -> None:
    about = {"job_id": "j", "attempt_id": 1, "node_id": NODE, "session_id": "s", "utterance_index": 0, "success": True}
    found = wrong_in_result(msgspec.convert(about | {"trace_id": "t"} | more, JobResult))
    assert wrong in found
    assert bool(found) is bool(wrong)
