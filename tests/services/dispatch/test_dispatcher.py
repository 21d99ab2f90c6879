"""The retry policy: which node may have a job again, under which id, and what is told in the end."""

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest

from lingua_scheduler.domain.jobs import retry_course
from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, Try
from lingua_scheduler.domain.jobs.job_ids import JobId
from lingua_scheduler.domain.jobs.jobs import JobEvent, JobState
from lingua_scheduler.domain.jobs.retry_steps import CANCELLED
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.services.attempts.reports import Cancelled, LostAttempt, Report, answered
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.dispatch import dispatcher as dispatching
from lingua_scheduler.services.dispatch.placing import Placed
from lingua_scheduler.services.dispatch.running import Slot
from lingua_scheduler.store.connection import RedisAway, WritesRefused
from lingua_scheduler.store.jobs.jobs import Dispatched
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.losses import Loss
from lingua_sdk.protocol.node import JobResult
from lingua_sdk.protocol.shapes import JobError
from tests.support.callers import caller_of
from tests.support.fleet import ledger
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
        if self.ends is Loss.CANCELLED:
            return Cancelled()
        if isinstance(self.ends, Loss):
            return LostAttempt(self.ends)
        result = JobResult(
            job_id=attempt.job_id,
            attempt_id=attempt.number,
            node_id=self.node_id,
            session_id="s-1",
            utterance_index=0,
            success=not self.ends,
            trace_id="t",
            error=JobError(code=self.ends, message="") if self.ends else None,
        )
        return answered(result)


class Story:
    """A dispatcher to which all this happens, one after the other; it keeps what was asked for."""

    def __init__(self, dispatcher: dispatching.Dispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Try] = []
        self.jobs = dispatcher._store.jobs
        self.placer, self.recorder = dispatcher._placer, dispatcher._recorder
        self.dispatcher = dispatcher
        self._steps: Iterator[At | DispatchOutcome] = iter(())
        self._at: At | None = None
        monkeypatch.setattr(dispatcher._placer, "place", self._place)
        monkeypatch.setattr(dispatcher._runner, "_run", self._attempt)
        monkeypatch.setattr(retry_course, "RETURNS", Backoff(0.0, 0.0))

    async def tell(self, *steps: At | DispatchOutcome, asks: Work | None = None) -> Outcome:
        self._steps = iter(steps)
        outcome = await self.dispatcher.translate(asks or work())
        assert next(self._steps, None) is None, "the story ended too early"
        return outcome

    async def _place(self, _: Work, wanted: Try) -> Placed:
        self.asked.append(msgspec.structs.replace(wanted))
        step = next(self._steps)
        if isinstance(step, DispatchOutcome):
            return Placed(step, shard=0)
        self._at = step
        attempt = Attempt(wanted.id_in(0), wanted.number, step.node_id, 0)
        features = Features(acknowledges=step.acknowledges)
        return Placed(DispatchOutcome.DISPATCHED, attempt, Dispatched(DispatchOutcome.DISPATCHED, features=features))

    async def _attempt(self, _: Work, __: Try, slot: Slot, ___: object = None) -> Report:
        assert self._at is not None
        return self._at.report(slot.attempt)


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
    ids = {str(JobId(0, wanted.serial)) for wanted in story.asked}
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
        (attempt,) = scheduler._dispatcher._runner._assignments.open_attempts
        record = await store.jobs.read(attempt.shard, attempt.job_id)
        await store.jobs.end(attempt, record["epoch"], JobEvent.FINISH)
        await scheduler._dispatcher._runner._endings.recheck()
        ended = (await caller.result(job, 10_000)).body
        assert (ended["state"], ended["error"]["code"]) == ("FAILED", "RESULT_LOST")
        assert len(node.jobs) == 1  # nobody waits for another job


async def test_a_job_that_was_cancelled_while_redis_did_not_answer_is_not_begun_anew(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node(answer)
        ask, asked = store.jobs.dispatch, 0

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

        monkeypatch.setattr(store.jobs, "dispatch", ask_in_vain)
        outcome = await scheduler._dispatcher.translate(work())
        assert outcome.state is JobState.CANCELLED
        assert node.jobs == []


async def test_a_job_whose_attempts_are_used_up_says_in_its_explanation_why(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr(story.recorder, "explain", lambda *given: told.append(given))
    outcome = await story.tell(At("n1", FAILS), EXHAUSTED)
    # First why it was tried again, then why it was given up.
    assert [given[1:4] for given in told] == [(0, outcome.job_id, ("n1",))] * 2
    assert told[-1][4] == outcome.detail != told[0][4]


async def test_while_redis_refuses_writes_a_job_that_waited_for_it_is_not_kept_waiting(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [RedisAway("gone"), WritesRefused("read only")]
    asked = 0

    async def refuse(_: Work, __: Try) -> Placed:
        nonlocal asked
        asked += 1
        raise errors.pop(0)

    monkeypatch.setattr(story.placer, "place", refuse)
    outcome = await story.tell()
    assert (outcome.state, outcome.error) == (JobState.FAILED, ErrorCode.SCHEDULER_DEPENDENCY_DOWN)
    assert asked == 2


# What is told in the end


async def test_the_outcome_tells_who_had_the_job_how_often_and_how_long(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(100, 1_000, 2))
    monkeypatch.setattr(story.dispatcher, "_clock", lambda: float(next(seconds)))
    heard: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        story.dispatcher, "on_ended", lambda attempt, _, away_s, ms: heard.append((attempt, away_s, ms))
    )
    before = story.dispatcher.retries_made
    outcome = await story.tell(At("n1", FAILS), At("n2"), asks=work(duration_ms=900))
    assert (outcome.state, outcome.attempts, outcome.away_ms) == (JobState.DONE, 2, 2_000.0)
    assert outcome.result is not None
    assert (outcome.job_id, outcome.error, outcome.result.node_id) == (story.asked[0].id_in(0), None, "n2")
    assert [(one.node_id, one.number, away_s, ms) for one, away_s, ms in heard] == [
        ("n1", 1, 2.0, 900),
        ("n2", 2, 2.0, 900),
    ]
    assert story.dispatcher.retries_made == before + 1


async def test_audio_that_the_node_fetches_has_no_known_length(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    monkeypatch.setattr(story.dispatcher, "on_ended", lambda *about: heard.append(about[3]))
    await story.tell(At("n1"), asks=work(duration_ms=900, audio_ref="https://there/x"))
    assert heard == [0]


async def test_an_error_that_no_other_node_would_mend_ends_the_job(story: Story) -> None:
    outcome = await story.tell(At("n1", FAILS), At("n2", "INVALID_MESSAGE"))
    assert (outcome.state, outcome.error, outcome.result) == (JobState.FAILED, ErrorCode.INVALID_MESSAGE, None)
    assert (outcome.node_id, outcome.attempts, outcome.job_id) == ("n2", 2, story.asked[0].id_in(0))


async def test_a_job_that_is_cancelled_at_its_node_is_cancelled(story: Story) -> None:
    outcome = await story.tell(At("n1", Loss.CANCELLED))
    assert (outcome.state, outcome.error, outcome.detail) == (JobState.CANCELLED, None, CANCELLED.detail)
    assert outcome.job_id == story.asked[0].id_in(0)


async def test_a_job_without_a_node_says_what_is_missing(story: Story) -> None:
    outcome = await story.tell(NOBODY)
    assert (outcome.state, outcome.error) == (JobState.FAILED, ErrorCode.NO_CAPABLE_NODE)
    assert outcome.detail == await story.recorder.missing_for(work())
    assert (outcome.node_id, outcome.attempts) == ("", 0)


async def test_attempts_that_are_used_up_fail_with_the_last_node(story: Story) -> None:
    outcome = await story.tell(At("n1", FAILS), EXHAUSTED)
    assert (outcome.state, outcome.node_id, outcome.attempts) == (JobState.FAILED, "n1", 1)
    assert outcome.detail


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_job_that_cannot_be_closed_was_cancelled_or_is_over(
    story: Story, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    async def close(*_: object) -> bool:
        return False

    async def is_it_cancelled(*_: object) -> bool:
        return is_cancelled

    monkeypatch.setattr(story.jobs, "close", close)
    monkeypatch.setattr(story.jobs, "is_cancelled", is_it_cancelled)
    outcome = await story.tell(At("n1", FAILS), EXHAUSTED)
    expected = (JobState.CANCELLED, CANCELLED.detail) if is_cancelled else (JobState.FAILED, outcome.detail)
    assert (outcome.state, outcome.detail) == expected
    assert outcome.job_id == story.asked[0].id_in(0)


@pytest.mark.parametrize(("is_closed", "is_cancelled"), [(True, True), (False, True), (False, False)])
async def test_a_job_begins_anew_unless_it_was_cancelled_meanwhile(
    story: Story, monkeypatch: pytest.MonkeyPatch, is_closed: bool, is_cancelled: bool
) -> None:
    async def close(*_: object) -> bool:
        return is_closed

    async def is_it_cancelled(*_: object) -> bool:
        return is_cancelled

    monkeypatch.setattr(story.jobs, "close", close)
    monkeypatch.setattr(story.jobs, "is_cancelled", is_it_cancelled)
    # A node that does not acknowledge may answer under the old id yet.
    steps = (At("n1", Loss.NODE_GONE, acknowledges=False), EXHAUSTED)
    if is_cancelled and not is_closed:
        assert (await story.tell(*steps)).state is JobState.CANCELLED
    else:
        assert (await story.tell(*steps, At("n1"))).state is JobState.DONE
        assert len({wanted.id_in(0) for wanted in story.asked}) == 2


def test_the_time_a_job_may_run_grows_with_its_audio_up_to_a_limit(story: Story) -> None:
    dispatcher, settings = story.dispatcher, story.dispatcher._settings
    assert dispatcher._run_ms(work(duration_ms=0)) == settings.timeout_base_ms
    assert dispatcher._run_ms(work(duration_ms=1_000)) == settings.timeout_base_ms + 1_000 * settings.timeout_factor
    assert dispatcher._run_ms(work(duration_ms=10_000_000)) == settings.timeout_max_ms


async def test_serials_are_not_used_twice_and_a_job_has_a_deadline(story: Story) -> None:
    first, second = story.dispatcher.begin(work()).wanted, story.dispatcher.begin(work()).wanted
    assert first.id_in(0) != second.id_in(0)
    assert first.number == 1
    left_s = first.give_up_at - story.dispatcher._clock()
    assert left_s == pytest.approx(story.dispatcher._settings.deadline_ms / 1000, abs=5)


async def test_a_slot_that_was_leased_for_a_job_that_cannot_be_placed_is_freed(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node(answer, max_concurrent_jobs=2)
        ask, taken = store.jobs.dispatch, list[tuple[int, int | None, int]]()

        async def lease_and_lose_the_answer(shard: int, *order: object) -> object:
            if taken:
                raise WritesRefused("read only from here on")
            await ask(shard, *order)  # type: ignore[arg-type]
            taken.append(await ledger(store, node.node_id))
            raise RedisAway("the answer was lost")

        monkeypatch.setattr(store.jobs, "dispatch", lease_and_lose_the_answer)
        outcome = await scheduler._dispatcher.translate(work())
        # At once: the sweep would end the lease at its deadline.
        assert len(scheduler._dispatcher.leftovers.tasks) == 1
        assert (outcome.state, outcome.error) == (JobState.FAILED, ErrorCode.SCHEDULER_DEPENDENCY_DOWN)
        assert taken == [(1, 1, 1)]

        async def is_free() -> bool:
            return await ledger(store, node.node_id) == (0, 2, 0)

        await until(is_free)


async def test_before_a_job_continues_under_another_id_it_pauses(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_course, "RETURNS", Backoff(7.0, 7.0))
    pauses: list[float] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    monkeypatch.setattr(dispatching, "asyncio", SimpleNamespace(sleep=sleep))
    outcome = await story.tell(At("n1", Loss.NODE_GONE, acknowledges=False), EXHAUSTED, At("n1"))
    assert outcome.state is JobState.DONE
    assert len(pauses) == 1
    assert 0 < pauses[0] <= 7


@pytest.mark.parametrize("asked", ["close", "is_cancelled"])
async def test_a_job_begins_anew_also_if_redis_cannot_say_whether_it_was_cancelled(
    story: Story, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    async def away(*_: object) -> bool:
        raise RedisAway("gone at that moment")

    async def refuse(*_: object) -> bool:
        return False

    monkeypatch.setattr(story.jobs, "close", refuse)
    monkeypatch.setattr(story.jobs, asked, away)
    outcome = await story.tell(At("n1", Loss.NODE_GONE, acknowledges=False), EXHAUSTED, At("n1"))
    assert outcome.state is JobState.DONE


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_caller_whose_result_was_lost_is_told_so_unless_the_job_was_cancelled(
    story: Story, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    async def is_it_cancelled(*_: object) -> bool:
        return is_cancelled

    monkeypatch.setattr(story.jobs, "is_cancelled", is_it_cancelled)
    story._steps = iter((At("n1", Loss.RESULT_LOST), STALE))
    asked = work(is_call=True)
    outcome = await story.dispatcher.go_on(asked, story.dispatcher.begin(asked, is_id_promised=True))
    assert outcome.job_id == story.asked[0].id_in(0)
    if is_cancelled:
        assert (outcome.state, outcome.detail) == (JobState.CANCELLED, CANCELLED.detail)
    else:
        assert (outcome.state, outcome.error) == (JobState.FAILED, ErrorCode.RESULT_LOST)


async def test_a_job_waits_for_redis_as_long_as_for_a_slot(server: RedisProcess) -> None:
    async with scheduler_on(server.url, dispatch__queue_wait_ms=7_000) as (scheduler, _):
        assert scheduler._dispatcher._rules.patience_s == 7.0


@pytest.mark.parametrize("steps", [(At("n1", FAILS), EXHAUSTED), (NOBODY,)])
async def test_a_job_that_cannot_be_closed_now_is_closed_when_redis_is_back(
    story: Story, monkeypatch: pytest.MonkeyPatch, steps: tuple[At | DispatchOutcome, ...]
) -> None:
    asked: list[str] = []
    close, note = story.jobs.close, story.jobs.note

    async def away_at_first(name: str, call: Any, *given: object) -> Any:
        asked.append(name)
        if len(asked) == 1:
            raise RedisAway("gone at that moment")
        return await call(*given)

    monkeypatch.setattr(story.jobs, "close", lambda *given: away_at_first("close", close, *given))
    monkeypatch.setattr(story.jobs, "note", lambda *given: away_at_first("note", note, *given))
    outcome = await story.tell(*steps)
    assert outcome.state is JobState.FAILED
    assert outcome.job_id
    await until(lambda: len(asked) == 2 and not len(story.dispatcher.leftovers.tasks))
    assert asked[0] == asked[1]


async def test_a_job_that_continues_under_another_id_is_closed_when_redis_is_back(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[tuple[object, ...]] = []

    async def away_at_first(*given: object) -> bool:
        closed.append(given)
        if len(closed) == 1:
            raise RedisAway("gone at that moment")
        return True

    monkeypatch.setattr(story.jobs, "close", away_at_first)
    await story.tell(At("n1", Loss.NODE_GONE, acknowledges=False), EXHAUSTED, At("n1"))
    await until(lambda: len(closed) == 2)
    assert closed[0] == closed[1]
