from lingua_scheduler.services.rooms.pacing import Pacer
from tests.support.waiting import until


async def test_the_first_is_at_once_and_those_that_follow_are_one() -> None:
    done: list[int] = []
    pacer = Pacer(0.05, lambda: done.append(1))
    for _ in range(1000):
        pacer.ask()
    assert len(done) == 1
    assert pacer.is_waiting
    await until(lambda: len(done) == 2)
    assert not pacer.is_waiting


async def test_after_a_while_it_is_at_once_again() -> None:
    now_s = 100.0
    done: list[float] = []
    pacer = Pacer(1000.0, lambda: done.append(now_s), lambda: now_s)
    pacer.ask()
    now_s = 1100.0
    pacer.ask()
    assert done == [100.0, 1100.0]


async def test_what_was_cancelled_is_not_done() -> None:
    done: list[int] = []
    pacer = Pacer(1000.0, lambda: done.append(1))
    pacer.ask()
    pacer.ask()
    pacer.cancel()
    assert not pacer.is_waiting
    assert done == [1]
