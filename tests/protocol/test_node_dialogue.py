"""What a node may say when: legal messages, and the order in which reports are put to Redis."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.protocol.node_dialogue import MAX_UNDER_WAY, NodeDialogue
from lingua_sdk.protocol.node import (
    AsrPartial,
    JobAck,
    JobResult,
    JobStarted,
    NodeError,
    NodeHeartbeat,
    NodeIncoming,
    ResourceUsage,
)

Report = JobAck | JobStarted | JobResult


def ack(job_id: str) -> JobAck:
    return JobAck(job_id=job_id, attempt_id=1, node_id="n", session_id="s", trace_id="t")


def started(job_id: str) -> JobStarted:
    return JobStarted(job_id=job_id, attempt_id=1, node_id="n", session_id="s", trace_id="t")


def result(job_id: str) -> JobResult:
    return JobResult(
        job_id=job_id, attempt_id=1, node_id="n", session_id="s", utterance_index=0, success=True, trace_id="t"
    )


def partial(job_id: str) -> AsrPartial:
    return AsrPartial(
        job_id=job_id, node_id="n", session_id="s", utterance_index=0, text="x", is_final=False, trace_id="t"
    )


HEARTBEAT = NodeHeartbeat(
    node_id="n",
    timestamp=0,
    resource_usage=ResourceUsage(cpu_percent=0, mem_percent=0, running_jobs=0),
    installed_services=[],
    capability_by_type=[],
)
ERROR = NodeError(node_id="n", code="c", message="m")
REPORTS: list[Callable[[str], NodeIncoming]] = [ack, started, result, partial]


def registered() -> NodeDialogue:
    dialogue = NodeDialogue()
    dialogue.is_registered = True
    return dialogue


@pytest.mark.parametrize("message", [ERROR, *(report("j") for report in REPORTS)])
def test_before_it_has_registered_a_node_may_only_register_and_beat(message: NodeIncoming) -> None:
    assert NodeDialogue().refusal(message) == "not registered: send node_register before messages about jobs"
    assert not NodeDialogue().passes(message)
    assert registered().refusal(message) is None


def test_a_node_that_comes_back_may_beat_before_it_registers() -> None:
    assert NodeDialogue().refusal(HEARTBEAT) is None


@pytest.mark.parametrize("report", REPORTS)
def test_reports_about_jobs_pass_at_once(report: Callable[[str], NodeIncoming]) -> None:
    assert registered().passes(report("j"))


@pytest.mark.parametrize("message", [HEARTBEAT, ERROR])
def test_everything_else_waits_in_line(message: NodeIncoming) -> None:
    assert not registered().passes(message)


@pytest.mark.parametrize("report", REPORTS)
def test_the_reports_of_a_job_wait_while_its_acknowledgement_is_unanswered(
    report: Callable[[str], NodeIncoming],
) -> None:
    dialogue = registered()
    dialogue.asked(ack("j"))
    assert not dialogue.passes(report("j"))
    assert dialogue.passes(report("other"))
    dialogue.answered(ack("j"))
    assert dialogue.passes(report("j"))


def test_a_result_may_overtake_the_start_of_its_job() -> None:
    dialogue = registered()
    dialogue.asked(started("j"))
    assert dialogue.passes(result("j"))
    dialogue.answered(started("j"))
    assert dialogue.under_way == 0


def test_so_many_may_be_under_way_and_no_more() -> None:
    dialogue = registered()
    for number in range(MAX_UNDER_WAY):
        assert dialogue.is_open
        dialogue.asked(result(f"j{number}"))
    assert not dialogue.is_open
    assert not dialogue.passes(result("more"))
    dialogue.answered(result("j0"))
    assert dialogue.passes(result("more"))


@given(st.lists(st.tuples(st.sampled_from([ack, started, result]), st.sampled_from("abc"), st.booleans())))
def test_whatever_is_said_no_report_passes_an_unanswered_acknowledgement(
    said: list[tuple[Callable[[str], Report], str, bool]],
) -> None:
    dialogue, open_reports = registered(), list[Report]()
    for make, job_id, answers_first in said:
        if answers_first and open_reports:
            dialogue.answered(open_reports.pop(0))
        report = make(job_id)
        is_held = any(isinstance(other, JobAck) and other.job_id == job_id for other in open_reports)
        assert dialogue.passes(report) is not is_held
        if not is_held:
            dialogue.asked(report)
            open_reports.append(report)
        assert dialogue.under_way == len(open_reports)
