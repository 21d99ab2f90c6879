"""What nodes report: a result that is in Redis is told, whatever happens after."""

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt, EndOutcome
from lingua_scheduler.domain.nodes.nodes import Features, Profile
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.domain.pools.pools import Languages
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.reports import Answered
from lingua_scheduler.services.dispatch.progress import PendingResult, Progress
from lingua_scheduler.services.dispatch.relay import Relay
from lingua_scheduler.services.nodes.complaints import Complaints
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.services.nodes.pacing import Pace
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import Ended
from lingua_scheduler.store.store import Store
from lingua_sdk.protocol.node import AsrPartial, JobAck, JobGrant, JobResult, NodeError, ResultAck
from lingua_sdk.protocol.shapes import JobError
from tests.support.connected import registered
from tests.support.fleet import HERE, dispatch, entry, join, ledger, order
from tests.support.schedulers import settings_with
from tests.support.speech import work
from tests.support.two_sides import Telling, partial_of, side
from tests.support.waiting import until
from tests.support.walls import Wall

RUN_MAX_MS = 50
PROFILE = Profile(
    declared=Languages(),
    down=frozenset(),
    max_jobs=2,
    features=Features(acknowledges=False),
    reports_jobs=False,
    takes_jobs=True,
    boot_id="",
    version="1",
    platform="test",
)


class NoRelay:
    """All jobs are of this instance."""

    def foreign(self, _job_id: str, _link: NodeLink) -> None:
        return None


def progress(store: Store, assignments: Assignments) -> Progress:
    settings = settings_with()
    return Progress(
        "i-here",
        store,
        Endings("i-here", store.jobs, assignments, settings.nodes),
        cast("Complaints", cast("Any", None)),
        cast("Relay", cast("Any", NoRelay())),
        assignments,
        lambda _work, _partial: None,
        msgspec.structs.replace(settings.job, timeout_max_ms=RUN_MAX_MS),
    )


async def test_the_result_of_an_adopted_job_is_told_though_its_slot_cannot_be_freed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    assignments = Assignments(lambda _step, _assignment: None)
    assignment = assignments.open(attempt, work(), "i-here", acknowledges=False)
    link = NodeLink("n1", HERE, Wall(), PROFILE, 45_000, Pace(settings_with().nodes))
    link.epoch, link.place = placed.epoch, Place(0)
    link.sent[attempt.job_id] = (Attempt(attempt.job_id, ADOPTED, "n1", 0), float("-inf"))
    result = JobResult(
        job_id=attempt.job_id,
        attempt_id=1,
        node_id="n1",
        session_id="s-00000001",
        utterance_index=0,
        success=True,
        trace_id="t",
        text_asr="a",
        text_translated="b",
    )
    go_on, asked = asyncio.Event(), asyncio.Event()

    end = store.jobs.end

    async def fail() -> None:
        asked.set()
        await go_on.wait()
        raise RedisAway("gone at that moment")

    def end_or_fail(ended: Attempt, *more: Any, **named: Any) -> Awaitable[object]:
        return fail() if ended.number == ADOPTED else end(ended, *more, **named)

    monkeypatch.setattr(store.jobs, "end", end_or_fail)
    telling = asyncio.create_task(progress(store, assignments).result(link, result))
    await asked.wait()
    await until(
        lambda: isinstance(assignment.report, Answered) and assignment.report.result is result
    )  # nobody waits for the slot to be freed
    go_on.set()
    assert await telling
    assert await ledger(store, "n1") == (0, 2, 0)


class Elsewhere(NoRelay):
    """One job is of another instance; keeps what is told there."""

    def __init__(self) -> None:
        self.told: list[tuple[object, str]] = []

    def foreign(self, job_id: str, _link: NodeLink) -> Any:
        return "foreign" if job_id == "job-0-theirs" else None

    def tell_partial(self, foreign: object, message: AsrPartial) -> None:
        self.told.append((foreign, message.job_id))


async def test_a_partial_goes_to_who_has_the_job_here_or_elsewhere_and_only_from_its_node(store: Store) -> None:
    assignments, relay = Assignments(lambda _step, _assignment: None), Elsewhere()
    assignments.open(Attempt("job-0-ours", 1, "n1", 0), work(utterance_index=5), "i-here")
    assignments.open(Attempt("job-0-other", 1, "n2", 0), work(), "i-here")
    here: list[tuple[int, str]] = []
    telling = progress(store, assignments)
    telling._relay = cast("Relay", cast("Any", relay))
    telling._on_partial = lambda asked, message: here.append((asked.utterance_index, message.job_id))
    link = NodeLink("n1", HERE, Wall(), PROFILE, 45_000, Pace(settings_with().nodes))
    for job_id in ("job-0-ours", "job-0-other", "job-0-theirs", "job-0-nobodys"):
        about = {"session_id": "s", "utterance_index": 0, "trace_id": "t", "text": "hel", "is_final": False}
        telling.partial(link, AsrPartial(node_id="n1", job_id=job_id, **about))  # type: ignore[arg-type]
    assert here == [(5, "job-0-ours")]
    assert relay.told == [("foreign", "job-0-theirs")]


# Jobs of another instance on a node here


async def test_the_result_of_another_instances_job_is_passed_on_and_its_node_told(store: Store) -> None:
    async with side(store, "i-there") as there, side(store, "i-here") as here:
        socket = Telling()
        link = await registered(there.connected, socket, advanced_features=["job_ack"])
        telling = Progress(
            "i-there",
            store,
            there.endings,
            cast("Complaints", cast("Any", None)),
            there.relay,
            there.assignments,
            lambda _work, _partial: None,
            msgspec.structs.replace(settings_with().job, timeout_max_ms=RUN_MAX_MS),
        )
        attempt, _ = await dispatch(store, order(1))
        assignment = here.assignments.open(attempt, work(), "i-there")
        await here.relay.assign(link.owner, attempt, b"{}")
        await until(lambda: socket.frames)
        ack = JobAck(job_id=attempt.job_id, attempt_id=1, node_id="n1", session_id="s", trace_id="t")
        assert await telling.ack(link, ack)
        await until(lambda: assignment.advances == 1)
        assert [type(message) for message in socket.messages] == [JobGrant]
        telling.partial(link, partial_of(attempt, "hel"))
        await until(lambda: here.partials)
        assert await telling.result(link, result_of(attempt))
        await until(lambda: isinstance(assignment.report, Answered))
        assert [type(message) for message in socket.messages] == [JobGrant, ResultAck]
        assert there.freed == [attempt]
        assert attempt.job_id not in link.sent
        # A result that comes again is taken by nobody.
        assert not await telling.result(link, result_of(attempt))
        assert isinstance(socket.messages[-1], JobGrant)
        assert socket.messages[-1].verdict == "stale"
        assert not await telling.ack(link, ack)
        assert socket.messages[-1] == JobGrant(job_id=attempt.job_id, attempt_id=1, verdict="stale")


def result_of(attempt: Attempt) -> JobResult:
    return JobResult(
        job_id=attempt.job_id,
        attempt_id=attempt.number,
        node_id=attempt.node_id,
        session_id="s-00000001",
        utterance_index=0,
        success=True,
        trace_id="t",
        text_asr="a",
        text_translated="b",
    )


async def test_a_node_that_lacks_a_model_is_heard_and_other_troubles_are_not_taken_for_that(store: Store) -> None:
    taken: list[Any] = []
    found: Any = progress(store, Assignments(lambda _step, _assignment: None))
    found._complaints = SimpleNamespace(take=lambda link, details: taken.append((link.node_id, details)))
    link: Any = SimpleNamespace(node_id="n1")
    for code in ("MODEL_NOT_AVAILABLE", "INTERNAL_ERROR"):
        found.trouble(link, NodeError(node_id="n1", code=code, message="x", details={"code": code}))
    assert taken == [("n1", {"code": "MODEL_NOT_AVAILABLE"})]


async def test_redis_is_asked_for_as_long_as_a_job_may_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = progress(store, Assignments(lambda _step, _assignment: None))
    link = NodeLink("n1", HERE, Wall(), PROFILE, 45_000, Pace(settings_with().nodes))
    attempt = Attempt("job-0-1", 1, "n1", 0)
    patience: list[float] = []

    async def insist(_call: object, timeout_s: float) -> object:
        patience.append(timeout_s)
        raise RedisAway("it did not come back")

    monkeypatch.setattr(store, "insist", insist)
    with pytest.raises(RedisAway):
        await found.insist_on_advance(
            link, attempt, JobAck(job_id="job-0-1", attempt_id=1, node_id="n1", session_id="s", trace_id="t")
        )
    with pytest.raises(RedisAway):
        await found.result(link, result_of(attempt))
    # The slot of an adopted job ends at its deadline then.
    await found._free(attempt)
    assert patience == [0.05] * 3


async def test_a_result_that_names_a_missing_model_is_a_complaint_about_the_node(store: Store) -> None:
    taken: list[Any] = []
    found: Any = progress(store, Assignments(lambda _step, _assignment: None))
    found._complaints = SimpleNamespace(take=lambda link, details: taken.append(details))
    socket = Telling()
    link: Any = SimpleNamespace(profile=SimpleNamespace(acknowledges=True), peer=socket)
    for code in ("MODEL_NOT_AVAILABLE", "PROCESSING_ERROR"):
        failed = msgspec.structs.replace(
            result_of(Attempt("job-0-1", 1, "n1", 0)),
            success=False,
            error=JobError(code=code, message="x", details={"code": code}),
        )
        found._confirm(link, failed)
    found._confirm(link, result_of(Attempt("job-0-1", 1, "n1", 0)))
    assert taken == [{"code": "MODEL_NOT_AVAILABLE"}]
    assert socket.messages == [ResultAck(job_id="job-0-1", attempt_id=1)] * 3


async def test_an_adopted_job_of_another_instance_is_passed_on_and_its_slot_freed(store: Store) -> None:
    freed: list[Attempt] = []
    passed: list[Any] = []

    async def free(adopted: Attempt) -> None:
        freed.append(adopted)

    async def pass_on(owner: str, report: Any) -> bool:
        passed.append(owner)
        return True

    found: Any = progress(store, Assignments(lambda _step, _assignment: None))
    found._free, found._pass_on = free, pass_on
    adopted = Attempt("job-0-1", ADOPTED, "n1", 0)
    link = NodeLink("n1", HERE, Wall(), PROFILE, 45_000, Pace(settings_with().nodes))
    report = PendingResult(link, result_of(adopted._replace(number=1)), b"")
    assert await found._let_go(adopted, report, Ended(EndOutcome.ENDED, owner="i-there"))
    assert (freed, passed) == ([adopted], ["i-there"])


async def test_twenty_partials_a_second_of_a_job_are_passed_on(store: Store) -> None:
    assignments, now_s = Assignments(lambda _step, _assignment: None), 100.0
    attempts = [Attempt(f"job-0-{number}", 1, "n1", 0) for number in range(2)]
    for attempt in attempts:
        assignments.open(attempt, work(), "i-here")
    told: list[str] = []
    found = progress(store, assignments)
    found._clock = lambda: now_s
    found._on_partial = lambda _work, message: told.append(message.job_id)
    link = NodeLink("n1", HERE, Wall(), PROFILE, 45_000, Pace(settings_with().nodes))
    for attempt in attempts:
        for _ in range(50):
            found.partial(link, partial_of(attempt, "hel"))
    assert [told.count(attempt.job_id) for attempt in attempts] == [20, 20]
    now_s += 0.5
    for _ in range(50):
        found.partial(link, partial_of(attempts[0], "hello"))
    assert told.count("job-0-0") == 30
