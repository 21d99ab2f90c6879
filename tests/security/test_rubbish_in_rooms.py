"""Rubbish in each kind of key of rooms, or another type instead of it: those who talk in a room go on."""

import random

import pytest

from lingua_scheduler.assembly import rooms
from lingua_scheduler.store.keys import TABLE
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.store import Store
from tests.support.lost_keys import all_keys, pattern_of
from tests.support.room_party import party
from tests.support.servers import RedisProcess
from tests.support.waiting import until

KINDS = [doc for doc in TABLE if "{room" in doc.pattern or doc.pattern.endswith(":stay")]
RUBBISH: list[bytes | str] = [b"\xff\xfe", "two words", "", "{", "[" * 2_000, "9" * 400, "s-1 i-here 1-1", "inf"]


@pytest.mark.parametrize("way", ["beside", "values", "instead"])
async def test_a_room_goes_on_while_every_kind_of_its_keys_is_soiled(
    server: RedisProcess, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "ROOMS_S", 0.3)
    dice = random.Random(7)
    async with party(server.url) as people:
        await people.all_hear_each()
        for doc in KINDS:
            for key in await all_keys(people.store):
                if pattern_of(doc).fullmatch(key):
                    await _soil(people.store, doc.type, key, way, dice)
            await people.all_hear_each()
            await until(people.is_complete, what=f"nobody was sent away when {doc.pattern} was soiled")
        await Checkup(people.store).put_right(settle_s=0.2)
        assert [one.words for one in await Checkup(people.store).look(settle_s=0.2) if one.is_repairable] == []


async def _soil(store: Store, kind: str, key: str, way: str, dice: random.Random) -> None:
    call, rubbish = store.line.call, dice.choice(RUBBISH)
    if way == "instead":
        await call("DEL", key)
        await call("SET" if kind != "string" else "SADD", key, rubbish)
    elif kind == "hash":
        fields = await call("HKEYS", key) if way == "values" else [dice.choice(RUBBISH)]
        # With another id it is another room.
        for field in set(fields) - {"id"}:
            await call("HSET", key, field, rubbish)
    elif kind == "zset":
        await call("ZADD", key, dice.choice(["0", "-1", "inf", "1e300"]), rubbish)
    else:
        await call("SET", key, rubbish, "KEEPTTL")
