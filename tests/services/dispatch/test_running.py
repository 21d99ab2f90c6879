"""One attempt at its node: sent, followed, and ended when its time is up."""

import asyncio
from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt, Try
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.services.attempts.assignments import Assignment
from lingua_scheduler.services.attempts.reports import Cancelled, LostAttempt, Report, answered
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.dispatch.routes import Routes
from lingua_scheduler.services.dispatch.running import AttemptRunner, Slot
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.losses import Loss
from lingua_sdk.protocol.node import JobAssign, JobCancel, JobResult
from tests.support.connected import registered
from tests.support.fleet import RULES, ledger, order
from tests.support.schedulers import settings_with
from tests.support.speech import work
from tests.support.two_sides import Side, Telling
from tests.support.waiting import until

RUN_MS = 30_000


class Floor:
    """A node of this instance, and the runner that gives it jobs."""

    def __init__(self, store: Store, link: NodeLink, side: Side, socket: Telling) -> None:
        self.store, self.link, self.side, self.socket = store, link, side, socket
        settings = settings_with(job__reservation_ttl_ms=5_000, job__linger_ms=60_000).job
        routes = Routes("i-here", side.connected, side.relay, store.node_views, store.jobs)
        self.runner = AttemptRunner(store.jobs, side.endings, routes, side.assignments, settings, lambda: 10.0)

    async def slot(self, serial: str = "1", **rules: int) -> Slot:
        placed = await self.store.jobs.dispatch(
            0, order(serial, run_ms=RUN_MS), msgspec.structs.replace(RULES, **rules)
        )
        attempt = Attempt(f"job-0-{serial}", 1, placed.node_id, 0)
        return self.runner.open(work(), attempt, placed)

    def run(self, slot: Slot, asked: Work | None = None, **more: Any) -> "asyncio.Task[Report]":
        wanted = Try(1, "1", more.pop("run_ms", RUN_MS), **more)
        return asyncio.create_task(self.runner.run(asked or work(), wanted, slot))


async def floor_of(store: Store, **more: Any) -> Floor:
    side, socket = Side(store, "i-here", None), Telling()
    return Floor(store, await registered(side.connected, socket, max_concurrent_jobs=2, **more), side, socket)


@pytest.fixture
async def floor(store: Store) -> Floor:
    return await floor_of(store)


@pytest.fixture
async def asking(store: Store) -> Floor:
    """Its node acknowledges jobs, and reports what it runs."""
    return await floor_of(store, advanced_features=["job_ack"], running_job_ids=[])


def result_of(attempt: Attempt) -> JobResult:
    return JobResult(
        job_id=attempt.job_id,
        attempt_id=1,
        node_id="n1",
        session_id="s",
        utterance_index=0,
        success=True,
        trace_id="t",
    )


def orders(floor: Floor) -> list[JobAssign]:
    return [message for message in floor.socket.messages if isinstance(message, JobAssign)]


def cancels(floor: Floor) -> list[tuple[str, str | None]]:
    return [(one.job_id, one.reason) for one in floor.socket.messages if isinstance(one, JobCancel)]


async def test_a_job_is_sent_and_its_result_returned(floor: Floor) -> None:
    slot = await floor.slot()
    assert (slot.assignment.holder, slot.assignment.acknowledges) == ("i-here", False)
    running = floor.run(slot)
    await until(lambda: orders(floor))
    (sent,) = orders(floor)
    assert (sent.job_id, sent.attempt_id, sent.start_within_ms, sent.traceparent) == ("job-0-1", 1, None, None)
    assert slot.attempt.job_id in floor.link.sent
    assert [step for step, _ in floor.side.steps] == ["DISPATCHED"]
    floor.side.assignments.settle(slot.attempt, answered(result_of(slot.attempt)))
    assert await running == answered(result_of(slot.attempt))
    assert cancels(floor) == []
    assert len(floor.side.assignments) == 0


async def test_a_node_that_acknowledges_is_told_how_long_it_has(asking: Floor) -> None:
    slot = await asking.slot()
    running = asking.run(slot)
    await until(lambda: orders(asking))
    assert orders(asking)[0].start_within_ms == 5_000
    running.cancel()


async def test_a_node_that_should_be_here_and_is_not_has_lost_the_job(floor: Floor) -> None:
    slot = await floor.slot()
    floor.side.links.drop(floor.link)
    assert await floor.run(slot) == LostAttempt(Loss.NODE_GONE)
    assert await ledger(floor.store, "n1") == (0, 2, 0)
    assert floor.side.freed == [slot.attempt]


async def test_another_connection_of_the_node_is_not_the_one_that_was_meant(floor: Floor) -> None:
    slot = msgspec.structs.replace(await floor.slot(), owner=Owner("i-here", "c-former"))
    assert await floor.run(slot) == LostAttempt(Loss.NODE_GONE)


async def test_a_socket_that_takes_nothing_has_lost_the_job(floor: Floor) -> None:
    slot = await floor.slot()
    floor.socket.is_open = False
    assert await floor.run(slot) == LostAttempt(Loss.SEND_FAILED)
    assert await ledger(floor.store, "n1") == (0, 2, 0)
    assert slot.attempt.job_id not in floor.link.sent
    assert floor.side.steps == []


async def test_a_job_cancelled_before_it_was_sent_frees_its_slot(floor: Floor) -> None:
    slot = await floor.slot()
    floor.side.assignments.cancel(slot.attempt.job_id)
    assert await floor.run(slot) == LostAttempt(Loss.CANCELLED)
    assert orders(floor) == []
    assert await ledger(floor.store, "n1") == (0, 2, 0)


async def test_a_job_that_was_lost_before_it_was_sent_is_not_ended_again(floor: Floor) -> None:
    slot = await floor.slot()
    slot.assignment.settle(LostAttempt(Loss.NODE_GONE))
    assert await floor.run(slot) == LostAttempt(Loss.NODE_GONE)
    assert orders(floor) == []
    assert (await ledger(floor.store, "n1"))[0] == 1


@pytest.mark.parametrize("reports", [False, True])
async def test_a_cancelled_job_is_taken_back_and_its_slot_told_free_unless_its_node_lets_go_itself(
    store: Store, reports: bool
) -> None:
    floor = await floor_of(store, **{"running_job_ids": []} if reports else {})
    slot = await floor.slot()
    running = floor.run(slot)
    await until(lambda: orders(floor))
    floor.side.assignments.cancel(slot.attempt.job_id)
    assert await running == Cancelled()
    assert cancels(floor) == [("job-0-1", "cancelled")]
    assert floor.side.freed == ([] if reports else [slot.attempt])
    assert (slot.attempt.job_id in floor.link.sent) is reports


async def test_a_node_that_is_not_overdue_in_redis_gets_the_rest_of_its_time_once(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its deadline in Redis is 30 s away; the local timer rings at once, and is believed the second time."""
    slot = await floor.slot()
    ends: list[tuple[str, bool, int]] = []
    lose = floor.side.endings.lose

    async def watched(attempt: Attempt, reason: str, *, if_overdue: bool = False, linger_ms: int = 0) -> Any:
        ends.append((reason, if_overdue, linger_ms))
        return await lose(attempt, reason, if_overdue=if_overdue, linger_ms=linger_ms)

    monkeypatch.setattr(floor.side.endings, "lose", watched)
    assert await floor.run(slot, run_ms=1) == LostAttempt(Loss.NO_ANSWER)
    assert ends == [(Loss.NO_ANSWER, True, 0), (Loss.NO_ANSWER, False, 0)]
    assert cancels(floor) == [("job-0-1", Loss.NO_ANSWER)]
    assert await ledger(floor.store, "n1") == (0, 2, 0)


async def test_a_node_that_moves_on_is_waited_for_anew(floor: Floor) -> None:
    slot = await floor.slot()
    running = floor.run(slot)
    await until(lambda: orders(floor))
    for _ in range(3):
        slot.assignment.advance()
        await asyncio.sleep(0)
        assert not running.done()
    floor.side.assignments.settle(slot.attempt, answered(result_of(slot.attempt)))
    assert await running == answered(result_of(slot.attempt))


async def test_a_node_that_moves_on_gets_the_time_that_came_with_it_or_the_whole(
    asking: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot, waits, steps = await asking.slot(), list[float](), iter([7_000, 0])

    async def wait(assignment: Assignment, timeout_s: float) -> Report | None:
        waits.append(timeout_s)
        allowed_ms = next(steps, None)
        if allowed_ms is None:
            return answered(result_of(slot.attempt))
        assignment.advance(allowed_ms)
        return None

    async def given_up(*_: object, **__: object) -> None:
        raise AssertionError("while the node moves on, Redis is not asked whether the job is overdue")

    monkeypatch.setattr(Assignment, "wait", wait)
    monkeypatch.setattr(AttemptRunner, "_end_lost", given_up)
    assert await asking.run(slot) == answered(result_of(slot.attempt))
    assert waits == [5.0, 7.0, RUN_MS / 1000]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (work(), Loss.JOB_TIMEOUT),
        (work(reason=CutReason.MAX_DURATION), Loss.PART_TIMEOUT),
    ],
)
async def test_a_node_that_started_a_job_and_says_no_more_lingers_on_its_slot(
    asking: Floor, asked: Work, expected: Loss
) -> None:
    slot = await asking.slot()
    running = asking.run(slot, asked, run_ms=1)
    await until(lambda: orders(asking))
    slot.assignment.advance()
    assert await running == LostAttempt(expected)
    assert (await ledger(asking.store, "n1"))[0] == 1  # it may still be at it
    assert slot.attempt.job_id in asking.link.sent
    assert asking.side.freed == []


async def test_a_node_that_does_not_acknowledge_in_time_frees_its_slot(store: Store) -> None:
    floor = await floor_of(store, advanced_features=["job_ack"], running_job_ids=[])
    floor.runner._settings = settings_with(job__reservation_ttl_ms=1_000).job
    slot = await floor.slot(ack_ms=1)
    assert slot.features == Features(acknowledges=True)
    assert await floor.run(slot) == LostAttempt(Loss.ACK_TIMEOUT)
    assert await ledger(store, "n1") == (0, 2, 0)
    assert slot.attempt.job_id not in floor.link.sent
    assert cancels(floor) == [("job-0-1", Loss.ACK_TIMEOUT)]


async def test_a_job_that_was_cancelled_while_the_signal_got_lost_is_cancelled_at_its_deadline(floor: Floor) -> None:
    slot = await floor.slot()
    record = await floor.store.jobs.find(slot.attempt.job_id)
    assert record is not None
    await floor.store.jobs.cancel(record, 0)
    assert await floor.run(slot, run_ms=1) == Cancelled()


async def test_without_redis_a_silent_node_has_lost_the_job_at_its_deadline(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = await floor.slot()

    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("gone at that moment")

    monkeypatch.setattr(floor.side.endings, "lose", fail)
    monkeypatch.setattr(floor.store.node_views, "reports_jobs", fail)
    assert await floor.run(slot, run_ms=1) == LostAttempt(Loss.NO_ANSWER)


async def test_a_slot_that_is_not_used_after_all_is_given_back_and_does_not_count_against_its_node(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = await floor.slot()
    await floor.runner.give_back(slot)
    assert await ledger(floor.store, "n1") == (0, 2, 0)
    assert floor.side.freed == [slot.attempt]
    assert len(floor.side.assignments) == 0
    # What has ended already is not ended again, and Redis may be away.
    lost = await floor.slot("2")
    lost.assignment.settle(LostAttempt(Loss.NODE_GONE))
    await floor.runner.give_back(lost)
    assert (await ledger(floor.store, "n1"))[0] == 1

    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("gone at that moment")

    away = await floor.slot("3")
    monkeypatch.setattr(floor.side.endings, "withdraw", fail)
    await floor.runner.give_back(away)
    assert len(floor.side.assignments) == 0


async def test_a_job_is_sent_at_once_to_a_node_that_is_here(asking: Floor) -> None:
    slot = await asking.slot()
    wanted = Try(1, "1", RUN_MS)
    sent = asking.runner.send_here(work(), wanted, slot)
    assert sent is not None
    assert (sent.ack_ms, sent.at_s, sent.advances) == (5_000, 10.0, 0)
    assert [order.job_id for order in orders(asking)] == ["job-0-1"]
    assert [step for step, _ in asking.side.steps] == ["DISPATCHED"]


async def test_a_job_that_cannot_be_sent_at_once_is_left_to_run(floor: Floor) -> None:
    wanted = Try(1, "1", RUN_MS)
    cancelled, refused = [await floor.slot(serial) for serial in ("1", "2")]
    floor.side.assignments.settle(cancelled.attempt, Cancelled())
    assert floor.runner.send_here(work(), wanted, cancelled) is None
    assert orders(floor) == []
    floor.socket.is_open = False
    assert floor.runner.send_here(work(), wanted, refused) is None
    floor.side.links.drop(floor.link)
    assert floor.runner.send_here(work(), wanted, refused) is None
    assert floor.side.steps == []


async def test_a_slot_that_was_leased_and_never_used_is_freed(floor: Floor) -> None:
    slot = await floor.slot()
    assert await ledger(floor.store, "n1") == (1, 1, 1)
    await floor.runner.free(slot.attempt)
    assert await ledger(floor.store, "n1") == (0, 2, 0)


async def test_a_node_of_which_redis_does_not_say_what_it_runs_counts_as_one_that_does_not_tell(floor: Floor) -> None:
    class Away:
        async def reports_jobs(self, _attempt: Attempt) -> bool:
            raise RedisAway("gone at that moment")

    slot = await floor.slot()
    assert await floor.runner._reports_jobs(Away(), slot.attempt) is False  # type: ignore[arg-type]


@pytest.mark.parametrize(("features", "seconds"), [(["job_ack"], 5.0), ([], 30.0)])
async def test_a_node_has_so_many_seconds_to_acknowledge_or_to_finish(
    store: Store, monkeypatch: pytest.MonkeyPatch, features: list[str], seconds: float
) -> None:
    floor = await floor_of(store, advanced_features=features)
    waits: list[float] = []

    async def wait(assignment: Assignment, timeout_s: float) -> Report:
        waits.append(timeout_s)
        report = assignment.report = answered(result_of(assignment.attempt))
        return report

    monkeypatch.setattr(Assignment, "wait", wait)
    await floor.run(await floor.slot())
    assert waits == [seconds]


async def test_a_node_that_is_listened_to_has_the_same_time(asking: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[tuple[str, float]] = []
    monkeypatch.setattr(Assignment, "listen", lambda _, timeout_s, __: times.append(("listen", timeout_s)))
    monkeypatch.setattr(Assignment, "listen_on", lambda _, timeout_s: times.append(("on", timeout_s)))
    slot, wanted = await asking.slot(), Try(1, "1", 30_000)
    sent = asking.runner.send_here(work(), wanted, slot)
    assert sent is not None
    listener: Any = object()
    asking.runner.listen(slot, sent, wanted, listener)
    assert not asking.runner.moved_on(slot, sent, wanted)
    slot.assignment.advance()
    assert asking.runner.moved_on(slot, sent, wanted)
    slot.assignment.advance(7_000)
    assert asking.runner.moved_on(slot, sent, wanted)
    assert not asking.runner.moved_on(slot, sent, wanted)
    sent.ack_ms = 0
    asking.runner.listen(slot, sent, wanted, listener)
    assert times == [("listen", 5.0), ("on", 30.0), ("on", 7.0), ("listen", 30.0)]
