"""Lists that take many reads of Redis: a flood of requests for them leaves the time to those who speak."""

import asyncio
from typing import Any, cast

import pytest

from lingua_scheduler.console.jobs import job_operations
from lingua_scheduler.console.lists import MAX_WAITING, Lists
from lingua_scheduler.console.operations import Call, Problem
from lingua_scheduler.protocol.http_jobs import FailuresQuery, JobsQuery


class SlowLookup:
    """Notes how many lists are made at the same time."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0

    async def latest(self, *_: Any) -> list[Any]:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        return []

    failures = latest


async def test_jobs_and_failures_are_listed_for_one_caller_at_a_time() -> None:
    lookup = SlowLookup()
    operations = {one.path: one for one in job_operations(cast("Any", lookup), cast("Any", None), cast("Any", None))}
    calls = [
        operations[path].handle(Call({}, None, query, ""))
        for path, query in (("/v1/jobs", JobsQuery()), ("/v1/failures", FailuresQuery())) * (MAX_WAITING // 2)
    ]
    await asyncio.gather(*calls)
    assert lookup.most == 1


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def test_after_long_lists_there_is_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = Clock(), list[float]()

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)
        clock.now_s += delay_s

    async def read() -> int:
        clock.now_s += 1.0
        return 7

    monkeypatch.setattr("lingua_scheduler.console.lists.asyncio.sleep", sleep)
    lists = Lists(clock)
    assert [await lists.make(read) for _ in range(3)] == [7, 7, 7]
    # Half of the first second was in reserve; from then on one second in four is spent on lists.
    assert slept == pytest.approx([2.0, 3.0])


async def test_one_that_fails_is_counted_and_does_not_hold_up_the_next() -> None:
    lists = Lists()

    async def fail() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        await lists.make(fail)

    async def read() -> int:
        return 1

    assert await lists.make(read) == 1


async def test_only_so_many_wait() -> None:
    lists, go_on = Lists(), asyncio.Event()

    async def read() -> bool:
        return await go_on.wait()

    waiting = [asyncio.ensure_future(lists.make(read)) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await lists.make(read)
    assert (refused.value.status, refused.value.retry_after_s) == (503, 1)
    go_on.set()
    assert all(await asyncio.gather(*waiting))
    assert await lists.make(read)


async def test_nothing_is_made_for_callers_who_have_left() -> None:
    lists, made = Lists(), list[int]()

    async def read() -> None:
        made.append(1)

    with pytest.raises(Problem):
        await lists.make(read, lambda: False)
    assert not made
