"""The retry policy: which node may have a job again, under which id, and what is told in the end."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs import retry_course
from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, Try, job_id
from lingua_scheduler.domain.jobs.jobs import JobEvent, JobState
from lingua_scheduler.domain.jobs.losses import Loss
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.protocol.node import JobResult
from lingua_scheduler.protocol.shapes import JobError
from lingua_scheduler.services.attempts.reports import Lost, Report
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.dispatch import dispatcher as dispatching
from lingua_scheduler.services.dispatch.placing import Placed
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import Dispatched
from tests.support.callers import caller_of
from tests.support.peers import answer, field, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import work
from tests.support.waiting import until

FAILS = ErrorCode.PROCESSING_ERROR.value
STALE, EXHAUSTED, NOBODY = DispatchOutcome.STALE, DispatchOutcome.EXHAUSTED, DispatchOutcome.NOBODY


class At(NamedTuple):
    """A node gets the job, and this becomes of it: a loss, an error code of its own, or nothing for a result."""

    node_id: str
    ends: str = ""
    acknowledges: bool = True

    def report(self, attempt: Attempt) -> Report:
        if isinstance(self.ends, Loss):
            return Lost(self.ends)
        return JobResult(
            job_id=attempt.job_id,
            attempt_id=attempt.number,
            node_id=self.node_id,
            session_id="s-1",
            utterance_index=0,
            success=not self.ends,
            trace_id="t",
            error=JobError(code=self.ends, message="") if self.ends else None,
        )


class Story:
    """A dispatcher to which all this happens, one after the other; it keeps what was asked for."""

    def __init__(self, dispatcher: dispatching.Dispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Try] = []
        self.jobs = dispatcher._store.jobs
        self._dispatcher = dispatcher
        self._steps: Iterator[At | DispatchOutcome] = iter(())
        self._at: At | None = None
        monkeypatch.setattr(dispatcher._placer, "place", self._place)
        monkeypatch.setattr(dispatcher, "_attempt", self._attempt)
        monkeypatch.setattr(retry_course, "FIRST_RETURN_S", 0.0)

    async def tell(self, *steps: At | DispatchOutcome, asks: Work | None = None) -> Outcome:
        self._steps = iter(steps)
        outcome = await self._dispatcher.translate(asks or work())
        assert next(self._steps, None) is None, "the story ended too early"
        return outcome

    async def _place(self, _: Work, wanted: Try) -> Placed:
        self.asked.append(msgspec.structs.replace(wanted))
        step = next(self._steps)
        if isinstance(step, DispatchOutcome):
            return Placed(step, shard=0)
        self._at = step
        attempt = Attempt(wanted.job_id or job_id(0, wanted.serial), wanted.number, step.node_id, 0)
        features = Features(acknowledges=step.acknowledges)
        return Placed(DispatchOutcome.DISPATCHED, attempt, Dispatched(DispatchOutcome.DISPATCHED, features=features))

    async def _attempt(self, _: Work, __: Try, attempt: Attempt, ___: Dispatched) -> Report:
        assert self._at is not None
        return self._at.report(attempt)


@pytest.fixture
async def story(server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Story]:
    async with scheduler_on(server.url, job__max_retries=10) as (scheduler, _):
        yield Story(scheduler._dispatcher, monkeypatch)


# Which nodes it goes back to


async def test_when_nobody_else_is_left_it_goes_back_to_a_node_that_vanished(story: Story) -> None:
    outcome = await story.tell(At("n1", Loss.NODE_GONE), EXHAUSTED, At("n1"))
    assert outcome.state is JobState.DONE
    assert [wanted.tried for wanted in story.asked] == [(), ("n1",), ()]


async def test_a_node_that_vanished_and_then_failed_the_job_does_not_get_it_again(story: Story) -> None:
    outcome = await story.tell(At("n1", Loss.NODE_GONE), STALE, At("n1", FAILS), EXHAUSTED)
    assert outcome.state is JobState.FAILED
    assert story.asked[-1].tried == ("n1",)


async def test_after_a_lost_result_the_node_that_had_the_job_may_have_it_again(story: Story) -> None:
    outcome = await story.tell(At("n1", FAILS), At("n2", Loss.RESULT_LOST), STALE, At("n2"))
    assert outcome.state is JobState.DONE
    assert story.asked[-1].tried == ("n1",)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((At("n1", FAILS), STALE), id="it failed last"),
        pytest.param((At("n1", FAILS), At("n2", Loss.JOB_TIMEOUT), STALE, STALE), id="closed twice"),
        pytest.param((At("n1", FAILS), At("n2", Loss.NODE_GONE), EXHAUSTED, STALE), id="after going back"),
    ],
)
async def test_a_job_that_was_closed_elsewhere_does_not_go_back_to_a_node_that_failed_it(
    story: Story, steps: tuple[At | DispatchOutcome, ...]
) -> None:
    await story.tell(*steps, At("n3"))
    assert story.asked[-1].tried == ("n1",)


async def test_redis_is_asked_only_about_jobs_that_have_an_id(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = story.jobs
    close, is_cancelled, asked = jobs.close, jobs.is_cancelled, set[tuple[int, str]]()

    async def close_it(shard: int, name: str, *rest: Any) -> bool:
        asked.add((shard, name))
        return await close(shard, name, *rest)

    async def is_it_cancelled(shard: int, name: str) -> bool:
        asked.add((shard, name))
        return await is_cancelled(shard, name)

    monkeypatch.setattr(jobs, "close", close_it)
    monkeypatch.setattr(jobs, "is_cancelled", is_it_cancelled)
    gone = At("n1", Loss.NODE_GONE, acknowledges=False)
    await story.tell(STALE, At("n2", FAILS), gone, STALE, EXHAUSTED, At("n1"))
    ids = {job_id(0, wanted.serial) for wanted in story.asked}
    assert asked
    assert asked <= {(0, name) for name in ids}


# What is told


async def test_every_attempt_is_counted_whichever_id_it_had(story: Story) -> None:
    gone = (At("n1", Loss.NODE_GONE, acknowledges=False), EXHAUSTED)
    outcome = await story.tell(*gone, *gone, NOBODY)
    assert (outcome.state, outcome.attempts, outcome.node_id) == (JobState.FAILED, 2, "n1")
    failed = await story.tell(*gone, At("n2", ErrorCode.INVALID_MESSAGE.value))
    assert (failed.state, failed.attempts, failed.node_id) == (JobState.FAILED, 2, "n2")
    done = await story.tell(*gone, *gone, At("n1"))
    assert (done.state, done.attempts) == (JobState.DONE, 3)


async def test_a_caller_whose_result_was_lost_is_told_so_under_the_id_it_knows(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url) as (scheduler, store),
        field(scheduler.port) as peers,
        caller_of(scheduler.port) as caller,
    ):
        node = await peers.node(stay_silent)
        job = (await caller.dispatch()).body["job_id"]
        await until(lambda: node.jobs)
        # Another instance took the result while we counted as dead, and its letter to us was lost.
        (attempt,) = scheduler._dispatcher._assignments.open_attempts
        record = await store.jobs.read(attempt.shard, attempt.job_id)
        await store.jobs.end(attempt, record["epoch"], JobEvent.FINISH)
        await scheduler._recovery.recheck()
        ended = (await caller.result(job, 10_000)).body
        assert (ended["state"], ended["error"]["code"]) == ("FAILED", "RESULT_LOST")
        assert len(node.jobs) == 1  # nobody waits for another job


async def test_a_job_that_was_cancelled_while_redis_did_not_answer_is_not_begun_anew(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node(answer)
        ask, asked = store.jobs.ask_for_slot, 0

        async def ask_in_vain(shard: int, *order: object) -> object:
            """The slot is leased, and the answer gets lost; before it is asked for again, somebody cancels the job."""
            nonlocal asked
            asked += 1
            if asked > 1:
                return await ask(shard, *order)  # type: ignore[arg-type]
            await ask(shard, *order)  # type: ignore[arg-type]
            (record,) = await store.jobs.latest()
            await store.jobs.cancel(record, 0)
            raise RedisAway("the answer was lost")

        monkeypatch.setattr(store.jobs, "ask_for_slot", ask_in_vain)
        outcome = await scheduler._dispatcher.translate(work())
        assert outcome.state is JobState.CANCELLED
        assert node.jobs == []
