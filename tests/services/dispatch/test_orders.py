"""The order a node gets says what the work says."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.domain.sessions.pseudonyms import Pseudonyms
from lingua_scheduler.domain.sessions.result_groups import Context
from lingua_scheduler.domain.sessions.terms import PipelineTerms, Terms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.dispatch.orders import assignment_of, cancellation_of
from lingua_sdk.protocol import codec

# Nodes as we make them, and nodes that were there before.
OURS = Features(True, True, True, True, True, True)
EXISTING = Features()
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
    sent = msgspec.json.decode(codec.encode(assignment_of(work(audio_ref="s3://calls/7.opus"), ATTEMPT, OURS, 5_000)))
    assert (sent["audio_ref"], sent["audio"], sent["start_within_ms"]) == ("s3://calls/7.opus", "", 5_000)


def test_without_a_reference_none_is_mentioned() -> None:
    assert b"audio_ref" not in codec.encode(assignment_of(work(audio=b"12"), ATTEMPT, OURS, 0))


def sent_to(features: Features, attempt: Attempt = ATTEMPT, renewal: int = 0, **more: object) -> dict[str, Any]:
    order = assignment_of(work(**more), attempt, features, 0, renewal)
    return dict(msgspec.json.decode(codec.encode(order)))


ASKED = Terms(src_lang="auto", tgt_lang="en", mode="two_way_auto", lang_a="zh", lang_b="en", auto_langs=("zh", "en"))
CONTEXT = Context("group_s-1_1", 1, "what was said before")


def test_an_existing_node_gets_no_field_it_would_trip_over() -> None:
    sent = sent_to(EXISTING, terms=ASKED, context=CONTEXT)
    assert {"lid", "context_text", "start_within_ms"}.isdisjoint(sent)
    assert (sent["auto_langs"], sent["lang_a"], sent["lang_b"]) == (["zh", "en"], "zh", "en")
    assert (sent["pipeline"]["use_semantic"], sent["features"]) == (False, {})


def test_a_node_that_announces_them_gets_them_all() -> None:
    sent = sent_to(OURS, terms=ASKED, context=CONTEXT)
    assert (sent["lid"], sent["context_text"]) == ({"candidates": ["zh", "en"]}, "what was said before")
    assert sent["pipeline"]["use_semantic"] is True


@pytest.mark.parametrize("features", [EXISTING, OURS])
@pytest.mark.parametrize("is_wanted", [False, True])
def test_what_a_client_says_of_repairs_holds_for_every_node(features: Features, is_wanted: bool) -> None:
    terms = Terms("en", "zh", pipeline=PipelineTerms(use_semantic=is_wanted))
    assert sent_to(features, terms=terms)["pipeline"]["use_semantic"] is is_wanted


@pytest.mark.parametrize("reason", list(CutReason))
def test_an_existing_node_gets_every_job_as_cut_by_hand_with_a_turn_of_its_own(reason: CutReason) -> None:
    sent = [sent_to(EXISTING, reason=reason, utterance_index=index) for index in (4, 5)]
    assert [job["is_manual_cut"] for job in sent] == [True, True]
    assert [job["turn_id"] for job in sent] == ["u-4", "u-5"]


def test_a_node_that_knows_turns_hears_why_it_was_cut_and_which_parts_belong_together() -> None:
    sent = [sent_to(OURS, reason=reason, utterance_index=reason) for reason in CutReason]
    assert {job["turn_id"] for job in sent} == {"u"}
    flags = ("is_timeout_triggered", "is_max_duration_triggered", "is_manual_cut", "is_max_duration_triggered")
    marks = {name for name in flags if name.startswith("is_")}
    assert [tuple(sorted(marks & set(job))) for job in sent] == [(flag,) for flag in flags]


def test_under_another_job_id_the_session_has_another_name_too() -> None:
    names = [sent_to(EXISTING, renewal=renewal)["session_id"] for renewal in range(3)]
    assert names == ["s-1", "s-1~2", "s-1~3"]
    assert sent_to(EXISTING, renewal=1, node_session_id="s-1-2")["session_id"] == "s-1-2~2"


def test_an_order_says_all_that_the_work_says() -> None:
    terms = Terms(
        *("en", "zh"),
        mode="two_way_auto",
        lang_a="en",
        lang_b="zh",
        auto_langs=("en", "zh"),
        dialect="x",
        features={"emotion_detection": True},
        enable_streaming_asr=True,
        partial_update_interval_ms=700,
        pipeline=PipelineTerms(use_asr=True, use_nmt=True, use_tts=False, use_semantic=None, use_tone=True),
    )
    asked = work(
        utterance_index=3,
        terms=terms,
        audio=b"xyz",
        audio_format="opus",
        sample_rate=48_000,
        padding_ms=40,
        reason=CutReason.TIMEOUT,
        context=Context("g-1", 2, "before"),
    )
    order = assignment_of(asked, ATTEMPT._replace(number=4), OURS, 5_000, 0, "00-trace")
    assert (order.job_id, order.attempt_id, order.session_id, order.utterance_index) == ("job-0-1", 4, "s-1", 3)
    assert (order.src_lang, order.tgt_lang, order.mode, order.dialect) == ("en", "zh", "two_way_auto", "x")
    assert (order.lang_a, order.lang_b, order.auto_langs) == ("en", "zh", ["en", "zh"])
    assert order.lid is not None
    assert order.lid.candidates == ["en", "zh"]
    assert (order.audio, order.audio_format, order.sample_rate, order.padding_ms) == (b"xyz", "opus", 48_000, 40)
    assert (order.enable_streaming_asr, order.partial_update_interval_ms) == (True, 700)
    assert (order.group_id, order.part_index, order.context_text) == ("g-1", 2, "before")
    assert (order.is_manual_cut, order.is_timeout_triggered, order.is_max_duration_triggered) == (False, True, False)
    assert (order.trace_id, order.turn_id, order.traceparent, order.start_within_ms) == ("t", "u", "00-trace", 5_000)
    assert (order.features, order.audio_ref) == ({"emotion_detection": True}, None)
    pipeline = order.pipeline
    assert (pipeline.use_asr, pipeline.use_nmt, pipeline.use_tts, pipeline.use_tone) == (True, True, False, True)


def test_what_the_work_does_not_say_is_left_out() -> None:
    order = assignment_of(work(), ATTEMPT, OURS, 0, 0, None)
    assert (order.lang_a, order.lang_b, order.auto_langs, order.lid, order.dialect) == (None,) * 5
    assert (order.group_id, order.part_index, order.context_text) == (None, None, None)
    assert (order.start_within_ms, order.traceparent, order.features) == (None, None, {})


NAMES = Pseudonyms(b"k" * 32, "s-1")
OTHER = ATTEMPT._replace(node_id="node-b")


def of_session(attempt: Attempt = ATTEMPT, features: Features = OURS, **more: Any) -> dict[str, Any]:
    return sent_to(features, attempt, names=NAMES, trace_id="client-trace", turn_id="7", **more)


def test_a_node_knows_a_session_by_names_of_its_own() -> None:
    known, context = NAMES.at("node-a"), CONTEXT._replace(heard_at="node-a")
    sent = of_session(context=context)
    assert (sent["session_id"], sent["trace_id"]) == (known.session_id, known.trace_id)
    assert (sent["turn_id"], sent["group_id"]) == (f"{known.turn}7", known.group(context.group_id))
    assert of_session(features=EXISTING, utterance_index=4)["turn_id"] == f"{known.turn}7-4"
    assert of_session(renewal=1)["session_id"] == f"{known.session_id}~2"
    named = ("session_id", "trace_id", "turn_id", "group_id")
    assert {sent[name] for name in named}.isdisjoint(of_session(OTHER, context=context)[name] for name in named)


def test_a_node_that_loses_a_job_hears_its_own_name_of_the_trace() -> None:
    cancel = cancellation_of(work(names=NAMES, trace_id="client-trace"), OTHER, "cancelled")
    assert (cancel.job_id, cancel.trace_id, cancel.reason) == ("job-0-1", NAMES.at("node-b").trace_id, "cancelled")
    assert cancellation_of(work(), OTHER, "cancelled").trace_id == "t", "a call has ids of its own"


def test_while_tracing_is_on_a_node_gets_the_id_of_the_trace_and_not_that_of_the_client() -> None:
    class OfTrace:
        trace_id = "of-the-trace"

    assert of_session(trail=OfTrace())["trace_id"] == "of-the-trace"
    assert cancellation_of(work(names=NAMES, trail=OfTrace()), ATTEMPT, "").trace_id == "of-the-trace"


@pytest.mark.parametrize(("heard_at", "gets_it"), [("node-a", True), ("node-b", False), ("", False), (None, True)])
def test_the_words_before_go_to_the_node_that_recognised_them(heard_at: str | None, gets_it: bool) -> None:
    sent = of_session(context=CONTEXT._replace(heard_at=heard_at))
    assert sent.get("context_text") == (CONTEXT.text if gets_it else None)
    assert sent["part_index"] == CONTEXT.part_index


def test_text_goes_instead_of_audio_and_only_if_there_is_some() -> None:
    spoken = PipelineTerms(use_asr=False, use_semantic=False)
    sent = sent_to(OURS, text="你好", terms=Terms("zh", "en", pipeline=spoken), pools=("text/zh:en:speech",))
    assert (sent["text_input"], sent["audio"]) == ("你好", "")
    assert (sent["pipeline"]["use_asr"], sent["pipeline"]["use_semantic"], sent["pipeline"]["use_nmt"]) == (
        False,
        False,
        True,
    )
    assert "text_input" not in sent_to(OURS, audio=b"12")


def test_a_branch_of_an_utterance_has_a_session_of_its_own_at_the_node() -> None:
    assert sent_to(OURS, branch="pt")["session_id"] == "s-1~pt"
    assert sent_to(OURS, branch="pt", renewal=1)["session_id"] == "s-1~pt~2"
    assert sent_to(OURS, branch="pt")["turn_id"] == "u~pt"
    assert sent_to(OURS)["session_id"] == "s-1"
