"""A page that costs CPU: made for everybody who asks, until that is too much."""

import asyncio

import pytest

from lingua_scheduler.console.cached import CPU_BURST_S, CPU_SHARE, Cached

# A power of two, so that sums of it are exact.
COST_S = 2**-7


class Page:
    """Counts how often it is made; each time costs the same."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.used_s = 0.0
        self.made = 0
        self.cached = Cached(self._make, lambda: self.now_s, lambda: self.used_s)

    async def _make(self) -> bytes:
        await asyncio.sleep(0)
        self.made += 1
        self.used_s += COST_S
        return b"%d" % self.made

    async def ask(self, times: int) -> list[bytes]:
        return [await self.cached.get() for _ in range(times)]


async def test_whoever_asks_now_and_then_gets_a_fresh_one() -> None:
    page = Page()
    for number in range(1, 1_000):
        page.now_s += COST_S / CPU_SHARE
        assert await page.cached.get() == b"%d" % number


async def test_a_flood_gets_the_last_one_again_and_time_brings_fresh_ones() -> None:
    page = Page()
    at_once = int(CPU_BURST_S / COST_S) + 1
    assert len(set(await page.ask(1_000))) == page.made == at_once
    page.now_s += 10 * COST_S / CPU_SHARE
    before = page.made
    await page.ask(1_000)
    assert 9 <= page.made - before <= 11


async def test_those_who_ask_together_do_not_all_make_one() -> None:
    page = Page()
    await asyncio.gather(*(page.cached.get() for _ in range(1_000)))
    assert page.made == int(CPU_BURST_S / COST_S) + 1


async def test_a_page_that_could_not_be_made_is_made_for_the_next_one() -> None:
    tries = iter((OSError("no"), b"page"))

    async def make() -> bytes:
        result = next(tries)
        if isinstance(result, OSError):
            raise result
        return result

    cached = Cached(make)
    with pytest.raises(OSError, match="no"):
        await cached.get()
    assert await cached.get() == b"page"
