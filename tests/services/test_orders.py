"""The order a node gets says what the work says."""

import msgspec

from lingua_scheduler.domain.attempts import Attempt
from lingua_scheduler.domain.terms import Terms
from lingua_scheduler.domain.utterances import CutReason
from lingua_scheduler.protocol import codec
from lingua_scheduler.services.orders import assignment_of
from lingua_scheduler.services.work import Work

ATTEMPT = Attempt("job-0-1", 1, "node-a", 0)


def work(**more: object) -> Work:
    fields: dict[str, object] = {
        "session_id": "s-1",
        "utterance_index": 0,
        "terms": Terms(src_lang="en", tgt_lang="zh"),
        "pools": ("en:zh:speech",),
        "audio": b"",
        "audio_format": "pcm16",
        "sample_rate": 16_000,
        "duration_ms": 0,
        "trace_id": "t",
        "turn_id": "u",
        "reason": CutReason.IS_FINAL,
        "padding_ms": 0,
    }
    return Work(**(fields | more))  # type: ignore[arg-type]


def test_a_reference_to_audio_is_passed_through() -> None:
    sent = msgspec.json.decode(codec.encode(assignment_of(work(audio_ref="s3://calls/7.opus"), ATTEMPT, 5_000)))
    assert (sent["audio_ref"], sent["audio"], sent["start_within_ms"]) == ("s3://calls/7.opus", "", 5_000)


def test_without_a_reference_none_is_mentioned() -> None:
    assert b"audio_ref" not in codec.encode(assignment_of(work(audio=b"12"), ATTEMPT, 0))
