"""However many wait, the loop belongs to others in between, and nobody is served twice before all are served."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from lingua_scheduler.gateway import fair_queue
from lingua_scheduler.gateway.fair_queue import BURST_S, MOST_AT_ONCE, SLICE_S, FairQueue
from tests.support.waiting import until


class Crowd:
    """Each wants to go on again and again; a turn takes as long as it is said to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, share: float, turn_s: float) -> None:
        self.now_s = 100.0
        self.served: list[int] = []
        self.rests: list[float] = []
        self._turn_s = turn_s
        monkeypatch.setattr(fair_queue, "monotonic", lambda: self.now_s)
        loop = asyncio.get_running_loop()

        def call_later(wait_s: float, call: Callable[[], None]) -> asyncio.Handle:
            self.rests.append(wait_s)
            self.now_s += wait_s
            return loop.call_soon(call)

        fake = SimpleNamespace(call_soon=loop.call_soon, call_later=call_later)
        monkeypatch.setattr(fair_queue, "asyncio", SimpleNamespace(get_running_loop=lambda: fake))
        self.turns = FairQueue(share)

    def join(self, number: int) -> None:
        self.turns.wait(lambda: self._go_on(number))

    def _go_on(self, number: int) -> None:
        self.served.append(number)
        self.now_s += self._turn_s
        self.join(number)


async def test_one_turn_of_the_loop_serves_a_few_and_all_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(monkeypatch, share=1.0, turn_s=0.0)
    for number in range(2 * MOST_AT_ONCE):
        crowd.join(number)
    await asyncio.sleep(0)
    assert crowd.served == list(range(MOST_AT_ONCE))
    await asyncio.sleep(0)
    assert crowd.served == list(range(2 * MOST_AT_ONCE))
    assert not crowd.rests


async def test_who_takes_long_is_the_last_of_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(monkeypatch, share=1.0, turn_s=2 * SLICE_S)
    for number in range(3):
        crowd.join(number)
    for expected in ([0], [0, 1], [0, 1, 2], [0, 1, 2, 0]):
        await asyncio.sleep(0)
        assert crowd.served == expected


@pytest.mark.parametrize("size", [1, 50])
async def test_together_they_have_their_share_however_many_they_are(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    crowd = Crowd(monkeypatch, share=0.25, turn_s=SLICE_S)
    for number in range(size):
        crowd.join(number)
    began_s = crowd.now_s
    for _ in range(400):
        await asyncio.sleep(0)
    used_s = len(crowd.served) * SLICE_S
    assert used_s > 5 * BURST_S
    assert (used_s - BURST_S) / (crowd.now_s - began_s) == pytest.approx(0.25, rel=0.1)


async def test_what_an_answer_took_is_waited_for_before_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(monkeypatch, share=0.5, turn_s=0.0)
    crowd.turns.spend(BURST_S + 0.1)
    crowd.join(0)
    await asyncio.sleep(0)
    assert not crowd.served
    assert crowd.rests == [pytest.approx(0.2)]
    await asyncio.sleep(0)
    assert crowd.served == [0]


async def test_one_that_fails_or_has_left_holds_up_nobody() -> None:
    queue, served = FairQueue(0.5), []
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
    queue.wait(lambda: 1 / 0)
    queue.wait(lambda: served.append("left")).cancel()
    queue.wait(lambda: served.append("stays"))
    await until(lambda: served)
    assert served == ["stays"]
    assert [type(failure) for failure in failures] == [ZeroDivisionError]


async def test_a_handler_comes_alone_and_one_that_is_cancelled_leaves_its_place() -> None:
    queue, order = FairQueue(1.0), []

    async def handle(name: str) -> None:
        await queue.come()
        order.append(name)

    tasks = [asyncio.create_task(handle(name)) for name in ("first", "cancelled", "last")]
    await asyncio.sleep(0)
    tasks[1].cancel()
    queue.wait(lambda: order.append("read"))
    await asyncio.gather(*tasks, return_exceptions=True)
    await until(lambda: "read" in order)
    # What the first does with its turn is done before the next is served.
    assert order == ["first", "last", "read"]
