"""People in a room: they talk, and write down what they said and what they read."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import aiohttp

from lingua_sdk.client import Client
from lingua_sdk.room_events import Said, Unheard
from lingua_sdk.rooms import Room
from tests.support.worded_sound import spoken


class Fault(NamedTuple):
    who: str
    what: str


class Person:
    def __init__(self, name: str, language: str, addresses: Sequence[str]) -> None:
        self.name = name
        self.language = language
        self.client = Client(addresses, language, "en")
        # What it said, and when.
        self.said: dict[str, float] = {}
        # What it read of others, in the order it came; `None` is an outcome without text.
        self.read: list[tuple[int | None, str | None, bool]] = []
        self.lags_s: list[float] = []
        # Why there was no text.
        self.reasons: Counter[str] = Counter()
        self._room: Room | None = None
        self._reading: asyncio.Task[None] | None = None

    async def enter(self, code: str) -> str:
        await self.client.__aenter__()
        if code:
            self._room = await self.client.join_room(code, name=self.name, language=self.language, speech=False)
        else:
            self._room = await self.client.create_room(name=self.name, language=self.language, speech=False)
        return self._room.code

    def listen(self, everyone: "Sequence[Person]") -> None:
        said_at = [person.said for person in everyone]
        self._reading = asyncio.create_task(self._read(said_at))

    async def talk(self, is_over: Callable[[], bool], dice: random.Random, pace_s: float) -> None:
        """Sentences with pauses; several people speak at once by chance."""
        assert self._room is not None
        while not is_over():
            await asyncio.sleep(dice.expovariate(1 / pace_s))
            words = f"{self.name}-{len(self.said)}"
            self.said[words] = time.monotonic()
            await self._room.say(spoken(words))

    async def leave(self) -> None:
        if self._room is not None:
            with suppress(Exception):
                await self._room.leave()
        if self._reading is not None:
            self._reading.cancel()
        await self.client.__aexit__(None, None, None)

    async def _read(self, said_at: list[dict[str, float]]) -> None:
        assert self._room is not None
        async for event in self._room:
            if isinstance(event, Said) and not event.is_own:
                words = event.translated.removeprefix(f"{self.language}:")
                self.read.append((event.room_seq, words, event.is_late))
                at_s = next((said[words] for said in said_at if words in said), None)
                if at_s is not None:
                    self.lags_s.append(time.monotonic() - at_s)
            elif isinstance(event, Unheard) and event.speaker != self.client.session_id:
                self.read.append((event.room_seq, None, event.is_late))
                self.reasons[event.code or event.reason] += 1


async def deaf(http: aiohttp.ClientSession, address: str, code: str) -> aiohttp.ClientWebSocketResponse:
    """A listener that enters and never reads what it is sent."""
    socket = await http.ws_connect(f"ws://{address}/ws/session")
    await socket.send_json(
        {"type": "session_init", "client_version": "x", "platform": "x", "src_lang": "en", "tgt_lang": "zh"}
    )
    await socket.receive()
    await socket.send_json({"type": "room_join", "room_code": code, "preferred_lang": "zh", "room_events": True})
    return socket


def judged(people: list[Person]) -> list[Fault]:
    """What is wrong: each reads every utterance of the others once and in order, or is told that it has no text."""
    faults: list[Fault] = []
    for reader in people:
        expected = {words for person in people if person is not reader for words in person.said}
        read = [words for _, words, _ in reader.read if words is not None]
        untold = sum(words is None for _, words, _ in reader.read)
        faults += [
            Fault(reader.name, f"read {words} {times} times") for words, times in Counter(read).items() if times > 1
        ]
        faults += [Fault(reader.name, f"read {words}, which no one said") for words in set(read) - expected]
        missing = len(expected - set(read)) - untold
        if missing:
            among = " ".join(sorted(expected - set(read))[:8])
            faults.append(Fault(reader.name, f"{missing} of {len(expected)} have no outcome; among {among}"))
        highest = 0
        for seq, _, is_late in reader.read:
            if seq is not None and seq < highest and not is_late:
                faults.append(Fault(reader.name, f"read {seq} after {highest}, not marked as late"))
            highest = max(highest, seq or 0)
    return faults
