"""The fixture `no_surprises`: what it counts as a surprise, and what is part of the plan."""

import asyncio
import gc

import pytest

from lingua_scheduler.store.connection import NotDone
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery, every
from tests.support.surprises import SURPRISES
from tests.support.waiting import until

_log = logs.get()


def seen() -> list[str]:
    return [event for event, _ in SURPRISES.take()]


def test_errors_and_what_is_named_a_surprise_are_seen_and_the_rest_is_not() -> None:
    _log.info("it.went_well")
    _log.warning("it.took_long")
    _log.error("redis.down")
    assert seen() == []
    _log.error("it.failed")
    _log.warning("it.surprised")
    try:
        raise ValueError
    except ValueError:
        _log.exception("it.broke")
    assert seen() == ["it.failed", "it.surprised", "it.broke"]


async def test_a_task_that_dies_in_a_nursery_is_seen() -> None:
    async def die() -> None:
        raise ValueError

    await asyncio.wait([Nursery("test").start(die())])
    await until(lambda: SURPRISES.is_any)
    assert seen() == ["task.failed"]


async def test_a_task_that_nobody_asks_for_its_exception_and_a_callback_that_fails_are_seen() -> None:
    async def die() -> None:
        raise ValueError

    task = asyncio.create_task(die())
    await asyncio.wait([task])
    del task
    gc.collect(1)
    assert seen() == ["loop.failed"]
    asyncio.get_running_loop().call_soon(lambda: 1 // 0)
    await until(lambda: SURPRISES.is_any)
    assert seen() == ["loop.failed"]


@pytest.mark.parametrize(("error", "expected"), [(NotDone("away"), []), (ValueError(), ["chore.failed"])])
async def test_a_chore_may_fail_because_redis_is_away_and_for_nothing_else(
    error: Exception, expected: list[str]
) -> None:
    tried = asyncio.Event()

    async def chore() -> None:
        if tried.is_set():
            await asyncio.Event().wait()
        tried.set()
        raise error

    running = asyncio.create_task(every("test", 0.0, chore))
    await tried.wait()
    await asyncio.sleep(0)
    running.cancel()
    assert seen() == expected


def test_the_log_of_a_process_is_read_too() -> None:
    SURPRISES.look_at_log(
        '{"event": "scheduler.ready", "level": "info"}\n'
        "Traceback: no line of a log\n"
        '{"event": "letter.dead", "level": "error"}\n'
        '{"event": "task.failed", "level": "error", "nursery": "jobs"}\n'
        '{"event": "half'
    )
    assert seen() == ["task.failed"]
