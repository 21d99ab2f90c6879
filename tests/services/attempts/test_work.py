"""Values of a job: its binding as text, what a trace tells of it, and why there is no translation."""

import msgspec
import pytest

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.services.attempts.work import Binding, Outcome, Work, attributes_of, cause_of
from lingua_sdk.domain.errors import ErrorCode

WORK = Work("s-1", 3, Terms("en", "zh"), ("en:zh:speech",), b"x", "pcm16", 16_000, 900, "t", "t", CutReason.IS_FINAL, 0)


def test_work_is_speech_of_a_session_unless_it_says_otherwise() -> None:
    assert not WORK.is_call
    assert not WORK.is_adopted
    assert (WORK.node_session_id, WORK.secret, WORK.wait_s) == ("", "", None)


def test_a_binding_is_read_as_it_was_written() -> None:
    assert str(Binding("n 1", 7)) == "n 1 7"
    assert str(Binding()) == ""
    assert (Binding().node_id, Binding().shard) == ("", -1)
    found = Binding.parse("n1 7")
    assert found is not None
    assert (found.node_id, found.shard) == ("n1", 7)


@pytest.mark.parametrize("text", ["", "n1", "n1 ", "n1 x", "n1 -1"])
def test_a_binding_that_cannot_be_read_is_none(text: str) -> None:
    assert Binding.parse(text) is None


@pytest.mark.parametrize("reason", CutReason)
def test_more_of_the_turn_follows_when_it_was_cut_for_its_length(reason: CutReason) -> None:
    is_part = msgspec.structs.replace(WORK, reason=reason).is_part
    assert is_part is (reason in (CutReason.MAX_DURATION, CutReason.MAX_LENGTH))


def test_a_trace_is_told_neither_speech_nor_text() -> None:
    assert attributes_of(WORK) == {
        "lingua.session_id": "s-1",
        "lingua.utterance_index": 3,
        "lingua.src_lang": "en",
        "lingua.tgt_lang": "zh",
        "lingua.audio_ms": 900,
        "lingua.cut_reason": "is_final",
    }


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        (Outcome(JobState.CANCELLED, "j", detail="the caller left"), (ErrorCode.JOB_CANCELLED, "the caller left")),
        (
            Outcome(JobState.FAILED, "j", error=ErrorCode.JOB_TIMEOUT, detail="too long"),
            (ErrorCode.JOB_TIMEOUT, "too long"),
        ),
        (Outcome(JobState.NO_TEXT, "j", detail="silence"), (None, None)),
    ],
)
def test_the_cause_of_an_outcome_without_a_translation(
    outcome: Outcome, cause: tuple[ErrorCode | None, str | None]
) -> None:
    assert cause_of(outcome) == cause
