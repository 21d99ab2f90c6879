"""Each kind of key of rooms is deleted in turn while members at two instances talk: the room goes on by itself."""

import time
from functools import partial
from typing import Any

import pytest

from lingua_scheduler.assembly import rooms
from lingua_scheduler.store.keys import TABLE
from tests.support.lost_keys import are_back, delete, is_any
from tests.support.room_party import party
from tests.support.waiting import until

KINDS = [doc for doc in TABLE if "{room" in doc.pattern or doc.pattern.endswith(":stay")]
# Of one minute, and written with the next wrong code.
FORGOTTEN = "guesses"


async def test_every_kind_of_key_of_rooms_may_be_lost(redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "ROOMS_S", 0.3)
    async with party(redis.url) as people:
        await people.all_hear_each()
        wrong = people.store.keys.guesses("default")
        await people.store.line.call("HSET", wrong, "all", 1)
        for doc in KINDS:
            await until(partial(is_any, people.store, doc), what=f"{doc.pattern} is there")
            began_s = time.monotonic()
            lost = await delete(people.store, doc)
            assert lost, doc.pattern
            await people.all_hear_each()
            heard_s = time.monotonic() - began_s
            if not doc.pattern.endswith(FORGOTTEN):
                await until(partial(are_back, people.store, lost), what=f"{doc.pattern} written again")
            whole_s = time.monotonic() - began_s
            print(f"{doc.pattern:40} {len(lost)} lost, heard again after {heard_s:.2f} s, whole {whole_s:.2f} s")
            await until(people.is_complete, what=f"nobody was sent away when {doc.pattern} was lost")
            assert [one.alerts for one in people.everyone if one.alerts] == []
        wishes = people.members[0].members[0]["raw_voice_preferences"]
        assert wishes == {people.members[1].session_id: False}
