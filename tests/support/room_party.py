"""People who talk in a room at two instances, and a guest: each hears each, whatever is done to Redis meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

from lingua_scheduler.store.store import Store
from tests.support.peers import Field
from tests.support.room_talk import Talker, translate
from tests.support.schedulers import scheduler_on
from tests.support.waiting import until

LANGUAGES = ("en", "zh", "pt")


class Party:
    """Members, and one guest, who read each other."""

    def __init__(self, people: list[Talker], guest: Talker, store: Store) -> None:
        self.members = people
        self.everyone = [*people, guest]
        self.store = store
        self._said = [0] * len(people)

    async def say(self, number: int, words: str) -> None:
        said = self._said[number]
        self._said[number] += 1
        await self.members[number].say(words, said)

    async def all_hear_each(self) -> None:
        """Every member says something until all others have read it: what was said as a key was lost may be lost."""
        for number, speaker in enumerate(self.members):
            others = [one for one in self.everyone if one is not speaker]

            async def is_heard(number: int = number, others: list[Talker] = others) -> bool:
                words = f"{number} says {self._said[number]}"
                await self.say(number, words)
                for _ in range(40):
                    if all(any(words in text for text in other.texts()) for other in others):
                        return True
                    await asyncio.sleep(0.05)
                return False

            await until(is_heard, what=f"everyone reads member {number}")

    def is_complete(self) -> bool:
        """Nobody was sent away, and all see all members."""
        ids = {member.session_id for member in self.members}
        return all(
            not one.of("room_expired") and {member["session_id"] for member in one.members} == ids
            for one in self.everyone
        )


@asynccontextmanager
async def party(url: str) -> AsyncIterator[Party]:
    """Members at two instances, one of whom does not want to hear another's voice, and a guest at the second."""
    async with AsyncExitStack() as stack:
        settings = {"sessions__hangover_manual_ms": 0, "instances__beat_ms": 300}
        schedulers = [await stack.enter_async_context(scheduler_on(url, **settings)) for _ in range(2)]
        http = await stack.enter_async_context(aiohttp.ClientSession())
        field = Field(http, schedulers[0][0].port)
        stack.push_async_callback(field.close)
        await field.node(translate, languages=LANGUAGES, max_concurrent_jobs=16)
        people: list[Talker] = []
        code = ""
        for number, language in enumerate((*LANGUAGES, "pt")):
            person = Talker(http, schedulers[number % 2][0].port)
            stack.push_async_callback(person.close)
            await person.ready(src_lang=language, tgt_lang="en", platform="sdk")
            fields = {"listen_only": True} if number == len(LANGUAGES) else {}
            code = await person.enter_or_create(code, preferred_lang=language, room_events=True, **fields)
            people.append(person)
        *members, guest = people
        await members[1].tick(members[0].session_id, receive=False)
        await until(lambda: all(len(one.members) == len(members) for one in people), what="everyone is there")
        yield Party(members, guest, schedulers[0][1])
