"""Rooms while Redis takes no writes: who speaks is told, nobody is sent away, and the talk goes on afterwards."""

from collections import Counter

import pytest

from tests.support.room_party import party
from tests.support.servers import RedisProcess
from tests.support.waiting import until

REFUSALS = {
    "OOM": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    "NOREPLICAS": ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    "READONLY": ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
}


@pytest.mark.parametrize("why", REFUSALS)
async def test_a_room_outlives_a_redis_that_refuses_writes(server: RedisProcess, why: str) -> None:
    on, off = REFUSALS[why]
    async with party(server.url) as people:
        await people.all_hear_each()
        speaker, member = people.members[:2]
        server.command(*on.split())
        try:
            await people.say(0, "not heard")
            await until(
                lambda: [one for one in speaker.outcomes() if one.get("code") == "SCHEDULER_DEPENDENCY_DOWN"],
                what="the speaker is told",
            )
            await member.send("room_update", room_code=member.code, display_name="Bob")
            await until(lambda: member.of("room_error"), what="who changes something is told")
        finally:
            server.command(*off.split())
        await people.all_hear_each()
        await until(people.is_complete, what="nobody was sent away")
        for one in people.everyone:
            told = Counter(frame["room_seq"] for frame in one.from_others())
            assert set(told.values()) == {1}
