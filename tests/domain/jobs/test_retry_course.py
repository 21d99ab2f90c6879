"""The retry policy, rule by rule: which event leads to which decision, and that every course ends."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, Try
from lingua_scheduler.domain.jobs.jobs import JobEvent, JobState
from lingua_scheduler.domain.jobs.retry_budget import RetryBudget
from lingua_scheduler.domain.jobs.retry_course import (
    MAX_RESTARTS,
    MAX_UNSENT,
    RETURNS,
    SILENCE,
    VANISHED,
    IllegalEvent,
    Phase,
    RetryCourse,
    RetryRules,
)
from lingua_scheduler.domain.jobs.retry_steps import (
    AWAY,
    REFUSED,
    RESULT_LOST,
    Denial,
    End,
    GiveUp,
    PlaceJob,
    PlaceWhenBack,
    Renew,
    Renewal,
)
from lingua_sdk.domain.errors import RETRYABLE, ErrorCode
from lingua_sdk.domain.losses import OTHER, REASONS, Loss

STALE, EXHAUSTED = DispatchOutcome.STALE, DispatchOutcome.EXHAUSTED
DEADLINE_S = 100.0
CANCELLED = End(JobState.CANCELLED, detail="cancelled")
FAILED = ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED
# Losses for which the node is to blame, so it is never asked again; which two of them are not depends on the node.
BLAMED = sorted(REASONS - set(VANISHED) - {Loss.ACK_TIMEOUT, Loss.DUPLICATE})

T = TypeVar("T")
Step = Callable[[RetryCourse], object]


def course_of(
    max_retries: int = 2,
    burst: int = 100,
    preferred: str = "",
    *,
    is_id_promised: bool = False,
    is_call: bool = False,
    begun: bool = True,
) -> RetryCourse:
    rules = RetryRules(max_retries, 5.0, RetryBudget(10, burst))
    first = Try(1, "a", 30_000, give_up_at=DEADLINE_S)
    course = RetryCourse(rules, first, "en:zh:plain", preferred, is_id_promised, is_call)
    if begun:
        course.begin()
    return course


def placed(node: str, shard: int = 0, *, acks: bool = True) -> Step:
    """A node has a slot for what the course wants."""

    def step(course: RetryCourse) -> None:
        wanted = course.wanted
        name = wanted.id_in(shard)
        course.on_placed(Attempt(name, wanted.number, node, shard), acks)

    return step


def lost(reason: str, at_s: float = 0.0, dice: float = 0.0) -> Step:
    return lambda course: course.on_lost(reason, at_s, dice)


def lost_at(node: str, reason: str, *, acks: bool = True, at_s: float = 0.0) -> Step:
    def step(course: RetryCourse) -> object:
        placed(node, acks=acks)(course)
        return course.on_lost(reason, at_s, 0.0)

    return step


def failed_at(node: str, reason: str = "NMT_TIMEOUT", *, acks: bool = True) -> Step:
    """The same in the node's own words."""

    def step(course: RetryCourse) -> object:
        placed(node, acks=acks)(course)
        assert course.on_result(JobEvent.LOSE_ATTEMPT, reason) is None
        return course.on_failed(reason, 0.0, 0.0)

    return step


def result(event: JobEvent, reason: str = "") -> Step:
    return lambda course: course.on_result(event, reason)


def not_placed(outcome: DispatchOutcome, shard: int = 0) -> Step:
    return lambda course: course.on_not_placed(outcome, shard)


def renewed(serial: str) -> Step:
    return lambda course: course.on_renewed(serial)


def away(*, refuses: bool = False, at_s: float = 0.0) -> Step:
    return lambda course: course.on_redis_away(at_s, refuses_writes=refuses)


def cancelled(course: RetryCourse) -> End:
    return course.on_cancelled()


def withdrawn(course: RetryCourse) -> End:
    return course.on_withdrawn()


class Scenario(NamedTuple):
    """What happens, what the last event leads to, and how the next attempt differs from the first one."""

    steps: list[Step]
    decision: object
    wanted: dict[str, object]
    course: Callable[[], RetryCourse] = course_of


FIRST = {"number": 1, "serial": "a", "job_id": "", "shard": -1, "tried": (), "renewal": 0, "attempts_before": 0}
# After one loss at n1.
SECOND = {"number": 2, "job_id": "job-0-a", "shard": 0, "tried": ("n1",), "last_node": "n1", "attempts_made": 1}
# After the answer that a job is over that had no attempt as far as we know.
KNOWN = {**FIRST, "job_id": "job-0-a", "shard": 0}

SCENARIOS = {
    # How a first attempt ends.
    "a result ends it": Scenario([placed("n1"), result(JobEvent.FINISH)], End(JobState.DONE), {}),
    "a result without text ends it": Scenario([placed("n1"), result(JobEvent.FIND_NO_TEXT)], End(JobState.NO_TEXT), {}),
    "an error that every node would give ends it": Scenario(
        [placed("n1"), result(JobEvent.FAIL, "INVALID_MESSAGE")],
        End(JobState.FAILED, ErrorCode.INVALID_MESSAGE, "the node failed the job"),
        {},
    ),
    "an error without a code is a processing error": Scenario(
        [placed("n1"), result(JobEvent.FAIL, OTHER)],
        End(JobState.FAILED, ErrorCode.PROCESSING_ERROR, "the node failed the job"),
        {},
    ),
    "a withdrawn job ends": Scenario(
        [placed("n1"), withdrawn], End(JobState.CANCELLED, detail="withdrawn before it was sent"), {}
    ),
    "a cancelled job ends": Scenario([placed("n1"), cancelled], CANCELLED, {}),
    # The next attempt.
    "after a loss another node is asked at once": Scenario([lost_at("n1", Loss.JOB_TIMEOUT)], PlaceJob(), SECOND),
    "a retryable error is a loss, and the next try waits": Scenario(
        [failed_at("n1", "NMT_TIMEOUT")], PlaceJob(0.025), SECOND
    ),
    "a result that costs the node only this attempt does not end it": Scenario(
        [placed("n1"), result(JobEvent.LOSE_ATTEMPT, "NMT_TIMEOUT")], None, FIRST
    ),
    "the second pause is longer": Scenario(
        [lost_at("n1", "NMT_TIMEOUT"), lost_at("n2", "NMT_TIMEOUT")],
        PlaceJob(0.05),
        {"number": 3, "tried": ("n1", "n2")},
    ),
    "the dice lengthen a pause": Scenario([placed("n1"), lost("NMT_TIMEOUT", dice=0.5)], PlaceJob(0.05 * 0.75), SECOND),
    "what a peer made up is another reason": Scenario([placed("n1"), lost("speech")], PlaceJob(0.025), SECOND),
    "the next attempt knows where the last one was": Scenario(
        [placed("n1", shard=7), lost(Loss.JOB_TIMEOUT)], PlaceJob(), {**SECOND, "job_id": "job-7-a", "shard": 7}
    ),
    "a node that does not acknowledge may come back for it": Scenario(
        [lost_at("n1", Loss.NODE_GONE, acks=False)], PlaceJob(), {**SECOND, "awaits_return": True}
    ),
    "one that acknowledges is not waited for": Scenario(
        [lost_at("n1", Loss.NODE_GONE)], PlaceJob(), {**SECOND, "awaits_return": False}
    ),
    # The bounds.
    "no retry is left": Scenario(
        [lost_at("n1", "NMT_TIMEOUT"), lost_at("n2", "NMT_TIMEOUT"), lost_at("n3", "NMT_TIMEOUT")],
        GiveUp(FAILED, "all 3 attempts failed, the last one: NMT_TIMEOUT"),
        {"number": 4, "tried": ("n1", "n2", "n3")},
    ),
    "no retry is allowed": Scenario(
        [lost_at("n1", Loss.JOB_TIMEOUT)],
        GiveUp(ErrorCode.JOB_TIMEOUT, "no node answered in time"),
        SECOND,
        lambda: course_of(max_retries=0),
    ),
    "the pause would end after the deadline": Scenario(
        [lost_at("n1", "NMT_TIMEOUT", at_s=DEADLINE_S - 0.025)],
        GiveUp(FAILED, "the only attempt failed: NMT_TIMEOUT", Denial.TOO_LATE),
        SECOND,
    ),
    "the pause ends just before the deadline": Scenario(
        [lost_at("n1", "NMT_TIMEOUT", at_s=DEADLINE_S - 0.026)], PlaceJob(0.025), SECOND
    ),
    "the retry budget is spent": Scenario(
        [lost_at("n1", Loss.JOB_TIMEOUT), lost_at("n2", Loss.NODE_GONE)],
        GiveUp(FAILED, "both attempts failed, the last one: node_gone", Denial.OVER_BUDGET),
        {"number": 3},
        lambda: course_of(burst=1),
    ),
    "an attempt that never left is no retry": Scenario(
        [lost_at("n1", Loss.SEND_FAILED)], PlaceJob(), SECOND, lambda: course_of(max_retries=0)
    ),
    "an attempt that vanished with its node is no retry": Scenario(
        [lost_at("n1", Loss.NODE_GONE)], PlaceJob(), SECOND, lambda: course_of(max_retries=0)
    ),
    "a missing acknowledgement is a retry": Scenario(
        [lost_at("n1", Loss.ACK_TIMEOUT)],
        GiveUp(FAILED, "the only attempt failed: ack_timeout"),
        SECOND,
        lambda: course_of(max_retries=0),
    ),
    "there is an end to attempts that vanish": Scenario(
        [lost_at(f"n{i}", Loss.NODE_GONE) for i in range(MAX_UNSENT + 1)],
        GiveUp(FAILED, "all 11 attempts failed, the last one: node_gone"),
        {"number": MAX_UNSENT + 2},
        lambda: course_of(max_retries=0),
    ),
    # No node.
    "every node is busy": Scenario(
        [not_placed(DispatchOutcome.FULL)], GiveUp(FAILED, "every node for en→zh is busy"), {}
    ),
    "nobody serves the pair": Scenario([not_placed(DispatchOutcome.NOBODY)], GiveUp(ErrorCode.NO_CAPABLE_NODE, ""), {}),
    "the demanded node does not serve the pair": Scenario(
        [not_placed(DispatchOutcome.UNFIT)],
        GiveUp(ErrorCode.PREFERRED_NODE_NOT_CAPABLE, "n9 is not connected or does not serve en→zh"),
        {},
        lambda: course_of(preferred="n9"),
    ),
    "the demanded node is busy": Scenario(
        [not_placed(DispatchOutcome.BUSY)], GiveUp(FAILED, "every node for en→zh is busy"), {}
    ),
    "no other node after a loss": Scenario(
        [lost_at("n1", "NMT_TIMEOUT"), not_placed(EXHAUSTED)],
        GiveUp(FAILED, "the only attempt failed: NMT_TIMEOUT"),
        SECOND,
    ),
    "a loss says more than the lack of nodes": Scenario(
        [lost_at("n1", Loss.NO_ANSWER), not_placed(DispatchOutcome.NOBODY)],
        GiveUp(ErrorCode.JOB_TIMEOUT, "no node answered in time"),
        SECOND,
    ),
    # Back to a node that was not to blame.
    "an innocent node is asked again under the same id": Scenario(
        [lost_at("n1", Loss.NODE_GONE), not_placed(EXHAUSTED)], PlaceJob(0.2), {**SECOND, "tried": ()}
    ),
    "one that acknowledges and did not is asked again": Scenario(
        [lost_at("n1", Loss.ACK_TIMEOUT), not_placed(EXHAUSTED)], PlaceJob(0.1), {**SECOND, "tried": ()}
    ),
    "only the innocent are asked again": Scenario(
        [lost_at("n1", "NMT_TIMEOUT"), lost_at("n2", Loss.NODE_GONE), not_placed(EXHAUSTED)],
        PlaceJob(0.2),
        {"number": 3, "tried": ("n1",)},
    ),
    "once, unless it is lost again": Scenario(
        [lost_at("n1", Loss.ACK_TIMEOUT), not_placed(EXHAUSTED), not_placed(EXHAUSTED)],
        GiveUp(FAILED, "the only attempt failed: ack_timeout"),
        {},
    ),
    "not one that vanished and then failed": Scenario(
        [lost_at("n1", Loss.NODE_GONE), not_placed(STALE), renewed("b"), failed_at("n1"), not_placed(EXHAUSTED)],
        GiveUp(FAILED, "both attempts failed, the last one: NMT_TIMEOUT"),
        {"job_id": "job-0-b", "tried": ("n1",), "attempts_made": 2},
    ),
    "nor one that vanished and then was silent": Scenario(
        [
            lost_at("n1", Loss.NODE_GONE),
            not_placed(STALE),
            renewed("b"),
            lost_at("n1", Loss.JOB_TIMEOUT),
            not_placed(EXHAUSTED),
        ],
        GiveUp(ErrorCode.JOB_TIMEOUT, "no node answered in time"),
        {"job_id": "job-0-b", "tried": ("n1",)},
    ),
    "another that vanished still is": Scenario(
        [
            lost_at("n1", Loss.NODE_GONE),
            lost_at("n2", Loss.NODE_GONE),
            not_placed(STALE),
            renewed("b"),
            failed_at("n2"),
            not_placed(EXHAUSTED),
        ],
        PlaceJob(0.4),
        {"job_id": "job-0-b", "tried": ("n2",), "last_node": "n2"},
    ),
    "the node that had it last is known after it may be asked again": Scenario(
        [lost_at("n1", Loss.NODE_GONE), not_placed(EXHAUSTED)], PlaceJob(0.2), {"tried": (), "last_node": "n1"}
    ),
    "each return waits longer, up to a bound": Scenario(
        [*[lost_at("n1", Loss.NODE_GONE)] * 5, not_placed(EXHAUSTED)], PlaceJob(2.0), {"number": 6, "tried": ()}
    ),
    "not to a busy one": Scenario(
        [lost_at("n1", Loss.NODE_GONE), not_placed(DispatchOutcome.FULL)],
        GiveUp(FAILED, "the only attempt failed: node_gone"),
        SECOND,
    ),
    # Under another job id.
    "a node that takes each id once needs another": Scenario(
        [lost_at("n1", Loss.NODE_GONE, acks=False), not_placed(EXHAUSTED)],
        Renew(Renewal.ID_TAKEN, 0.2),
        {**SECOND, "awaits_return": True},
    ),
    "a node that had the id before needs another": Scenario(
        [lost_at("n1", Loss.DUPLICATE, acks=False), not_placed(EXHAUSTED)], Renew(Renewal.ID_TAKEN, 0.1), SECOND
    ),
    "one such node among the innocent is enough": Scenario(
        [lost_at("n1", Loss.NODE_GONE), lost_at("n2", Loss.NODE_GONE, acks=False), not_placed(EXHAUSTED)],
        Renew(Renewal.ID_TAKEN, 0.4),
        {"number": 3},
    ),
    "the new id asks the innocent, and counts the attempts": Scenario(
        [
            lost_at("n1", "NMT_TIMEOUT"),
            lost_at("n2", Loss.NODE_GONE, acks=False),
            not_placed(EXHAUSTED),
            renewed("b"),
        ],
        PlaceJob(),
        {**FIRST, "serial": "b", "tried": ("n1",), "renewal": 1, "attempts_before": 2},
    ),
    "attempts under the old id count as retries": Scenario(
        [
            lost_at("n1", Loss.DUPLICATE, acks=False),
            not_placed(EXHAUSTED),
            renewed("b"),
            lost_at("n1", "NMT_TIMEOUT", acks=False),
        ],
        GiveUp(FAILED, "both attempts failed, the last one: NMT_TIMEOUT"),
        {"number": 2, "job_id": "job-0-b", "attempts_before": 1},
        lambda: course_of(max_retries=1),
    ),
    "a cancelled job gets no new id": Scenario(
        [lost_at("n1", Loss.NODE_GONE, acks=False), not_placed(EXHAUSTED), cancelled], CANCELLED, SECOND
    ),
    "a promised id is never left for a node's sake": Scenario(
        [lost_at("n1", Loss.NODE_GONE, acks=False), not_placed(EXHAUSTED)],
        GiveUp(FAILED, "the only attempt failed: node_gone"),
        {**SECOND, "awaits_return": False},
        lambda: course_of(is_id_promised=True),
    ),
    "a vanished node that needs another id counts when the id is promised": Scenario(
        [lost_at("n1", Loss.NODE_GONE, acks=False)],
        GiveUp(FAILED, "the only attempt failed: node_gone"),
        SECOND,
        lambda: course_of(max_retries=0, is_id_promised=True),
    ),
    "a promised id goes back to a node that acknowledges": Scenario(
        [lost_at("n1", Loss.NODE_GONE), not_placed(EXHAUSTED)],
        PlaceJob(0.2),
        {**SECOND, "tried": ()},
        lambda: course_of(is_id_promised=True),
    ),
    # The job was closed behind our back.
    "a job that was closed while it waited": Scenario([not_placed(STALE)], Renew(Renewal.CLOSED_ELSEWHERE), KNOWN),
    "is known where an earlier question was answered": Scenario(
        [not_placed(STALE, shard=7)], Renew(Renewal.CLOSED_ELSEWHERE), {"job_id": "job-7-a", "shard": 7}
    ),
    "one that has an id keeps it": Scenario(
        [lost_at("n1", Loss.JOB_TIMEOUT), not_placed(STALE, shard=7)], Renew(Renewal.RESULT_LOST), SECOND
    ),
    "other answers do not say where a job is": Scenario(
        [not_placed(DispatchOutcome.FULL, shard=7)], GiveUp(FAILED, "every node for en→zh is busy"), FIRST
    ),
    "begins again": Scenario([not_placed(STALE), renewed("b")], PlaceJob(), {**FIRST, "serial": "b", "renewal": 1}),
    "a job whose result was lost": Scenario(
        [lost_at("n1", Loss.LETTER_DEAD), not_placed(STALE)], Renew(Renewal.RESULT_LOST), SECOND
    ),
    "may go to the node that had it last": Scenario(
        [lost_at("n1", Loss.JOB_TIMEOUT), lost_at("n2", Loss.LETTER_DEAD), not_placed(STALE), renewed("b")],
        PlaceJob(),
        {**FIRST, "serial": "b", "tried": ("n1",), "renewal": 1, "attempts_before": 2},
    ),
    "but not if that one said that it failed": Scenario(
        [failed_at("n1"), not_placed(STALE), renewed("b")],
        PlaceJob(),
        {**FIRST, "serial": "b", "tried": ("n1",), "renewal": 1, "attempts_before": 1, "last_node": "n1"},
    ),
    "unless it failed because it had it before": Scenario(
        [failed_at("n1", Loss.DUPLICATE), not_placed(STALE), renewed("b")], PlaceJob(), {"tried": ()}
    ),
    "an earlier failure is not the last node's": Scenario(
        [failed_at("n1"), lost_at("n2", Loss.JOB_TIMEOUT), not_placed(STALE), renewed("b")],
        PlaceJob(),
        {"tried": ("n1",)},
    ),
    "one that had it under an earlier id stays excluded": Scenario(
        [
            lost_at("n1", Loss.NODE_GONE, acks=False),
            lost_at("n2", Loss.JOB_TIMEOUT),
            not_placed(EXHAUSTED),
            renewed("b"),
            not_placed(STALE),
            renewed("c"),
        ],
        PlaceJob(),
        {"number": 1, "serial": "c", "tried": ("n2",), "last_node": "n2", "renewal": 2, "attempts_before": 2},
    ),
    "after going back nobody else is freed": Scenario(
        [lost_at("n1", "NMT_TIMEOUT"), lost_at("n2", Loss.NODE_GONE), not_placed(EXHAUSTED), not_placed(STALE)],
        Renew(Renewal.RESULT_LOST),
        {"tried": ("n1",), "last_node": "n2"},
    ),
    "a job that was cancelled, not closed": Scenario([not_placed(STALE), cancelled], CANCELLED, KNOWN),
    "a job that began anew has no id": Scenario(
        [lost_at("n1", Loss.NODE_GONE, acks=False), not_placed(STALE), renewed("b"), not_placed(EXHAUSTED)],
        Renew(Renewal.ID_TAKEN, 0.2),
        {"job_id": "", "shard": -1},
    ),
    # A caller over HTTP knows one id.
    "a caller whose result was lost is told so": Scenario(
        [lost_at("n1", Loss.RESULT_LOST), not_placed(STALE)],
        GiveUp(ErrorCode.RESULT_LOST, RESULT_LOST, is_open=False),
        SECOND,
        lambda: course_of(is_id_promised=True, is_call=True),
    ),
    "a call that was told no id yet begins again": Scenario(
        [not_placed(STALE), renewed("b")],
        PlaceJob(),
        {"serial": "b", "renewal": 1},
        lambda: course_of(is_id_promised=True, is_call=True),
    ),
    "a request of a session begins again": Scenario(
        [lost_at("n1", Loss.RESULT_LOST), not_placed(STALE)],
        Renew(Renewal.RESULT_LOST),
        SECOND,
        lambda: course_of(is_id_promised=True),
    ),
    "closed once too often": Scenario(
        [*[not_placed(STALE), renewed("b")] * MAX_RESTARTS, not_placed(STALE)],
        GiveUp(FAILED, "every node for en→zh is busy"),
        {"renewal": MAX_RESTARTS, "job_id": "job-0-b", "shard": 0},
    ),
    "ids left for a node's sake are not counted as closed": Scenario(
        [
            *[lost_at("n1", Loss.NODE_GONE, acks=False), not_placed(EXHAUSTED), renewed("b")] * (MAX_RESTARTS + 1),
            not_placed(STALE),
        ],
        Renew(Renewal.RESULT_LOST),
        {"renewal": MAX_RESTARTS + 1},
    ),
    # Redis is away.
    "Redis may come back": Scenario([away()], PlaceWhenBack(5.0), FIRST),
    "not for longer than the deadline": Scenario([away(at_s=DEADLINE_S - 3)], PlaceWhenBack(3.0), FIRST),
    "Redis stays away": Scenario(
        [away(), away()], End(JobState.FAILED, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, AWAY), FIRST
    ),
    "Redis takes no writes": Scenario(
        [away(refuses=True)], End(JobState.FAILED, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, REFUSED), FIRST
    ),
    "Redis comes back and takes no writes": Scenario(
        [away(), away(refuses=True)], End(JobState.FAILED, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, REFUSED), FIRST
    ),
    "each try has patience of its own": Scenario(
        [away(), lost_at("n1", Loss.JOB_TIMEOUT), away()], PlaceWhenBack(5.0), SECOND
    ),
    "also after it was not placed": Scenario(
        [lost_at("n1", Loss.NODE_GONE), away(), not_placed(EXHAUSTED), away()], PlaceWhenBack(5.0), {"number": 2}
    ),
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_scenario(scenario: Scenario) -> None:
    course = scenario.course()
    decision: object = None
    for step in scenario.steps:
        decision = step(course)
    assert decision == scenario.decision
    assert {name: getattr(course.wanted, name) for name in scenario.wanted} == scenario.wanted
    assert (course.phase is Phase.OVER) == isinstance(decision, End | GiveUp)


@pytest.mark.parametrize("reason", SILENCE)
def test_silence_is_told_as_a_timeout(reason: str) -> None:
    course = course_of(max_retries=0)
    assert lost_at("n1", reason)(course) == GiveUp(ErrorCode.JOB_TIMEOUT, "no node answered in time")


@pytest.mark.parametrize("acks", [True, False])
@pytest.mark.parametrize("reason", VANISHED)
def test_a_node_that_vanished_is_innocent(reason: str, acks: bool) -> None:
    course = course_of()
    lost_at("n1", reason, acks=acks)(course)
    assert isinstance(course.on_not_placed(EXHAUSTED), PlaceJob if acks else Renew)


@pytest.mark.parametrize(
    ("reason", "acks"),
    [
        *((reason, acks) for reason in BLAMED for acks in (True, False)),
        (Loss.DUPLICATE, True),
        (Loss.ACK_TIMEOUT, False),
    ],
)
def test_a_node_that_failed_is_not_asked_again(reason: str, acks: bool) -> None:
    course = course_of()
    lost_at("n1", reason, acks=acks)(course)
    assert isinstance(course.on_not_placed(EXHAUSTED), GiveUp)
    assert course.wanted.tried == ("n1",)


def test_the_job_id_is_the_attempts_while_a_node_has_it() -> None:
    course = course_of()
    assert course.job_id == ""
    placed("n1", shard=3)(course)
    assert (course.job_id, course.wanted.job_id) == ("job-3-a", "")
    course.on_lost(Loss.JOB_TIMEOUT, 0.0, 0.0)
    assert course.job_id == "job-3-a"


def test_an_attempt_that_was_lost_is_not_changed_under_its_observers() -> None:
    """Services hold the `Try` they were given while a record is written."""
    course = course_of()
    first = course.wanted
    lost_at("n1", Loss.JOB_TIMEOUT)(course)
    assert (first.number, first.job_id, first.shard, first.tried) == (1, "", -1, ())


def test_a_job_pays_into_the_budget_when_it_begins() -> None:
    budget = RetryBudget(percent=100, burst=1)
    assert budget.take()
    RetryCourse(RetryRules(2, 5.0, budget), Try(1, "a", 30_000), "en:zh:plain").begin()
    assert budget.take()


def test_a_retry_that_is_too_late_costs_nothing() -> None:
    course = course_of(burst=1)
    lost_at("n1", "NMT_TIMEOUT", at_s=DEADLINE_S)(course)
    assert course.rules.budget.take()


# Every event, and the phases in which it may come.
EVENTS: dict[str, tuple[Step, set[Phase]]] = {
    "begin": (lambda course: course.begin(), {Phase.NEW}),
    "placed": (placed("n7"), {Phase.PLACING, Phase.INSISTING}),
    "not placed": (not_placed(DispatchOutcome.FULL), {Phase.PLACING, Phase.INSISTING}),
    "Redis away": (away(), {Phase.PLACING, Phase.INSISTING}),
    "result": (result(JobEvent.FINISH), {Phase.AT_NODE}),
    "failed": (lambda course: course.on_failed("NMT_TIMEOUT", 0.0, 0.0), {Phase.AT_NODE}),
    "lost": (lost(Loss.NODE_GONE), {Phase.AT_NODE}),
    "withdrawn": (withdrawn, {Phase.AT_NODE}),
    "renewed": (renewed("b"), {Phase.RENEWING}),
    "cancelled": (cancelled, {Phase.PLACING, Phase.INSISTING, Phase.AT_NODE, Phase.RENEWING}),
}
WAYS: dict[Phase, list[Step]] = {
    Phase.NEW: [],
    Phase.PLACING: [EVENTS["begin"][0]],
    Phase.INSISTING: [EVENTS["begin"][0], away()],
    Phase.AT_NODE: [EVENTS["begin"][0], placed("n1")],
    Phase.RENEWING: [EVENTS["begin"][0], not_placed(STALE)],
    Phase.OVER: [EVENTS["begin"][0], cancelled],
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("phase", Phase)
def test_an_event_that_cannot_happen_is_refused(phase: Phase, event: str) -> None:
    course = course_of(begun=False)
    for step in WAYS[phase]:
        step(course)
    assert course.phase is phase
    happens, phases = EVENTS[event]
    if phase in phases:
        happens(course)
    else:
        with pytest.raises(IllegalEvent, match=phase.value):
            happens(course)
        assert course.phase is phase


class Walk:
    """A random course. Its fleet gives slots on nodes that are not excluded; every step checks what always holds."""

    def __init__(self, data: st.DataObject, *, is_hostile: bool) -> None:
        self._data = data
        # In a hostile world nothing succeeds and nobody cancels, so only the bounds can end it.
        self._is_hostile = is_hostile
        self._max_retries = self._draw(range(4))
        self._is_id_promised = self._draw([False, True])
        self._is_call = self._draw([False, True])
        self._acks = {f"n{i}": self._draw([False, True]) for i in range(self._draw(range(1, 5)))}
        self._course = course_of(
            self._max_retries,
            self._draw([100, 3, 1]),
            is_id_promised=self._is_id_promised,
            is_call=self._is_call,
            begun=False,
        )
        self._now_s = 0.0
        self._losses = 0
        self._renewals = dict.fromkeys(Renewal, 0)
        # Nodes that said that they failed, those that may not get the job again, and those that may when there is no
        # other.
        self._failed: set[str] = set()
        self._blamed: set[str] = set()
        self._innocent: set[str] = set()
        self._last_node = ""
        self._taken: set[tuple[str, str]] = set()

    def run(self) -> object:
        decision: object = self._course.begin()
        most_losses = self._max_retries + MAX_UNSENT + 1
        # Between two losses: Redis away, a slot; or no slot, Redis away, another id, Redis away, a slot.
        for _ in range(6 * (most_losses + MAX_RESTARTS + 1)):
            decision = self._step(decision)
            assert self._losses <= most_losses
            assert self._renewals[Renewal.RESULT_LOST] + self._renewals[Renewal.CLOSED_ELSEWHERE] <= MAX_RESTARTS
            assert self._renewals[Renewal.ID_TAKEN] <= self._losses
            assert (self._course.phase is Phase.OVER) == isinstance(decision, End | GiveUp)
            if self._course.phase is Phase.OVER:
                return decision
        raise AssertionError("it does not end")

    def _draw(self, choices: Sequence[T]) -> T:
        return self._data.draw(st.sampled_from(choices))

    def _step(self, decision: object) -> object:
        if not self._is_hostile and self._data.draw(st.integers(0, 30)) == 30:
            return self._course.on_cancelled()
        match decision:
            case None:
                return self._end_attempt()
            case PlaceJob() | PlaceWhenBack():
                return self._place(getattr(decision, "pause_s", 0.0))
            case Renew():
                return self._renew(decision)
        raise AssertionError(decision)

    def _place(self, pause_s: float) -> object:
        self._now_s += pause_s
        wanted = self._course.wanted
        assert (wanted.attempts_made, wanted.last_node) == (self._losses, self._last_node)
        assert wanted.renewal == sum(self._renewals.values())
        assert self._failed <= self._blamed <= set(wanted.tried)
        free = [node for node in self._acks if node not in wanted.tried]
        answer = self._draw([*free, *[EXHAUSTED] * 3, STALE, "away", DispatchOutcome.FULL])
        if answer == "away":
            return self._course.on_redis_away(self._now_s)
        if answer in self._acks:
            name = wanted.id_in(0)
            if not self._acks[answer]:
                # A node that does not acknowledge takes each job id once.
                assert (answer, name) not in self._taken
                self._taken.add((answer, name))
            self._course.on_placed(Attempt(name, wanted.number, answer, 0), self._acks[answer])
            return None
        return self._not_placed(DispatchOutcome(answer), wanted.number > 1)

    def _not_placed(self, outcome: DispatchOutcome, had_attempts: bool) -> object:
        decision = self._course.on_not_placed(outcome, self._draw(range(3)))
        if outcome is STALE:
            assert self._course.wanted.job_id
            assert not (isinstance(decision, Renew) and self._is_call and had_attempts)
        if isinstance(decision, GiveUp) and not decision.is_open:
            assert outcome is STALE
            assert self._is_call
            assert had_attempts
        if isinstance(decision, Renew):
            assert outcome is (EXHAUSTED if decision.is_open else STALE)
            if decision.is_open:
                # Only a node that takes each id once is worth another id, and none that was promised.
                assert not self._is_id_promised
                assert not all(self._acks[node] for node in self._innocent)
            elif had_attempts and self._last_node not in self._failed:
                # It may have answered, and the answer was lost.
                self._blamed.discard(self._last_node)
        if outcome is EXHAUSTED and not isinstance(decision, GiveUp):
            assert self._innocent
            assert 0 < decision.pause_s <= RETURNS.longest_s
            self._innocent.clear()
        return decision

    def _renew(self, decision: Renew) -> PlaceJob:
        self._now_s += decision.pause_s
        self._renewals[decision.cause] += 1
        place = self._course.on_renewed(f"serial-{sum(self._renewals.values())}")
        assert (self._course.wanted.number, self._course.wanted.job_id) == (1, "")
        return place

    def _end_attempt(self) -> object:
        self._now_s += self._draw([0.0, 1.0, 10.0])
        course, before = self._course, self._course.wanted
        if not self._is_hostile and self._data.draw(st.integers(0, 9)) == 9:
            return self._draw([result(JobEvent.FINISH), result(JobEvent.FAIL), withdrawn])(course)
        reason = self._draw([*VANISHED, Loss.ACK_TIMEOUT, Loss.DUPLICATE, Loss.JOB_TIMEOUT, *sorted(RETRYABLE), "odd"])
        dice = self._data.draw(st.floats(0, 1, exclude_max=True))
        # A duplicate is always the node's word; an error code usually is.
        in_its_words = reason == Loss.DUPLICATE or (reason not in list(Loss) and self._draw([True, False]))
        if in_its_words:
            assert course.on_result(JobEvent.LOSE_ATTEMPT, reason) is None
        decision = (course.on_failed if in_its_words else course.on_lost)(reason, self._now_s, dice)
        self._losses += 1
        self._last_node = node = course.wanted.tried[-1]
        assert course.wanted.number == before.number + 1
        assert course.wanted.tried == (*before.tried, node)
        self._judge(node, reason)
        if in_its_words and reason != Loss.DUPLICATE:
            self._failed.add(node)
        if isinstance(decision, PlaceJob):
            assert self._now_s + decision.pause_s < DEADLINE_S
        return decision

    def _judge(self, node: str, reason: str) -> None:
        acks = self._acks[node]
        if reason in (*VANISHED, Loss.ACK_TIMEOUT if acks else Loss.DUPLICATE) and (acks or not self._is_id_promised):
            self._innocent.add(node)
        else:
            self._innocent.discard(node)
            self._blamed.add(node)


@settings(max_examples=200)
@given(st.data())
def test_every_course_ends_within_its_bounds(data: st.DataObject) -> None:
    decision = Walk(data, is_hostile=False).run()
    assert isinstance(decision, End | GiveUp)


@settings(max_examples=200)
@given(st.data())
def test_it_ends_even_if_nothing_ever_succeeds(data: st.DataObject) -> None:
    decision = Walk(data, is_hostile=True).run()
    assert isinstance(decision, GiveUp) or decision == End(JobState.FAILED, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, AWAY)


def test_what_a_node_told_of_its_failure_is_told_on() -> None:
    course = course_of(max_retries=0)
    placed("n1")(course)
    assert course.on_result(JobEvent.LOSE_ATTEMPT, "PROCESSING_ERROR") is None
    decision = course.on_failed("PROCESSING_ERROR", 0.0, 0.0, "ValueError in translate")
    assert decision == GiveUp(FAILED, "the only attempt failed: PROCESSING_ERROR (ValueError in translate)")
