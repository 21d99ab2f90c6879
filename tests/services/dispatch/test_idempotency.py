"""Work with a request id: one job for all who bring it, and never one that runs after its claim was lost."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.requests import BindOutcome, ClaimOutcome, Request
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.services.attempts.work import Outcome, Refusal, Wish, Work
from lingua_scheduler.services.dispatch.idempotency import Placement, Requests, payload_of
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.requests import Claim
from lingua_scheduler.store.store import Store
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
        self.requests: Requests = scheduler._calls._requests
        self.waiting = scheduler._waiting
        self.recovery = scheduler._registry._recovery
        self.store = store
        self.peers = peers

    async def translate(self, work: Work | None = None) -> Outcome | Placement | Refusal:
        return await self.requests.translate(work or work_of())

    async def take_over(self) -> Placement:
        """What another instance does as soon as the lease of a claim is over."""
        claim = Claim(REQUEST, "thief", "i-elsewhere", payload_of(work_of()))

        async def is_ours() -> bool:
            claimed = await self.store.requests.claim(claim, claim_ms=60_000, keep_ms=60_000)
            return claimed.outcome is ClaimOutcome.CLAIMED

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

    async def refuse(claim: Claim, attempt: Attempt, **_: Any) -> BindOutcome:
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

        async def lose_the_first_answer(claim: Claim, attempt: Attempt, *, keep_ms: int) -> BindOutcome:
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


async def test_a_job_whose_lease_ends_while_it_is_bound_is_not_sent(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = {node.node_id: node for node in [await desk.peers.node() for _ in range(2)]}
    bind = desk.store.requests.bind
    tried: list[str] = []

    async def lose_the_first(claim: Claim, attempt: Attempt, *, keep_ms: int) -> BindOutcome:
        tried.append(attempt.node_id)
        if len(tried) == 1:
            assert await desk.recovery.end_disowned([attempt]) == 1
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
    dead = Claim(REQUEST, "dead", "i-dead", payload_of(work_of()))
    await desk.store.requests.claim(dead, claim_ms=100, keep_ms=60_000)
    ended = await desk.translate()
    assert isinstance(ended, Outcome)
    assert ended.state is JobState.DONE
    assert len(node.jobs) == 1


async def test_nobody_waits_for_ever_for_a_claim_of_another(desk: Desk) -> None:
    node = await desk.peers.node()
    stuck = Claim(REQUEST, "stuck", "i-stuck", payload_of(work_of()))
    await desk.store.requests.claim(stuck, claim_ms=60_000, keep_ms=60_000)
    ended = await desk.translate()
    assert isinstance(ended, Refusal)
    assert ended.code is ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED
    assert node.jobs == []


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
