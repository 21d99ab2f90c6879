"""Jobs without a task: the usual course needs none, and whatever is unusual continues in one from where it is."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.requests import Request
from lingua_scheduler.services.attempts.trails import Trail
from lingua_scheduler.services.attempts.work import Binding, Outcome, Wish, Work
from lingua_scheduler.services.dispatch.direct_jobs import DirectJobs, Rest
from lingua_scheduler.services.dispatch.routes import Here
from lingua_scheduler.store.connection import NotDone, RedisAway
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.errors import ErrorCode
from tests.support.peers import FakeNode, Field, acknowledgement, answer, field, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import work
from tests.support.waiting import until


class Caller:
    """Puts jobs to the scheduler, and keeps what became of them."""

    def __init__(self, scheduler: Scheduler, peers: Field) -> None:
        direct = scheduler._intake.direct
        assert direct is not None
        self.direct: DirectJobs = direct
        self.scheduler, self.peers = scheduler, peers
        self.outcomes: list[Outcome] = []
        self.rests: list[Rest] = []
        self.assignments = scheduler._dispatcher._runner._assignments

    def start(self, asked: Work | None = None) -> bool:
        return self.direct.start(asked or work(), self.outcomes.append, self.rests.append)

    async def outcome(self) -> Outcome:
        """Of a job that needed no task."""
        await until(lambda: self.outcomes or self.rests)
        assert self.rests == []
        return self.outcomes.pop()

    async def later(self) -> Outcome:
        """Of a job that continues in a task."""
        await until(lambda: self.rests or self.outcomes)
        assert self.outcomes == []
        assert len(self.direct) == 0
        return await self.rests.pop()()

    async def node(self, does: Any = answer, **more: Any) -> FakeNode:
        node = await self.peers.node(does, **more)
        await until(lambda: self.scheduler._pool_map.map.first_shard("en:zh:speech", 0.5))
        return node


@pytest.fixture
async def caller(server: RedisProcess) -> AsyncIterator[Caller]:
    patient = {"redis__timeout_ms": 30_000, "job__linger_ms": 0}
    async with scheduler_on(server.url, **patient) as (scheduler, _), field(scheduler.port) as peers:
        yield Caller(scheduler, peers)


@pytest.fixture
async def hasty(server: RedisProcess) -> AsyncIterator[Caller]:
    """Its jobs have little time."""
    settings = {"job__timeout_base_ms": 600, "job__reservation_ttl_ms": 2_000, "job__linger_ms": 0}
    async with scheduler_on(server.url, **settings) as (scheduler, _), field(scheduler.port) as peers:
        yield Caller(scheduler, peers)


# The usual course


async def test_a_job_that_its_node_does_needs_no_task(caller: Caller) -> None:
    node = await caller.node()
    before = len(asyncio.all_tasks())
    assert caller.start()
    assert len(caller.direct) == 1
    assert len(asyncio.all_tasks()) == before
    outcome = await caller.outcome()
    assert (outcome.state, outcome.attempts) == (JobState.DONE, 1)
    assert outcome.result is not None
    assert outcome.result.node_id == node.node_id
    assert len(caller.direct) == len(caller.assignments) == 0


async def test_a_session_needs_no_task_for_its_jobs(caller: Caller) -> None:
    node = await caller.node(stay_silent)
    client = await caller.peers.client()
    await client.utterance(0)
    await until(lambda: node.jobs)
    assert (len(caller.direct), len(caller.scheduler._intake.jobs)) == (1, 0)
    assert caller.scheduler._intake.job_count == 1
    assert not caller.scheduler._intake.is_quiet
    await node.socket.send(result_of(node.jobs[0], node.node_id))
    assert (await client.outcome())["type"] == "translation_result"
    assert caller.scheduler._intake.is_quiet


async def test_a_node_that_moves_on_has_its_time_from_then_on(hasty: Caller) -> None:
    async def take_long(node: FakeNode, job: dict[str, Any]) -> None:
        """Longer than it had for the acknowledgement, which is shorter than what a job may take."""
        await node.socket.send(acknowledgement(job, node.node_id))
        await until(lambda: node.socket.of_type("job_grant"))
        await asyncio.sleep(2.2)
        await node.socket.send(result_of(job, node.node_id))

    await hasty.node(take_long, advanced_features=["job_ack"])
    assert hasty.start(work(duration_ms=60_000))
    assert (await hasty.outcome()).state is JobState.DONE


async def test_a_turn_sticks_to_the_node_of_its_first_job(caller: Caller) -> None:
    for _ in range(3):
        await caller.node()
    binding = Binding()
    assert caller.start(work(binding=binding))
    first = await caller.outcome()
    assert first.result is not None
    assert binding.node_id == first.result.node_id
    for index in range(4):
        assert caller.start(work(binding=binding, utterance_index=index + 1))
        again = await caller.outcome()
        assert again.result is not None
        assert again.result.node_id == binding.node_id


# What is unusual from the beginning


@pytest.mark.parametrize(
    "asked",
    [
        work(trail=Trail.__new__(Trail)),
        work(request=Request("", "s", "r")),
        work(wish=Wish(preferred_node="n")),
        work(wish=Wish(affinity_key="k")),
    ],
    ids=["a trace", "a request id", "a preferred node", "an affinity key"],
)
async def test_what_takes_more_steps_is_left_to_a_task(caller: Caller, asked: Work) -> None:
    await caller.node()
    assert not caller.start(asked)
    assert len(caller.direct) == 0


async def test_debug_events_are_told_by_a_task(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    await caller.node()
    monkeypatch.setattr(logs, "shows_debug", True)
    assert not caller.start()


async def test_where_nobody_serves_the_pair_nothing_is_asked(caller: Caller) -> None:
    assert not caller.start()


async def test_behind_a_line_it_is_left_to_a_task(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    node = await caller.node()
    waiting: set[str] = {work().pools[0]}
    monkeypatch.setattr(caller.scheduler._waiting, "must_queue", waiting.__contains__)
    assert not caller.start()
    waiting = {f"node {node.node_id}"}
    monkeypatch.setattr(caller.scheduler._waiting, "must_queue", waiting.__contains__)
    assert not caller.start(work(binding=Binding(node.node_id, 0)))
    assert caller.start()
    assert (await caller.outcome()).state is JobState.DONE


async def test_while_what_nodes_run_is_not_known_again_it_is_left_to_a_task(caller: Caller) -> None:
    await caller.node()
    caller.direct.placer.settled.clear()
    assert not caller.start()
    caller.direct.placer.settled.set()
    assert caller.start()
    assert (await caller.outcome()).state is JobState.DONE


async def test_if_too_many_wait_for_redis_a_task_waits_too(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    await caller.node()
    with monkeypatch.context() as context:
        context.setattr(caller.scheduler._dispatcher._store.jobs._batches, "_max_pending", 0)
        assert caller.start()
    assert (await caller.later()).state is JobState.DONE


# What becomes unusual on the way


@pytest.mark.parametrize("error", [RedisAway("gone"), NotDone("it was not sent")], ids=["in doubt", "not done"])
async def test_if_redis_goes_away_a_task_asks_again(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, error: RedisAway
) -> None:
    await caller.node()
    lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    cleaned: list[object] = []
    leftovers = caller.scheduler._dispatcher.leftovers
    monkeypatch.setattr(leftovers, "let_go", lambda wanted, *_: cleaned.append(wanted.doubtful))
    with monkeypatch.context() as context:
        context.setattr(caller.scheduler._dispatcher._store.jobs, "dispatch", lambda *_: lost)
        assert caller.start()
        lost.set_exception(error)
        await until(lambda: caller.rests)
    assert (await caller.later()).state is JobState.DONE
    # Redis may have leased a slot that is not used.
    assert cleaned == ([] if isinstance(error, NotDone) else [(0,)])


async def test_without_a_free_slot_a_task_waits_for_one(caller: Caller) -> None:
    node = await caller.node(stay_silent, max_concurrent_jobs=1)
    assert caller.start(work(duration_ms=20_000))
    await until(lambda: node.jobs)
    assert caller.start(work(utterance_index=1))
    await until(lambda: caller.rests)
    waiting = asyncio.create_task(caller.rests.pop()())
    await until(lambda: len(caller.scheduler._waiting) == 1)
    await node.socket.send(result_of(node.jobs[0], node.node_id))
    assert (await caller.outcome()).state is JobState.DONE
    await until(lambda: len(node.jobs) == 2)
    await node.socket.send(result_of(node.jobs[1], node.node_id))
    assert (await waiting).state is JobState.DONE


async def test_a_bound_node_that_is_gone_is_replaced_by_a_task(caller: Caller) -> None:
    node = await caller.node()
    binding = Binding("node-that-left", 0)
    assert caller.start(work(binding=binding))
    assert (await caller.later()).state is JobState.DONE
    assert binding.node_id == node.node_id


async def test_a_job_that_its_node_failed_is_tried_again_by_a_task(caller: Caller) -> None:
    async def fail(node: FakeNode, job: dict[str, Any]) -> None:
        error = {"code": "PROCESSING_ERROR", "message": "no"}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))

    bad = await caller.node(fail)
    assert caller.start()
    await until(lambda: caller.rests)
    good = await caller.node()
    outcome = await caller.later()
    assert outcome.result is not None
    assert (outcome.result.node_id, outcome.attempts) == (good.node_id, 2)
    assert len(bad.jobs) == 1
    assert len(caller.assignments) == 0


async def test_a_job_whose_node_leaves_is_tried_again_by_a_task(caller: Caller) -> None:
    node = await caller.node(stay_silent)
    assert caller.start(work(duration_ms=20_000))
    await until(lambda: node.jobs)
    node.socket.cut()
    await until(lambda: caller.rests)
    good = await caller.node()
    outcome = await caller.later()
    assert outcome.result is not None
    assert (outcome.result.node_id, outcome.attempts) == (good.node_id, 2)


async def test_a_job_whose_time_is_up_is_ended_by_a_task(hasty: Caller) -> None:
    node = await hasty.node(stay_silent)
    assert hasty.start()
    await until(lambda: node.jobs)
    outcome = await hasty.later()
    assert (outcome.state, outcome.error) == (JobState.FAILED, ErrorCode.JOB_TIMEOUT)
    assert [frame["job_id"] for frame in node.socket.of_type("job_cancel")] == [node.jobs[0]["job_id"]]


async def test_a_cancelled_job_is_ended_by_a_task(caller: Caller) -> None:
    node = await caller.node(stay_silent)
    assert caller.start(work(duration_ms=20_000))
    await until(lambda: node.jobs)
    caller.assignments.cancel(node.jobs[0]["job_id"])
    assert (await caller.later()).state is JobState.CANCELLED
    await until(lambda: node.socket.of_type("job_cancel"))


async def test_a_message_that_cannot_be_sent_is_sent_again_by_a_task(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await caller.node()
    with monkeypatch.context() as context:
        context.setattr(Here, "post", lambda *_: False)
        assert caller.start()
        await until(lambda: caller.rests)
    assert node.jobs == []
    outcome = await caller.later()
    assert (outcome.state, outcome.attempts) == (JobState.DONE, 1)


async def test_a_node_that_is_lost_while_the_job_is_sent_is_noticed(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await caller.node()
    sent = caller.assignments.sent

    def cancel(assignment: Any) -> None:
        sent(assignment)
        caller.assignments.cancel(assignment.attempt.job_id)

    monkeypatch.setattr(caller.assignments, "sent", cancel)
    assert caller.start()
    assert (await caller.later()).state is JobState.CANCELLED


# What nobody expects


@pytest.mark.expects_surprise("job.surprised")
async def test_every_job_gets_an_outcome_also_if_something_breaks(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await caller.node()

    def break_down(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as context:
        context.setattr(caller.direct.placer, "ask", break_down)
        assert caller.start()
        assert (await caller.outcome()).error is ErrorCode.INTERNAL_ERROR
    with monkeypatch.context() as context:
        context.setattr(caller.direct.runner, "open", break_down)
        assert caller.start()
        outcome = await caller.outcome()
        assert (outcome.state, outcome.error) == (JobState.FAILED, ErrorCode.INTERNAL_ERROR)
    with monkeypatch.context() as context:
        context.setattr(caller.direct.dispatcher, "ended", break_down)
        assert caller.start()
        assert (await caller.outcome()).error is ErrorCode.INTERNAL_ERROR
    assert len(caller.direct) == len(caller.assignments) == 0


@pytest.mark.expects_surprise("job.surprised")
async def test_a_caller_that_breaks_does_not_disturb_the_node(caller: Caller) -> None:
    await caller.node()

    def break_down(_: Outcome) -> None:
        raise ZeroDivisionError

    assert caller.direct.start(work(), break_down, caller.rests.append)
    await until(lambda: not len(caller.direct))
    assert caller.start()
    assert (await caller.outcome()).state is JobState.DONE


@pytest.mark.expects_surprise("job.surprised")
async def test_an_unreadable_reply_is_an_outcome_too(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    await caller.node()
    lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(caller.scheduler._dispatcher._store.jobs, "dispatch", lambda *_: lost)
    assert caller.start()
    lost.set_exception(ValueError("not a reply"))
    assert (await caller.outcome()).error is ErrorCode.INTERNAL_ERROR


# The end of the process


async def test_a_stop_waits_for_jobs_without_a_task(caller: Caller) -> None:
    node = await caller.node(stay_silent)
    assert await caller.direct.settle(0.01) == 0
    assert caller.start(work(duration_ms=20_000))
    await until(lambda: node.jobs)
    assert await caller.direct.settle(0.01) == 1
    settling = asyncio.create_task(caller.direct.settle(20))
    await asyncio.sleep(0)
    assert not settling.done()
    await node.socket.send(result_of(node.jobs[0], node.node_id))
    assert await settling == 0
    assert (await caller.outcome()).state is JobState.DONE


async def test_jobs_that_do_not_end_in_time_are_followed_no_longer(caller: Caller) -> None:
    node = await caller.node(stay_silent)
    assert caller.start(work(duration_ms=20_000))
    await until(lambda: node.jobs)
    # One that Redis has not answered about, and one that its node has.
    assert caller.start(work(utterance_index=1))
    assert len(caller.direct) == 2
    caller.direct.close()
    assert len(caller.direct) == len(caller.assignments) == 0
    await until(lambda: not caller.scheduler._dispatcher._store.jobs._batches.pending)
    await node.socket.send(result_of(node.jobs[0], node.node_id))
    await until(lambda: not caller.scheduler._dispatcher._store.jobs._batches.pending)
    assert (caller.outcomes, caller.rests) == ([], [])
