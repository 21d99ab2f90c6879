"""Rooms while one instance is of this release, and one still of a release before it, perhaps one without rooms."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.support.peers import Field
from tests.support.release_places import UPGRADE, Place, both_releases
from tests.support.room_talk import Talker, translate
from tests.support.servers import RedisProcess
from tests.support.surprises import SURPRISES
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not UPGRADE, reason="builds the previous release: make test-upgrade"),
]


class Mixed:
    """`newer` and `older` are ports."""

    def __init__(self, http: aiohttp.ClientSession, newer: int, older: int) -> None:
        self.newer, self.older = newer, older
        self._http = http
        self._people: list[Talker] = []

    async def person(self, port: int, **init: object) -> Talker:
        person = Talker(self._http, port)
        self._people.append(person)
        return await person.ready(**{"platform": "sdk", **init})  # type: ignore[return-value]

    async def room(self, *ports: int) -> list[Talker]:
        """One speaks English, one Chinese."""
        at_first, at_last = ports or (self.newer, self.newer)
        ann = await self.person(at_first, src_lang="en", tgt_lang="zh")
        bob = await self.person(at_last, src_lang="zh", tgt_lang="en")
        code = await ann.create(preferred_lang="en", room_events=True)
        await bob.enter(code, preferred_lang="zh", room_events=True)
        await until(lambda: len(ann.members) == 2, what="both are there")
        return [ann, bob]

    async def close(self) -> None:
        for person in self._people:
            await person.close()


@pytest.fixture(params=["newer", "older"])
async def mixed(request: pytest.FixtureRequest, server: RedisProcess, tmp_path: Path) -> AsyncIterator[Mixed]:
    """The only node is at an instance of this release, or of the previous one."""
    previous, this = both_releases()
    places = {name: Place(name, tmp_path, server.url) for name in ("newer", "older")}
    async with aiohttp.ClientSession() as http:
        try:
            await places["newer"].run(this, http)
            await places["older"].run(previous, http)
            field = Field(http, places[request.param].port)
            await field.node(translate, languages=("en", "zh"), max_concurrent_jobs=16)
            found = Mixed(http, places["newer"].port, places["older"].port)
            yield found
            await found.close()
            await field.close()
        finally:
            for place in places.values():
                await place.stop()
    for place in places.values():
        for log in place.logs():
            SURPRISES.look_at_log(log)


async def older_has_rooms(mixed: Mixed) -> bool:
    stranger = await mixed.person(mixed.older, src_lang="en", tgt_lang="zh")
    await stranger.send("room_create", client_ts=1)
    await until(lambda: stranger.of("room_error") or stranger.of("room_create_ack"))
    return bool(stranger.of("room_create_ack"))


async def talk(ann: Talker, bob: Talker) -> None:
    await ann.say("one")
    await until(lambda: [one.get("text_translated") for one in bob.from_others()] == ["zh:one"])
    await bob.say("two")
    await until(lambda: [one.get("text_translated") for one in ann.from_others()] == ["en:two"])


async def test_a_room_works_at_the_instances_that_have_rooms(mixed: Mixed) -> None:
    ann, bob = await mixed.room()
    await talk(ann, bob)


async def test_people_at_both_instances_understand_each_other_where_both_have_rooms(mixed: Mixed) -> None:
    if not await older_has_rooms(mixed):
        pytest.skip("the release before has no rooms; FROM names another one")
    await talk(*await mixed.room(mixed.newer, mixed.older))
    await talk(*await mixed.room(mixed.older, mixed.newer))


async def test_an_older_instance_refuses_rooms_and_a_member_there_misses_what_is_said_until_it_is_back(
    mixed: Mixed,
) -> None:
    if await older_has_rooms(mixed):
        pytest.skip("the release before has rooms")
    ann, bob = await mixed.room()
    await ann.say("one")
    await until(lambda: len(bob.from_others()) == 1)
    bob.cut()
    there = await mixed.person(mixed.older, src_lang="zh", tgt_lang="en", resume_token=bob.token)
    assert there.session_id == bob.session_id
    await there.join(ann.code)
    await until(lambda: there.of("room_error"))
    # Its speech is translated for itself alone.
    await there.say("three")
    await until(lambda: there.texts() == ["en:three"])
    await ann.say("two", 1)
    await until(lambda: [one["utterance_index"] for one in ann.outcomes()] == [0, 1], what="the speaker is told")
    assert there.from_others() == []
    assert ann.from_others() == []
    there.cut()
    back = await mixed.person(
        mixed.newer, src_lang="zh", tgt_lang="en", resume_token=there.token, last_room_seq=1, platform="sdk"
    )
    assert back.session_id == bob.session_id
    await until(lambda: [one.get("text_translated") for one in back.from_others()] == ["zh:two"])
    await back.say("four")
    await until(lambda: [one.get("text_translated") for one in ann.from_others()] == ["en:four"])
