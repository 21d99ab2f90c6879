"""Work with a request id: one job for all who bring it, and never one that runs after its claim was lost."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.requests import BindOutcome, Request, RequestClaimOutcome
from lingua_scheduler.domain.jobs.retry_steps import REFUSED
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.services.attempts.work import Outcome, Refusal, Wish, Work
from lingua_scheduler.services.dispatch import idempotency
from lingua_scheduler.services.dispatch.idempotency import IdempotentRequests, Placement, payload_of
from lingua_scheduler.store.connection import RedisAway, WritesRefused
from lingua_scheduler.store.jobs.records import JobRecord
from lingua_scheduler.store.jobs.requests import RequestClaim
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.errors import ErrorCode
from tests.support.fleet import ledger
from tests.support.peers import FakeNode, Field, Frame, answer, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until

REQUEST = Request("", "s-00000001", "r")


def work_of(request: Request | None = REQUEST, **more: Any) -> Work:
    work = Work(
        session_id="s-00000001",
        utterance_index=0,
        terms=Terms("en", "zh"),
        pools=("en:zh:speech",),
        audio=b"\0\1" * 320,
        audio_format="pcm16",
        sample_rate=16_000,
        duration_ms=20,
        trace_id="t",
        turn_id="t",
        reason=CutReason.IS_FINAL,
        padding_ms=0,
        request=request,
    )
    return msgspec.structs.replace(work, **more)


class Desk:
    """The service of a whole scheduler, its store and its peers."""

    def __init__(self, scheduler: Scheduler, store: Store, peers: Field) -> None:
        self.requests: IdempotentRequests = scheduler._calls._requests
        self.waiting = scheduler._waiting
        self.endings = scheduler._dispatcher._runner._endings
        self.store = store
        self.peers = peers

    async def translate(self, work: Work | None = None) -> Outcome | Placement | Refusal:
        return await self.requests.translate(work or work_of())

    async def take_over(self) -> Placement:
        """What another instance does as soon as the lease of a claim is over."""
        claim = RequestClaim(REQUEST, "thief", "i-elsewhere", payload_of(work_of()))

        async def is_ours() -> bool:
            claimed = await self.store.requests.claim(claim, claim_ms=60_000, keep_ms=60_000)
            return claimed.outcome is RequestClaimOutcome.CLAIMED

        await until(is_ours)
        await self.store.requests.bind(claim, Attempt("job-0-theirs", 1, "n-theirs", 0), keep_ms=60_000)
        return Placement("job-0-theirs", "n-theirs", 1)


@pytest.fixture
async def desk(server: RedisProcess) -> AsyncIterator[Desk]:
    async with scheduler_on(server.url, requests__claim_ms=200) as (scheduler, store), field(scheduler.port) as peers:
        yield Desk(scheduler, store, peers)


class Gate:
    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, node: FakeNode, job: Frame) -> None:
        await self.opened.wait()
        await answer(node, job)


def job_of(ended: Outcome | Placement | Refusal) -> str:
    assert not isinstance(ended, Refusal), ended
    return ended.job_id


async def test_work_without_a_request_id_is_translated_each_time(desk: Desk) -> None:
    node = await desk.peers.node()
    for _ in range(2):
        ended = await desk.translate(work_of(None))
        assert isinstance(ended, Outcome)
        assert ended.state is JobState.DONE
    assert len(node.jobs) == 2


async def test_of_all_who_bring_a_request_one_gets_the_outcome(desk: Desk) -> None:
    node = await desk.peers.node()
    ended = await asyncio.gather(*(desk.translate() for _ in range(20)))
    assert [type(one) for one in ended].count(Outcome) == 1
    assert len({job_of(one) for one in ended}) == 1
    assert len(node.jobs) == 1


async def test_a_repeat_may_have_another_place_in_its_session(desk: Desk) -> None:
    await desk.peers.node()
    first = await desk.translate()
    again = await desk.translate(work_of(utterance_index=7, trace_id="u", turn_id="u"))
    assert isinstance(again, Placement)
    assert again.job_id == job_of(first)


@pytest.mark.parametrize(
    "other",
    [
        {"audio": b"\0\2" * 320},
        {"terms": Terms("en", "zh", features={"a": True})},
        {"wish": Wish(affinity_key="k")},
        {"audio_ref": "x"},
    ],
)
async def test_the_same_id_for_something_else_is_refused(desk: Desk, other: dict[str, Any]) -> None:
    node = await desk.peers.node()
    await desk.translate()
    ended = await desk.translate(work_of(**other))
    assert isinstance(ended, Refusal)
    assert ended.code is ErrorCode.REQUEST_CONFLICT
    assert len(node.jobs) == 1


def test_the_order_of_features_does_not_matter() -> None:
    one, two = ({"a": True, "b": False}, {"b": False, "a": True})
    assert payload_of(work_of(terms=Terms("en", "zh", features=one))) == payload_of(
        work_of(terms=Terms("en", "zh", features=two))
    )


async def test_who_lost_its_claim_in_line_never_sends_and_answers_with_the_winners_job(desk: Desk) -> None:
    gate = Gate()
    node = await desk.peers.node(gate, max_concurrent_jobs=1)
    blocker = asyncio.create_task(desk.translate(work_of(None)))
    await until(lambda: node.jobs)
    slow = asyncio.create_task(desk.translate())
    await until(lambda: len(desk.waiting) == 1)
    theirs = await desk.take_over()
    gate.opened.set()
    assert await slow == theirs
    await blocker
    assert len(node.jobs) == 1
    assert await ledger(desk.store, node.node_id) == (0, 1, 0)


async def test_a_withdrawn_job_is_written_as_cancelled(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    node = await desk.peers.node()
    withdrawn: list[Attempt] = []

    async def refuse(claim: RequestClaim, attempt: Attempt, **_: Any) -> BindOutcome:
        withdrawn.append(attempt)
        await desk.store.requests.release(claim)
        await desk.take_over()
        return BindOutcome.LOST

    monkeypatch.setattr(desk.store.requests, "bind", refuse, raising=True)
    binding = asyncio.create_task(desk.translate())
    await until(lambda: withdrawn)
    monkeypatch.undo()
    assert job_of(await binding) == "job-0-theirs"
    job = await desk.store.jobs.find(withdrawn[0].job_id)
    assert job is not None
    assert (job.state, job.reason) == ("CANCELLED", "withdrawn")
    assert node.jobs == []
    assert await ledger(desk.store, node.node_id) == (0, 4, 0)


async def test_a_bind_whose_answer_is_lost_is_undone_before_the_next_try(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"dispatch__queue_wait_ms": 0}
    async with scheduler_on(server.url, **changes) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node()
        bind = store.requests.bind
        jobs: list[str] = []

        async def lose_the_first_answer(claim: RequestClaim, attempt: Attempt, *, keep_ms: int) -> BindOutcome:
            outcome = await bind(claim, attempt, keep_ms=keep_ms)
            jobs.append(attempt.job_id)
            if len(jobs) == 1:
                raise RedisAway("the answer was lost")
            return outcome

        monkeypatch.setattr(store.requests, "bind", lose_the_first_answer)
        ended = await scheduler._calls._requests.translate(work_of())
        assert isinstance(ended, Outcome)
        assert ended.state is JobState.DONE
        assert [job["job_id"] for job in node.jobs] == [ended.job_id] == jobs[1:]


async def test_a_request_whose_claim_can_neither_be_bound_nor_released_is_told_so_once(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be bound to a job that was withdrawn: to claim it again would find that one."""
    changes = {"dispatch__queue_wait_ms": 0}
    async with scheduler_on(server.url, **changes) as (scheduler, store), field(scheduler.port) as peers:
        node, claims, claim = await peers.node(), 0, store.requests.claim

        async def away(*_: Any, **__: Any) -> None:
            raise RedisAway("gone")

        async def counted(*given: Any, **named: Any) -> Any:
            nonlocal claims
            claims += 1
            return await claim(*given, **named)

        monkeypatch.setattr(store.requests, "bind", away)
        monkeypatch.setattr(store.requests, "release", away)
        monkeypatch.setattr(store.requests, "claim", counted)
        ended = await scheduler._calls._requests.translate(work_of())
        assert isinstance(ended, Outcome)
        assert (ended.state, ended.error) == (JobState.FAILED, ErrorCode.SCHEDULER_DEPENDENCY_DOWN)
        assert (claims, node.jobs) == (1, [])


async def test_a_job_whose_lease_ends_while_it_is_bound_is_not_sent(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = {node.node_id: node for node in [await desk.peers.node() for _ in range(2)]}
    bind = desk.store.requests.bind
    tried: list[str] = []

    async def lose_the_first(claim: RequestClaim, attempt: Attempt, *, keep_ms: int) -> BindOutcome:
        tried.append(attempt.node_id)
        if len(tried) == 1:
            assert await desk.endings.end_disowned([attempt]) == 1
        return await bind(claim, attempt, keep_ms=keep_ms)

    monkeypatch.setattr(desk.store.requests, "bind", lose_the_first)
    ended = await desk.translate()
    assert isinstance(ended, Outcome)
    assert ended.state is JobState.DONE
    assert nodes[tried[0]].jobs == []
    assert [job["attempt_id"] for job in nodes[tried[1]].jobs] == [2]
    assert await desk.translate() == Placement(ended.job_id, tried[1], 2)


async def test_a_request_that_came_to_nothing_may_be_tried_anew(desk: Desk) -> None:
    ended = await desk.translate()
    assert isinstance(ended, Outcome)
    assert ended.error is ErrorCode.NO_CAPABLE_NODE
    assert await desk.store.line.call("EXISTS", desk.store.keys.request(*REQUEST)) == 0
    await desk.peers.node()
    again = await desk.translate()
    assert isinstance(again, Outcome)
    assert again.state is JobState.DONE


async def test_a_repeat_takes_over_from_an_instance_that_died(desk: Desk) -> None:
    node = await desk.peers.node()
    dead = RequestClaim(REQUEST, "dead", "i-dead", payload_of(work_of()))
    await desk.store.requests.claim(dead, claim_ms=100, keep_ms=60_000)
    ended = await desk.translate()
    assert isinstance(ended, Outcome)
    assert ended.state is JobState.DONE
    assert len(node.jobs) == 1


async def test_nobody_waits_for_ever_for_a_claim_of_another(desk: Desk) -> None:
    node = await desk.peers.node()
    stuck = RequestClaim(REQUEST, "stuck", "i-stuck", payload_of(work_of()))
    await desk.store.requests.claim(stuck, claim_ms=60_000, keep_ms=60_000)
    ended = await desk.translate()
    assert isinstance(ended, Refusal)
    assert ended.code is ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED
    assert node.jobs == []


async def test_a_claim_of_another_is_looked_at_less_and_less_often(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = RequestClaim(REQUEST, "stuck", "i-stuck", payload_of(work_of()))
    await desk.store.requests.claim(stuck, claim_ms=60_000, keep_ms=60_000)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            await desk.store.requests.release(stuck)

    monkeypatch.setattr(idempotency, "asyncio", SimpleNamespace(sleep=pause))
    await desk.peers.node()
    assert isinstance(await desk.translate(), Outcome)
    assert pauses == [0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.25, 0.25]


async def test_without_redis_a_request_fails_and_says_so() -> None:
    redis = RedisProcess(str(binaries()["valkey"]))
    try:
        async with scheduler_on(redis.url, dispatch__queue_wait_ms=50) as (scheduler, store):
            redis.stop()
            await until(lambda: not store.is_ready)
            ended = await scheduler._calls._requests.translate(work_of())
            assert isinstance(ended, Outcome)
            assert ended.error is ErrorCode.SCHEDULER_DEPENDENCY_DOWN
    finally:
        redis.stop()


async def test_a_surprise_between_the_slot_and_the_job_leaves_nobody_waiting_for_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def surprise(*_: object) -> bool:
        raise LookupError("a fault of ours")

    node = await desk.peers.node()
    monkeypatch.setattr(desk.requests, "bind", surprise)
    with pytest.raises(LookupError):
        await desk.translate()
    assert desk.requests._dispatcher._runner._assignments.open_attempts == []
    assert node.jobs == []


async def test_while_redis_refuses_writes_a_request_is_not_kept_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def refuse(*_: object, **__: object) -> None:
        nonlocal asked
        asked += 1
        raise WritesRefused("read only")

    monkeypatch.setattr(desk.store.requests, "claim", refuse)
    ended = await desk.translate()
    assert isinstance(ended, Outcome)
    assert (ended.error, ended.detail) == (ErrorCode.SCHEDULER_DEPENDENCY_DOWN, REFUSED)
    assert asked == 1


async def test_a_bound_request_whose_instance_is_unknown_for_lack_of_redis_is_left_to_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RedisAway("gone at that moment")

    theirs = await desk.take_over()
    monkeypatch.setattr(desk.store.jobs, "find", fail)
    assert await desk.translate() == theirs


@pytest.mark.parametrize("is_alive", [True, False])
async def test_a_request_bound_to_a_job_whose_instance_died_is_begun_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_alive: bool
) -> None:
    node = await desk.peers.node()
    theirs = await desk.take_over()

    async def find(job_id: str) -> JobRecord:
        return JobRecord(job_id, 0, "DISPATCHED", 1, "n1", (), "s-1", 0, "i-elsewhere", "", "", {}, (), "")

    async def alive(instance: str) -> bool:
        assert instance == "i-elsewhere"
        return is_alive

    monkeypatch.setattr(desk.store.jobs, "find", find)
    monkeypatch.setattr(desk.requests, "is_alive", alive)
    ended = await desk.translate()
    if is_alive:
        assert ended == theirs
    else:
        assert isinstance(ended, Outcome)
        assert ended.state is JobState.DONE
    assert len(node.jobs) == (0 if is_alive else 1)


async def test_the_job_of_a_caller_that_left_is_neither_bound_nor_sent(desk: Desk) -> None:
    node = await desk.peers.node()
    told: list[Attempt] = []

    class Left:
        is_waiting = False

        def placed(self, attempt: Attempt) -> bool:
            told.append(attempt)
            return False

    ended = await desk.requests.translate(work_of(), Left())
    assert isinstance(ended, Outcome)
    assert ended.state is JobState.CANCELLED
    assert (told, node.jobs) == ([], [])
    # A repeat is a request of its own.
    again = await desk.translate()
    assert isinstance(again, Outcome)
    assert (again.state, len(node.jobs)) == (JobState.DONE, 1)
