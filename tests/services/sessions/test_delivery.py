"""What reaches a client of an utterance, and what reaches nobody."""

from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.sessions.conversation import Conversation, UtteranceEntry
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import Cut, CutReason
from lingua_scheduler.services.attempts.assignments import Assignment, Assignments, AttemptStep
from lingua_scheduler.services.attempts.counts import Books
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.sessions.delivery import Delivery
from lingua_scheduler.services.sessions.sessions import Session, Sessions
from lingua_scheduler.setting_sections.sessions import DeliverySettings, SessionsSettings
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol import node as from_node
from lingua_sdk.protocol.session import AsrPartial, MissingResult, TranslationResult, UiEvent
from lingua_sdk.protocol.shapes import Message
from tests.services.sessions.test_sessions import INIT, Listener
from tests.support.speech import work

PARTIAL = from_node.AsrPartial(
    node_id="n1",
    job_id="job-0-1",
    session_id="s",
    utterance_index=0,
    trace_id="t",
    text="hel",
    is_final=False,
)


class Ear(Listener):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Message] = []

    def post(self, message: Message) -> bool:
        self.messages.append(message)
        return True


def scene() -> tuple[Delivery, Sessions, Session, Ear]:
    sessions = Sessions(SessionsSettings(), DeliverySettings(), 10)
    session = sessions.make(INIT, Terms("en", "zh"), "i-here 1")
    sessions.add(session)
    ear = Ear()
    session.attach(ear)
    books = cast("Books", cast("Any", None))
    return Delivery(sessions, books, tells_steps=False, silent_hold_ms=1_000), sessions, session, ear


def test_a_partial_goes_to_the_session_whose_utterance_it_is() -> None:
    delivery, _, session, ear = scene()
    delivery.partial(work(session_id=session.session_id), PARTIAL)
    (heard,) = ear.messages
    assert isinstance(heard, AsrPartial)
    assert (heard.session_id, heard.job_id, heard.text) == (session.session_id, "job-0-1", "hel")
    assert heard.trace_id == "t", "the client's own, and not what the node calls it"


def test_a_partial_for_a_session_that_is_gone_or_for_a_call_of_its_name_goes_nowhere() -> None:
    delivery, sessions, session, ear = scene()
    delivery.partial(work(session_id=session.session_id, is_call=True), PARTIAL)
    sessions.drop(session)
    delivery.partial(work(session_id=session.session_id), PARTIAL)
    assert ear.messages == []


# Outcomes


def outcome(state: JobState = JobState.DONE, **more: Any) -> Outcome:
    return Outcome(state, "job-0-1", **more)


def result(**more: Any) -> from_node.JobResult:
    said: dict[str, Any] = {"text_asr": "hello", "text_translated": "你好", "tts_audio": "QUJD", "tts_format": "opus"}
    said["node_id"] = "n1"
    return from_node.JobResult(
        job_id="job-0-1",
        attempt_id=1,
        session_id="s",
        utterance_index=0,
        success=True,
        trace_id="t-node",
        **said | more,
    )


def settling(session: Session, ear: Ear, tells_steps: bool = False) -> tuple[Delivery, Books]:
    sessions = Sessions(SessionsSettings(), DeliverySettings(), 10)
    sessions.add(session)
    books = Books(10_000, "i", lambda _failure, _session_id: None)
    return Delivery(sessions, books, tells_steps, silent_hold_ms=700, clock=lambda: 100.0), books


def spoken(session: Session, index: int = 0) -> Work:
    assert session.conversation.utterance(index) is UtteranceEntry.TAKEN
    return work(session_id=session.session_id, utterance_index=index, trace_id=f"trace-{index}", said_at_s=99.0)


def test_a_translation_says_what_the_node_said_and_is_counted() -> None:
    _, _, session, ear = scene()
    delivery, books = settling(session, ear)
    session.uplink_ms = 5
    extra = {"emotion": "calm", "secret": "of the node", "service_timings": {"asr_ms": 1}}
    said = result(extra=extra, quality_score=0.5, rerun_count=2, reason_codes=["r"], processing_time_ms=100)
    work, ended = spoken(session), outcome(result=said, away_ms=150.0)
    delivery.count(work, ended)
    (left,) = delivery.settle(session, work, ended)
    assert ear.messages == [left]
    assert isinstance(left, TranslationResult)
    assert (left.text_asr, left.text_translated, left.tts_audio, left.tts_format) == ("hello", "你好", "QUJD", "opus")
    assert (left.session_id, left.job_id, left.trace_id) == (session.session_id, "job-0-1", "trace-0")
    assert left.extra == {"emotion": "calm", "service_timings": {"asr_ms": 1}}
    assert (left.quality_score, left.rerun_count, left.reason_codes) == (0.5, 2, ["r"])
    assert left.service_timings is not None
    assert left.service_timings.asr_ms == 1
    assert left.network_timings is not None
    assert left.network_timings.web_to_scheduler_ms == 5
    assert left.scheduler_sent_at_ms > 0
    assert left.group_id
    assert not left.late
    assert session.playing == ("job-0-1", 0)
    assert (books.jobs_ended["DONE"], list(books.slow)) == (1, [])


def test_a_translation_without_texts_has_none() -> None:
    _, _, session, ear = scene()
    delivery, _ = settling(session, ear)
    said = result(text_asr=None, text_translated=None, tts_audio=None, tts_format=None)
    (left,) = delivery.settle(session, spoken(session), outcome(result=said))
    assert isinstance(left, TranslationResult)
    assert (left.text_asr, left.text_translated, left.tts_audio, left.tts_format) == ("", "", "", "pcm16")
    assert (left.extra, left.group_id) == (None, None)


@pytest.mark.parametrize(
    ("ended", "reason", "event"),
    [
        (outcome(JobState.NO_TEXT), "no_text", None),
        (
            outcome(JobState.FAILED, error=ErrorCode.JOB_TIMEOUT, detail="d"),
            "job_failed",
            ("ERROR", "error", "JOB_TIMEOUT", "d"),
        ),
        (
            outcome(JobState.FAILED, error=ErrorCode.NO_CAPABLE_NODE, detail="d"),
            "job_failed",
            ("ERROR", "error", "NO_CAPABLE_NODE", "d"),
        ),
        (outcome(JobState.CANCELLED, detail="d"), "job_failed", ("INPUT_ENDED", "ok", None, "d")),
    ],
)
def test_an_utterance_without_a_translation_says_why(ended: Outcome, reason: str, event: Any) -> None:
    _, _, session, ear = scene()
    delivery, _ = settling(session, ear)
    (left,) = delivery.settle(session, spoken(session), ended)
    assert isinstance(left, MissingResult)
    assert (left.reason, left.utterance_index, left.trace_id) == (reason, 0, "trace-0")
    assert left.created_at_ms > 0
    events = [message for message in ear.messages if isinstance(message, UiEvent)]
    told = [(one.event, one.status, one.error_code, one.hint) for one in events]
    assert told == ([event] if event else [])
    assert all((one.trace_id, one.job_id, one.utterance_index) == ("trace-0", "job-0-1", 0) for one in events)
    assert session.playing is None


def test_outcomes_leave_in_order_and_one_that_was_overtaken_says_so() -> None:
    _, _, session, ear = scene()
    delivery, _ = settling(session, ear)
    first, second = spoken(session, 0), spoken(session, 1)
    assert delivery.settle(session, second, outcome(result=result())) == []
    due = session.conversation.tick(1e9)
    assert [answer.utterance_index for answer in delivery.release(session, due.released)] == [1]
    (late,) = delivery.settle(session, first, outcome(result=result()))
    assert (late.utterance_index, late.late) == (0, True)


def test_silence_needs_no_job() -> None:
    _, _, session, ear = scene()
    delivery, _ = settling(session, ear)
    session.conversation.utterance(0)
    (left,) = delivery.silence(session, 0)
    assert isinstance(left, MissingResult)
    assert (left.reason, left.trace_id) == ("silence_detected", session.trace_id)
    assert ear.messages == [left]


# Steps


def assignment_of(asked: Work, node_id: str = "n1", acknowledges: bool = False) -> Assignment:
    attempts = Assignments(lambda _step, _assignment: None)
    attempt = Attempt(f"job-0-{asked.utterance_index}", 1, node_id, 0)
    return attempts.open(attempt, asked, "i-here", acknowledges)


def events_of(ear: Ear) -> list[tuple[str, int, str, float | None]]:
    return [
        (one.event, one.utterance_index, one.job_id, one.elapsed_ms) for one in ear.messages if isinstance(one, UiEvent)
    ]


@pytest.mark.parametrize("tells_steps", [True, False])
def test_steps_are_told_if_they_are_asked_for(tells_steps: bool) -> None:
    _, _, session, ear = scene()
    delivery, _ = settling(session, ear, tells_steps)
    asked = spoken(session)
    delivery.step(AttemptStep.ACCEPTED, assignment_of(asked, acknowledges=True))
    delivery.partial(asked, PARTIAL)
    delivery.partial(asked, msgspec.structs.replace(PARTIAL, is_final=True))
    delivery.input_started(session)
    delivery.input_ended(session, Cut(0, 0, b"", 40, CutReason.IS_FINAL, 0))
    delivery.playback(session, "TTS_PLAY_STARTED")
    session.playing = "job-0-1", 0
    delivery.playback(session, "TTS_PLAY_ENDED")
    expected = [
        ("NODE_ACCEPTED", 0, "job-0-0", 1000),
        ("ASR_FINAL", 0, "job-0-1", 1000),
        ("INPUT_STARTED", 1, "", None),
        ("INPUT_ENDED", 0, "", 40),
        ("TTS_PLAY_ENDED", 0, "job-0-1", None),
    ]
    assert events_of(ear) == (expected if tells_steps else [])
    assert session.away == {}
    assert len([one for one in ear.messages if isinstance(one, AsrPartial)]) == 2


def test_what_an_existing_node_answers_later_hurries_what_it_was_given_before(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, session, ear = scene()
    delivery, _ = settling(session, ear)
    asked = [spoken(session, index) for index in range(4)]
    held: list[tuple[int, int]] = []
    monkeypatch.setattr(Conversation, "hold_at_most", lambda _, index, hold_ms: held.append((index, hold_ms)))
    for one, node_id in zip(asked, ("n1", "n2", "n1", "n1"), strict=True):
        delivery.step(AttemptStep.DISPATCHED, assignment_of(one, node_id))
    assert set(session.away) == {0, 1, 2, 3}
    delivery.settle(session, asked[3], outcome(JobState.FAILED, error=ErrorCode.JOB_TIMEOUT))
    assert held == []
    delivery.settle(session, asked[2], outcome(result=result()))
    assert held == [(0, 700)]
    assert set(session.away) == {0, 1}
    # What has its outcome is not waited for.
    delivery.settle(session, asked[0], outcome(result=result()))
    delivery.step(AttemptStep.DISPATCHED, assignment_of(asked[0]))
    assert set(session.away) == {1}


@pytest.mark.parametrize(("shares", "words"), [(False, ("three", "n2")), (True, ("one two three", None))])
def test_the_words_before_an_utterance_are_those_of_the_node_that_recognised_them(
    shares: bool, words: tuple[str, str | None]
) -> None:
    _, _, session, ear = scene()
    delivery, _ = settling(session, ear)
    delivery.shares_context = shares
    first, second, third = (spoken(session, index) for index in range(3))
    # They leave in order, whichever came first.
    delivery.settle(session, third, outcome(result=result(text_asr="three", node_id="n2")))
    delivery.settle(session, first, outcome(result=result(text_asr="one", node_id="n1")))
    delivery.settle(session, second, outcome(result=result(text_asr="two", node_id="n1")))
    context = session.conversation.context(wall_ms())
    assert context is not None
    assert (context.text, context.heard_at) == words
    assert session.heard_at == {}
