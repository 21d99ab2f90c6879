"""Each kind of key of rooms is deleted in turn while members at two instances talk: the room goes on by itself."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import pytest

from lingua_scheduler import app
from lingua_scheduler.store.keys import TABLE
from lingua_scheduler.store.store import Store
from tests.support.lost_keys import are_back, delete, is_any
from tests.support.peers import Field
from tests.support.room_talk import Talker, translate
from tests.support.schedulers import scheduler_on
from tests.support.waiting import until

LANGUAGES = ("en", "zh", "pt")
KINDS = [doc for doc in TABLE if "{room" in doc.pattern or doc.pattern.endswith(":stay")]
# Of one minute, and written with the next wrong code.
FORGOTTEN = "guesses"


class Party:
    """Members, and one guest, who read each other."""

    def __init__(self, people: list[Talker], guest: Talker, store: Store) -> None:
        self.members = people
        self.everyone = [*people, guest]
        self.store = store
        self._said = [0] * len(people)

    async def all_hear_each(self) -> None:
        """Every member says something until all others have read it: what was said as a key was lost may be lost."""
        for number, speaker in enumerate(self.members):
            others = [one for one in self.everyone if one is not speaker]

            async def is_heard(number: int = number, speaker: Talker = speaker, others: list[Talker] = others) -> bool:
                words = f"{number} says {self._said[number]}"
                await speaker.say(words, self._said[number])
                self._said[number] += 1
                for _ in range(40):
                    if all(any(words in text for text in other.texts()) for other in others):
                        return True
                    await asyncio.sleep(0.05)
                return False

            await until(is_heard, what=f"everyone reads member {number}")

    def is_undisturbed(self) -> bool:
        ids = {member.session_id for member in self.members}
        return all(
            not one.alerts and not one.of("room_expired") and {m["session_id"] for m in one.members} == ids
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


async def test_every_kind_of_key_of_rooms_may_be_lost(redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "ROOMS_S", 0.3)
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
            await until(people.is_undisturbed, what=f"nobody was sent away when {doc.pattern} was lost")
        wishes = people.members[0].members[0]["raw_voice_preferences"]
        assert wishes == {people.members[1].session_id: False}
