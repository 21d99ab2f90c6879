"""Tasks have a parent who notices how they end; chores go on whatever happens."""

import asyncio
import gc
from collections.abc import AsyncIterator
from time import monotonic

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.telemetry import metrics, tasks
from lingua_scheduler.telemetry.tasks import Nursery, SingleFlight, every, watch_loop
from lingua_scheduler.telemetry.ticks import Grid
from tests.support.waiting import until


def failures(nursery: str) -> float:
    return metrics.REGISTRY.get_sample_value("lingua_task_failures_total", {"nursery": nursery}) or 0.0


def chore_failures(chore: str) -> float:
    return metrics.REGISTRY.get_sample_value("lingua_chore_failures_total", {"chore": chore}) or 0.0


async def fail() -> None:
    raise ValueError("a surprise")


async def finish() -> str:
    return "done"


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    found = Nursery("test")
    yield found
    await found.close()


async def test_a_task_is_kept_until_it_ends(nursery: Nursery) -> None:
    go_on = asyncio.Event()
    task = nursery.start(go_on.wait())
    assert len(nursery) == 1
    go_on.set()
    await task
    assert len(nursery) == 0


@pytest.mark.expects_surprise("task.failed")
async def test_a_task_that_fails_is_logged_and_counted_and_takes_nobody_with_it(nursery: Nursery) -> None:
    go_on = asyncio.Event()
    other = nursery.start(go_on.wait())
    before = failures("test")
    with capture_logs() as logged:
        failing = nursery.start(fail())
        await asyncio.wait((failing,))
    assert failures("test") == before + 1
    assert [(event["event"], event["nursery"], event["log_level"]) for event in logged] == [
        ("task.failed", "test", "error")
    ]
    assert isinstance(logged[0]["exc_info"], ValueError)
    assert len(nursery) == 1
    go_on.set()
    assert await other is True


async def test_a_task_that_ends_well_or_is_cancelled_is_no_failure(nursery: Nursery) -> None:
    before = failures("test")
    with capture_logs() as logged:
        assert await nursery.start(finish()) == "done"
        cancelled = nursery.start(asyncio.Event().wait())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait((cancelled,))
    assert logged == []
    assert failures("test") == before


async def test_settling_waits_for_those_who_run_and_says_how_many_did_not_finish(nursery: Nursery) -> None:
    go_on = asyncio.Event()
    nursery.start(go_on.wait())
    nursery.start(asyncio.Event().wait())
    go_on.set()
    assert await nursery.settle(timeout_s=0.01) == 1
    assert len(nursery) == 1


async def test_settling_ends_as_soon_as_all_have_ended(nursery: Nursery) -> None:
    go_on = asyncio.Event()
    nursery.start(go_on.wait())
    settling = asyncio.create_task(nursery.settle(timeout_s=3600))
    await asyncio.sleep(0)
    assert not settling.done()
    go_on.set()
    assert await settling == 0


async def test_settling_an_empty_nursery_takes_no_time(nursery: Nursery) -> None:
    assert await nursery.settle(timeout_s=3600) == 0


async def test_closing_ends_everybody_and_waits_for_their_clean_up(nursery: Nursery) -> None:
    cleaned = []

    async def careful() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    for _ in range(3):
        nursery.start(careful())
    await asyncio.sleep(0)
    await nursery.close()
    assert cleaned == ["up"] * 3
    assert len(nursery) == 0


@pytest.mark.expects_surprise("task.failed")
async def test_a_task_that_fails_while_it_is_being_closed_does_not_stop_the_closing(nursery: Nursery) -> None:
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("not now")

    nursery.start(stubborn())
    other = nursery.start(asyncio.Event().wait())
    await asyncio.sleep(0)
    before = failures("test")
    with capture_logs():
        await nursery.close()
    assert other.cancelled()
    assert failures("test") == before + 1


# Chores


@pytest.mark.expects_surprise("chore.failed")
async def test_a_chore_goes_on_after_it_failed(nursery: Nursery) -> None:
    runs = 0

    async def chore() -> None:
        nonlocal runs
        runs += 1
        if runs % 2:
            raise OSError("disk full")

    before = chore_failures("tidy")
    with capture_logs() as logged:
        nursery.start(every("tidy", 0.0005, chore))
        await until(lambda: runs >= 5)
        await nursery.close()
    assert chore_failures("tidy") == before + (runs + 1) // 2
    assert {(event["event"], event["chore"], event["error"]) for event in logged} == {
        ("chore.failed", "tidy", "OSError: disk full")
    }


async def test_a_chore_waits_before_its_first_run(nursery: Nursery) -> None:
    runs = []

    async def chore() -> None:
        runs.append(1)

    nursery.start(every("tidy", 3600, chore))
    for _ in range(3):
        await asyncio.sleep(0)
    assert runs == []


async def test_runs_of_a_chore_do_not_overlap(nursery: Nursery) -> None:
    running, most, runs = 0, 0, 0

    async def chore() -> None:
        nonlocal running, most, runs
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1
        runs += 1

    nursery.start(every("slow", 0.0001, chore))
    await until(lambda: runs >= 3)
    assert most == 1


async def test_instances_do_not_march_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    enough = asyncio.Event()

    async def sleep(_grid: Grid, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 200:
            enough.set()
            await asyncio.Event().wait()

    async def chore() -> None:
        pass

    with monkeypatch.context() as patched:
        patched.setattr(Grid, "sleep", sleep)
        running = asyncio.create_task(every("tidy", 10.0, chore))
        await enough.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert all(9.0 <= pause <= 11.0 for pause in pauses)
    assert len(set(pauses)) > 100


# The event loop


def lag() -> tuple[float, float]:
    name = "lingua_event_loop_lag_seconds"
    count, total = (metrics.REGISTRY.get_sample_value(name + part) for part in ("_count", "_sum"))
    return count or 0.0, total or 0.0


async def test_a_loop_that_was_held_up_shows(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "LAG_EVERY_S", 0.001)
    _, before_s = lag()
    nursery.start(watch_loop())
    await asyncio.sleep(0)
    until_s = monotonic() + 0.2
    while monotonic() < until_s:
        pass  # nobody else gets a turn
    begun, _ = lag()
    await until(lambda: lag()[0] > begun)
    assert lag()[1] - before_s > 0.15


class Slow:
    """Work that goes on when it is told to."""

    def __init__(self) -> None:
        self.runs = 0
        self.go_on = asyncio.Event()

    async def work(self) -> int:
        self.runs += 1
        number = self.runs
        await self.go_on.wait()
        return number

    async def fail(self) -> int:
        await self.work()
        raise ValueError("expected")


async def test_callers_at_the_same_time_share_one_run_and_later_ones_get_another() -> None:
    slow, flight = Slow(), SingleFlight[int]()
    callers = [asyncio.create_task(flight.join(slow.work)) for _ in range(3)]
    await until(lambda: flight.is_running)
    callers[0].cancel()
    slow.go_on.set()
    assert await asyncio.gather(*callers[1:]) == [1, 1], "it goes on though the caller that began it left"
    assert not flight.is_running
    assert await flight.join(slow.work) == 2


async def test_a_shared_failure_is_that_of_every_caller_and_of_nobody_else() -> None:
    slow, flight = Slow(), SingleFlight[int]()
    heard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    callers = [asyncio.create_task(flight.join(slow.fail)) for _ in range(2)]
    await until(lambda: flight.is_running)
    slow.go_on.set()
    assert [type(error) for error in await asyncio.gather(*callers, return_exceptions=True)] == [ValueError] * 2
    slow.go_on.clear()
    left = asyncio.create_task(flight.join(slow.fail))
    await until(lambda: flight.is_running)
    left.cancel()
    await asyncio.wait((left,))
    slow.go_on.set()
    await until(lambda: not flight.is_running)
    gc.collect()
    assert heard == []


async def test_a_shared_run_ends_with_its_owner() -> None:
    slow, flight = Slow(), SingleFlight[int]()
    await flight.close()
    caller = asyncio.create_task(flight.join(slow.work))
    await until(lambda: flight.is_running)
    await flight.close()
    assert not flight.is_running
    assert isinstance((await asyncio.gather(caller, return_exceptions=True))[0], asyncio.CancelledError)
