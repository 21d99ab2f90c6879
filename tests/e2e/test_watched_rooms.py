"""Rooms in the picture of a running fleet: counted over instances, and missed when a language loses its last node."""

import aiohttp

from tests.support.field_room import RoomPage
from tests.support.peers import Field, Frame, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

QUICK = {"watch__interval_ms": 200, "watch__watched_interval_ms": 100}
CODE = "room.language_unserved"


async def picture(peers: Field) -> Frame:
    status, found = await peers.get("/v1/picture")
    assert status == 200
    return dict(found)


async def alarms(peers: Field) -> list[tuple[str, str, str]]:
    return [
        (one["subject"], one["level"], one["text"]) for one in (await picture(peers))["alarms"] if one["code"] == CODE
    ]


async def test_a_language_of_a_room_that_loses_its_last_node_is_an_alarm_until_it_is_back(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, **QUICK) as (one, _),
        scheduler_on(server.url, **QUICK) as (other, _),
        field(one.port) as peers,
        aiohttp.ClientSession() as http,
    ):
        await peers.node(languages=("zh", "en"))
        last = await peers.node(languages=("zh", "ja"))
        ann = await RoomPage(http, one.port).ready(src_lang="zh")
        bob = await RoomPage(http, other.port).ready(src_lang="zh")
        await bob.enter(await ann.create(preferred_lang="en"), preferred_lang="ja")

        async def counted() -> bool:
            rooms = (await picture(peers))["rooms"]
            return (rooms["rooms"], rooms["members"], rooms["languages"]) == (1, 2, {"en": 1, "ja": 1})

        await until(counted, 30)
        assert await alarms(peers) == []
        last.socket.cut()

        async def is_raised() -> bool:
            return bool(await alarms(peers))

        await until(is_raised, 30)
        ((subject, level, text),) = await alarms(peers)
        assert (subject, level) == ("ja", "critical")
        assert "lingua node --languages zh,ja" in text
        await peers.node(languages=("zh", "ja"))

        async def is_clear() -> bool:
            return not await alarms(peers)

        await until(is_clear, 30)
        _, told = await peers.get("/v1/events?limit=500")
        kinds = {event["kind"] for event in told["events"] if event["values"].get("code") == CODE}
        assert kinds == {"alarm.raised", "alarm.cleared"}
        for page in (ann, bob):
            await page.close()


async def test_an_unserved_language_is_not_missed_any_more_when_the_room_is_gone(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (one, _), field(one.port) as peers, aiohttp.ClientSession() as http:
        await peers.node(languages=("zh", "en"))
        ann, bob = [await RoomPage(http, one.port).ready(src_lang="zh") for _ in range(2)]
        await bob.enter(await ann.create(preferred_lang="en"), preferred_lang="ko")

        async def levels() -> list[str]:
            return [level for _, level, _ in await alarms(peers)]

        async def is_warned() -> bool:
            return await levels() == ["warning"]

        await until(is_warned, 30)
        await bob.leave()

        async def is_clear() -> bool:
            return await levels() == []

        await until(is_clear, 30)
        for page in (ann, bob):
            await page.close()
