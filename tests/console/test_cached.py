"""A page that is expensive: made for everybody who asks, until that is too often."""

import asyncio
from collections.abc import Iterator

import pytest

from lingua_scheduler.console.cached import BURST, PER_S, Cached


class Page:
    """Counts how often it is made."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.made = 0
        self.cached = Cached(self._make, lambda: self.now_s)

    async def _make(self) -> bytes:
        await asyncio.sleep(0)
        self.made += 1
        return b"%d" % self.made

    async def ask(self, times: int) -> list[bytes]:
        return [await self.cached.get() for _ in range(times)]


async def test_whoever_asks_now_and_then_gets_a_fresh_one() -> None:
    page = Page()
    for number in range(1, 1_000):
        page.now_s += 1 / PER_S
        assert await page.cached.get() == b"%d" % number


async def test_a_flood_gets_the_last_one_again_and_time_brings_fresh_ones() -> None:
    page = Page()
    assert len(set(await page.ask(1_000))) == page.made == BURST
    page.now_s += 3 / PER_S
    await page.ask(1_000)
    assert page.made == BURST + 3


async def test_those_who_ask_together_do_not_all_make_one() -> None:
    page = Page()
    await asyncio.gather(*(page.cached.get() for _ in range(1_000)))
    assert page.made == BURST


async def test_a_page_that_could_not_be_made_is_made_for_the_next_one() -> None:
    tries: Iterator[OSError | bytes] = iter((*(OSError("no") for _ in range(BURST + 1)), b"page"))

    async def make() -> bytes:
        result = next(tries)
        if isinstance(result, OSError):
            raise result
        return result

    cached = Cached(make, lambda: 100.0)
    for _ in range(BURST + 1):
        with pytest.raises(OSError, match="no"):
            await cached.get()
    assert await cached.get() == b"page"
