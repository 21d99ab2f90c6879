"""A room during an upgrade and the way back: everyone in it reads every utterance once, and in order.

Releases before 0.2 have no rooms. Beside one of these, a room works among the members at newer instances."""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import run

import aiohttp
import pytest

from lingua_scheduler.store.store import Store
from lingua_sdk.client import Client
from lingua_sdk.processes import stop
from lingua_sdk.rooms import RoomFailed
from tests.support.release_places import UPGRADE, Place, Release, both_releases, started
from tests.support.servers import RedisProcess
from tests.support.surprises import SURPRISES
from tests.support.waiting import until
from tools.docs import ROOT
from tools.room_chaos.people import Person, judged

LANGUAGES = ("en", "zh", "pt")
PEOPLE, PACE_S = 6, 1.0
# What everyone says between two changes.
BETWEEN = 3
# That of the peers who lose their instance when it stops, and of rebalancing.
RECONNECTS_FOR_EACH_STOP = 2

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not UPGRADE, reason="a minute or more of speech on two releases: make test-upgrade"),
]


def has_rooms(release: Release) -> bool:
    """Asked from a folder without any source, or that would be imported."""
    question = "from importlib.util import find_spec; print(bool(find_spec('lingua_scheduler.services.rooms')))"
    told = run([str(release.python), "-I", "-c", question], capture_output=True, text=True, check=True, cwd="/")
    return told.stdout.strip() == "True"


class Talk:
    """Everyone talks until it is over."""

    def __init__(self, people: list[Person]) -> None:
        self.people = people
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        for person in self.people:
            dice = random.Random(person.name)
            self._tasks.append(asyncio.create_task(person.talk(lambda: self._is_over, dice, PACE_S)))

    async def goes_on(self) -> None:
        """Until everyone has said some more, and read some more of the others."""
        said = {person: len(person.said) + BETWEEN for person in self.people}
        read = {person: len(person.read) + BETWEEN for person in self.people}

        def is_further() -> bool:
            self._raise()
            return all(len(one.said) >= said[one] and len(one.read) >= read[one] for one in self.people)

        await until(is_further, within_s=180, what="the talk goes on")

    async def end(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)
        await until(lambda: not judged(self.people), within_s=90, what=f"{judged(self.people)[:10]}")

    def _raise(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    def told(self) -> str:
        said, read = (sum(len(getattr(one, name)) for one in self.people) for name in ("said", "read"))
        late = sum(is_late for one in self.people for _, _, is_late in one.read)
        return f"{said} said, {read} read, {late} late, {sum(one.client.times_resumed for one in self.people)} resumed"


@asynccontextmanager
async def nodes(folder: Path, addresses: list[str]) -> AsyncIterator[None]:
    """Those of rooms, with this release's SDK."""
    async with AsyncExitStack() as stack:
        for number in range(2):
            own = addresses if number else addresses[::-1]
            words = ("-m", "tools.room_chaos.nodes", f"n{number}", ",".join(own), ",".join(LANGUAGES), f"{number}")
            node = await started(Path(sys.executable), folder / f"node-{number}.log", *words, folder=ROOT)
            stack.push_async_callback(stop, node, 30.0)
        yield


async def room_of(people: list[Person], stack: AsyncExitStack) -> str:
    code = ""
    for person in people:
        code = await person.enter(code)
        stack.push_async_callback(person.leave)
    for person in people:
        person.listen(people)
    return code


async def all_is_well(talk: Talk, places: list[Place], store: Store, stops: int) -> None:
    await talk.end()
    print(f"in the room: {talk.told()}")
    assert judged(talk.people) == []
    reasons = sum((person.reasons for person in talk.people), Counter[str]())
    assert reasons == {}, "each utterance has a text"
    # Speakers are not translated for themselves, so all that is read was said by another.
    said = sum(len(person.said) for person in talk.people)
    assert sum(len(person.read) for person in talk.people) == said * (len(talk.people) - 1)
    resumed = sum(person.client.times_resumed for person in talk.people)
    assert resumed <= RECONNECTS_FOR_EACH_STOP * stops * len(talk.people)
    for place in places:
        for log in place.logs():
            SURPRISES.look_at_log(log)


async def test_a_room_goes_on_while_releases_are_exchanged_and_back(
    server: RedisProcess, store: Store, tmp_path: Path
) -> None:
    previous, this = both_releases()
    if not has_rooms(previous):
        pytest.skip("the previous release has no rooms")
    places = [Place(name, tmp_path, server.url) for name in ("a", "b")]
    addresses = [place.address for place in places]
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        for place in places:
            stack.push_async_callback(place.stop)
            await place.run(previous, http)
        await stack.enter_async_context(nodes(tmp_path, addresses))
        await until(lambda: _serves(http, places[0]))
        people = [
            Person(f"p{number}", LANGUAGES[number % 3], addresses[:: 1 if number % 2 else -1])
            for number in range(PEOPLE)
        ]
        await room_of(people, stack)
        talk = Talk(people)
        talk.begin()
        await talk.goes_on()
        for release in (this, previous):
            for place in places:
                await place.run(release, http)
                await talk.goes_on()
                print(f"rooms, {' and '.join(one.release for one in places)}: {talk.told()}")
        await all_is_well(talk, places, store, 4)


async def test_beside_a_release_without_rooms_they_work_at_newer_instances(
    server: RedisProcess, store: Store, tmp_path: Path
) -> None:
    previous, this = both_releases()
    if has_rooms(previous):
        pytest.skip("the previous release has rooms")
    # Members that are spread by themselves would come to the older instance, where they hear nothing of the room.
    settings = {"instances.rebalance_ms": 0}
    newer, other = places = [Place(name, tmp_path, server.url, settings) for name in ("a", "b")]
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        for place, release in zip(places, (this, previous), strict=True):
            stack.push_async_callback(place.stop)
            await place.run(release, http)
        await stack.enter_async_context(nodes(tmp_path, [place.address for place in places]))
        await until(lambda: _serves(http, newer))
        people = [Person(f"p{number}", LANGUAGES[number % 3], [newer.address]) for number in range(PEOPLE - 1)]
        code = await room_of(people, stack)
        talk = Talk(people)
        talk.begin()
        await talk.goes_on()
        print(f"rooms, this and previous: {talk.told()}")
        async with Client(other.address, "en", "zh") as client:
            with pytest.raises(RoomFailed) as refused:
                await client.join_room(code, name="early", language="pt")
            print(f"the previous release answers: {refused.value}")
        # Also on the way back: who is at the instance that leaves goes on at the other.
        await other.run(this, http)
        visitor = Person("visitor", "pt", [other.address, newer.address])
        await visitor.enter(code)
        stack.push_async_callback(visitor.leave)
        visitor.listen(people)
        await talk.goes_on()
        await until(lambda: len(visitor.read) >= BETWEEN)
        before = len(visitor.read)
        await other.run(previous, http)
        await talk.goes_on()
        await until(lambda: len(visitor.read) >= before + BETWEEN)
        print(f"rooms, this and this, then previous again: {talk.told()}; the one who moved read {len(visitor.read)}")
        assert not [times for times in Counter(words for _, words, _ in visitor.read).values() if times > 1]
        await all_is_well(talk, places, store, 0)


async def _serves(http: aiohttp.ClientSession, place: Place) -> bool:
    async with http.get(f"http://127.0.0.1:{place.port}/v1/nodes") as response:
        return len((await response.json())["nodes"]) == 2
