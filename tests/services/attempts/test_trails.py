"""The spans of an utterance, a call and a relayed job: when each begins and ends, and what it tells."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.services.attempts import trails
from lingua_scheduler.services.attempts.reports import LostAttempt, answered
from lingua_scheduler.services.attempts.trails import Trails
from lingua_scheduler.telemetry.traces import Kind, Traces
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import JobResult
from lingua_sdk.protocol.shapes import JobError

WALL_MS = 1_700_000_000_000.0
ATTEMPT = Attempt("job-1", 2, "n1", 0)
OF_ATTEMPT = {"lingua.job_id": "job-1", "lingua.attempt": 2, "lingua.node_id": "n1"}


class FakeSpan:
    def __init__(self, name: str, kind: Kind, start_ns: int, parent: Any, about: Mapping[str, Any]) -> None:
        self.name, self.kind, self.start_ns, self.parent = name, kind, start_ns, parent
        self.about = dict(about)
        self.end_ns = 0
        self.failed = False
        self.records = True

    def is_recording(self) -> bool:
        return self.records


class FakeTraces:
    def __init__(self) -> None:
        self.spans: list[FakeSpan] = []
        self.records = True

    def begin(self, name: str, kind: Kind, start_ns: int, parent: Any, attributes: Any = None) -> FakeSpan:
        span = FakeSpan(name, kind, start_ns, parent, attributes or {})
        span.records = self.records
        self.spans.append(span)
        return span

    def end(self, span: FakeSpan, end_ns: int, attributes: Mapping[str, Any], *, failed: bool = False) -> None:
        span.end_ns, span.failed = end_ns, failed
        span.about |= attributes

    def traceparent(self, span: FakeSpan) -> str:
        return f"parent of {span.name}"

    def trace_id(self, span: FakeSpan) -> str:
        return f"id of {span.name}"


class Bench:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.traces = FakeTraces()
        self.trails = Trails(cast("Traces", self.traces), "i1", lambda: self.now_s)
        self.offset_ms = WALL_MS - 100_000
        # The wall clock is read when a trail begins, while the bench's clock is at 100 s.
        monkeypatch.setattr(trails, "wall_ms", lambda: WALL_MS)

    def told(self) -> list[tuple[str, float, float, bool, dict[str, Any]]]:
        """Of each span that ended: its name, begin and end by the bench's clock, whether it failed, its attributes."""
        return [
            (one.name, self._s(one.start_ns), self._s(one.end_ns), one.failed, one.about)
            for one in self.traces.spans
            if one.end_ns
        ]

    def _s(self, at_ns: int) -> float:
        return round((at_ns / 1e6 - self.offset_ms) / 1000, 1)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def result(success: bool = True, **more: Any) -> JobResult:
    about: dict[str, Any] = {
        "job_id": "job-1",
        "attempt_id": 2,
        "node_id": "n1",
        "session_id": "s",
        "utterance_index": 0,
    }
    return JobResult(**(about | {"trace_id": "t", "success": success} | more))


def test_an_utterance_is_cut_queued_sent_worked_on_and_delivered(bench: Bench) -> None:
    trail = bench.trails.utterance(98.0, 100.0, {"lingua.pair": "en:zh"})
    assert trail.trace_id == "id of utterance"
    bench.now_s = 101.0
    trail.wants_slot(2)
    bench.now_s = 102.0
    trail.places()
    bench.now_s = 103.0
    assert trail.leaves(ATTEMPT) == "parent of attempt"
    bench.now_s = 104.0
    trail.sent()
    bench.now_s = 105.0
    said = {"asr_ms": 5, "nmt_ms": -1, "tts_ms": 1e12}
    trail.reported(answered(result(text_asr="secret", extra={"service_timings": said})))
    bench.now_s = 106.0
    trail.settled(JobState.DONE, None, "job-1")
    bench.now_s = 107.0
    trail.left(is_late=False, is_heard=True)
    figures = {"lingua.node.asr_ms": 5.0, "lingua.node.nmt_ms": 0.0, "lingua.node.tts_ms": 1e9}
    assert bench.told() == [
        (
            *("utterance", 98.0, 107.0, False),
            {
                "lingua.instance": "i1",
                "lingua.pair": "en:zh",
                "lingua.outcome": "DONE",
                "lingua.job_id": "job-1",
                "lingua.delivery": "sent",
            },
        ),
        ("attempt", 103.0, 105.0, False, {**OF_ATTEMPT, "lingua.outcome": "DONE", **figures}),
        ("cut", 98.0, 100.0, False, {}),
        ("queue", 101.0, 102.0, False, {"lingua.attempt": 2}),
        ("dispatch", 102.0, 104.0, False, {"lingua.attempt": 2}),
        ("delivery", 106.0, 107.0, False, {"lingua.delivery": "sent"}),
    ]
    root, attempt, *others = bench.traces.spans
    assert (root.kind, root.parent, attempt.kind, attempt.parent) == (Kind.SERVER, None, Kind.CLIENT, root)
    assert {(one.kind, one.parent) for one in others} == {(Kind.INTERNAL, root)}


def test_a_call_has_its_callers_trace_and_nothing_is_cut_or_delivered(bench: Bench) -> None:
    carrier = {"traceparent": "theirs"}
    trail = bench.trails.call(carrier, {"lingua.kind": "http"})
    bench.now_s = 101.0
    trail.wants_slot(1)
    bench.now_s = 103.0
    trail.settled(JobState.FAILED, ErrorCode.NO_AVAILABLE_NODE, "job-9")
    bench.now_s = 104.0
    trail.finish()
    outcome = {"lingua.outcome": "FAILED", "lingua.job_id": "job-9", "lingua.error": "NO_AVAILABLE_NODE"}
    assert bench.told() == [
        ("call", 100.0, 104.0, True, {"lingua.instance": "i1", "lingua.kind": "http", **outcome}),
        # It waited until there was an outcome.
        ("queue", 101.0, 103.0, False, {"lingua.attempt": 1}),
    ]
    assert bench.traces.spans[0].parent == carrier


def test_what_stops_before_an_outcome_is_abandoned(bench: Bench) -> None:
    trail = bench.trails.utterance(100.0, 100.0, {})
    bench.now_s = 102.0
    trail.finish()
    assert bench.told() == [("utterance", 100.0, 102.0, True, {"lingua.instance": "i1", "lingua.outcome": "abandoned"})]


def test_an_attempt_that_was_placed_and_not_sent_failed_and_one_back_in_line_was_not_placed(bench: Bench) -> None:
    trail = bench.trails.utterance(100.0, 100.0, {})
    trail.wants_slot(1)
    bench.now_s = 101.0
    trail.places()
    bench.now_s = 102.0
    trail.reported(LostAttempt("node_gone"))
    trail.wants_slot(2)
    bench.now_s = 103.0
    trail.places()
    trail.waits()
    bench.now_s = 104.0
    trail.settled(JobState.CANCELLED, None, "job-1")
    trail.finish()
    assert bench.told()[1:] == [
        ("queue", 100.0, 101.0, False, {"lingua.attempt": 1}),
        ("dispatch", 101.0, 102.0, True, {"lingua.attempt": 1, "lingua.outcome": "node_gone"}),
        ("queue", 102.0, 104.0, False, {"lingua.attempt": 2}),
    ]


def test_a_failed_result_tells_a_code_of_ours_and_never_the_nodes_words(bench: Bench) -> None:
    for code, shown in (("TTS_FAILED", None), ("secret words", "other"), (None, "other")):
        bench.traces.spans.clear()
        trail = bench.trails.utterance(100.0, 100.0, {})
        trail.wants_slot(2)
        trail.leaves(ATTEMPT)
        error = JobError(code=code or "", message="secret")
        trail.reported(answered(result(success=False, error=error)))
        trail.finish()
        attempt = next(one for one in bench.traces.spans if one.name == "attempt")
        assert attempt.failed
        known = code if code in ErrorCode.__members__ else "other"
        assert attempt.about["lingua.error"] == (shown or known)
        assert "secret" not in str(attempt.about)


@pytest.mark.parametrize(
    ("is_late", "is_heard", "delivery"),
    [(True, True, "late"), (False, True, "sent"), (True, False, "parked"), (False, False, "parked")],
)
def test_how_the_answer_left(bench: Bench, is_late: bool, is_heard: bool, delivery: str) -> None:
    trail = bench.trails.utterance(100.0, 100.0, {})
    trail.left(is_late=is_late, is_heard=is_heard)
    assert bench.told()[0][4]["lingua.delivery"] == delivery


def test_a_trace_that_is_not_sampled_makes_no_spans_but_is_passed_on(bench: Bench) -> None:
    bench.traces.records = False
    trail = bench.trails.utterance(98.0, 100.0, {})
    trail.wants_slot(2)
    assert trail.leaves(ATTEMPT) == "parent of utterance"
    trail.reported(LostAttempt("node_gone"))
    trail.left(is_late=False, is_heard=True)
    bench.trails.passage("theirs", ATTEMPT, "i2").ended("result")
    assert [one.name for one in bench.traces.spans] == ["utterance", "relay"]


# Jobs of another instance


def test_a_relayed_job_tells_the_node_s_part_and_the_way_back(bench: Bench) -> None:
    passage = bench.trails.passage("theirs", ATTEMPT, "i2")
    bench.now_s = 101.0
    passage.sent()
    bench.now_s = 102.0
    passage.came()
    bench.now_s = 103.0
    passage.ended("result")
    about = {**OF_ATTEMPT, "lingua.instance": "i1", "lingua.sender": "i2", "lingua.outcome": "result"}
    assert bench.told() == [
        ("relay", 100.0, 103.0, False, about),
        ("relay.node", 101.0, 102.0, False, {}),
        ("relay.reply", 102.0, 103.0, False, {}),
    ]
    relay, *parts = bench.traces.spans
    assert (relay.kind, relay.parent) == (Kind.CONSUMER, {"traceparent": "theirs"})
    assert {(one.kind, one.parent) for one in parts} == {(Kind.INTERNAL, relay)}


def test_a_relayed_job_that_never_came_back_failed(bench: Bench) -> None:
    passage = bench.trails.passage("theirs", ATTEMPT, "i2")
    bench.now_s = 101.0
    passage.sent()
    bench.now_s = 103.0
    passage.ended("node_gone")
    told = [(name, began, ended, failed) for name, began, ended, failed, _ in bench.told()]
    assert told == [("relay", 100.0, 103.0, True), ("relay.node", 101.0, 103.0, False)]
    bench.traces.spans.clear()
    bench.trails.passage("theirs", ATTEMPT, "i2").ended("refused")
    assert [one.name for one in bench.traces.spans] == ["relay"]


def test_each_of_several_jobs_has_a_span_under_that_of_the_utterance(bench: Bench) -> None:
    trail = bench.trails.utterance(90.0, 95.0, {})
    stage = trail.stage({"lingua.tgt_lang": "pt"})
    bench.now_s = 101.0
    stage.settled(JobState.DONE, None, "job-1")
    stage.finish()
    name, began_s, ended_s, failed, about = bench.told()[0]
    assert (name, began_s, ended_s, failed) == ("job", 100.0, 101.0, False)
    assert about == {"lingua.tgt_lang": "pt", "lingua.outcome": "DONE", "lingua.job_id": "job-1"}
    assert bench.traces.spans[1].parent is bench.traces.spans[0]
