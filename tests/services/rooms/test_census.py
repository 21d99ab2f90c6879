"""The rooms of an instance in figures; two instances together count each once."""

from collections import Counter
from collections.abc import AsyncIterator

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.domain.watching.rooms import RoomFigures
from tests.support.field_room import RoomPage
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until


@pytest.fixture
async def schedulers(server: RedisProcess) -> AsyncIterator[list[Scheduler]]:
    async with scheduler_on(server.url) as (one, _), scheduler_on(server.url) as (other, _):
        yield [one, other]


def figures(schedulers: list[Scheduler]) -> list[RoomFigures]:
    return [scheduler._teller.figures().rooms for scheduler in schedulers]


async def test_rooms_members_languages_and_needed_pools(schedulers: list[Scheduler]) -> None:
    async with aiohttp.ClientSession() as http:
        said = [("zh", "zh"), ("en", "ja"), ("ja", "ja"), ("auto", "pt")]
        pages = []
        for number, (src, _) in enumerate(said):
            more = {"mode": "two_way_auto", "lang_a": "en", "lang_b": "pt"} if src == "auto" else {}
            pages.append(await RoomPage(http, schedulers[number % 2].port).ready(src_lang=src, **more))
        code = await pages[0].create(preferred_lang="zh")
        for page, (_, language) in zip(pages[1:], said[1:], strict=True):
            await page.enter(code, preferred_lang=language)
        await until(lambda: all(page.sees(*pages) for page in pages))
        one, other = figures(schedulers)
        assert (one.rooms, other.rooms) == (1, 0)
        assert (one.members, other.members) == (2, 2)
        assert Counter(one.languages) + Counter(other.languages) == Counter({"ja": 2, "zh": 1, "pt": 1})
        # Of each speaker into the languages of the others, none into its own; what is not known is not asked for.
        assert one.pools == {"zh:ja:text": 1, "zh:pt:text": 1, "ja:zh:text": 1, "ja:pt:text": 1}
        assert other.pools == {"en:zh:text": 1, "en:ja:text": 1, "en:pt:text": 1}
        schedulers[0]._rooms.overseer._here.lag.note_lag("ja", 1.0)
        assert figures(schedulers)[0].lag.keys() == {"ja"}
        for page in pages:
            await page.leave()
        await until(lambda: [one.rooms + one.members for one in figures(schedulers)] == [0, 0])
        for page in pages:
            await page.close()


async def test_what_private_nodes_serve_is_no_need_of_public_ones(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), aiohttp.ClientSession() as http:
        pages = [await RoomPage(http, scheduler.port).ready(src_lang=src) for src in ("zh", "en")]
        code = await pages[0].create(preferred_lang="zh")
        await pages[1].enter(code, preferred_lang="en")
        await until(lambda: all(page.sees(*pages) for page in pages))
        # People without a credential are of this tenant.
        scheduler._pool_map.map = PoolMap({"zh:en:text@default": {0: 1}, "en:zh:text@acme": {0: 1}})
        assert figures([scheduler])[0].pools == {"en:zh:text": 1}
        for page in pages:
            await page.close()
