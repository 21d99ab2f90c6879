"""Events, curves and alarms of the fleet in Redis: written by the leader, read by all."""

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from lingua_scheduler.domain.watching.chronicle import FleetMemory
from lingua_scheduler.domain.watching.picture import Event, Look, Moment
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys
from lingua_scheduler.store.watching.journal import BEGINNING, PAGE, Journal
from lingua_sdk.domain.decoding import DECODE_ERRORS

L = TypeVar("L", bound=Look)

EVENTS_MAX = 500
EVENTS_KEEP_MS = 7 * 86_400_000
MOMENTS_MAX = 1_800
MOMENTS_KEEP_MS = 30 * 60_000
MEMORY_KEEP_MS = 3_600_000

_MEMORY = msgspec.json.Decoder(FleetMemory)


class JournalReader(Generic[L]):
    """Reads a journal from where it stopped."""

    def __init__(self, journal: Journal, kind: type[L], most: int, unreadable: UnreadableKeys, key: str) -> None:
        self._journal = journal
        self._decoder = msgspec.json.Decoder(kind)
        self._most = most
        self._unreadable = unreadable
        self._key = key
        self._read_to = ""

    async def news(self) -> list[L]:
        """The oldest first; the first time as many as are kept."""
        if self._read_to:
            entries = await self._journal.after(self._read_to)
        else:
            entries = [entry async for entry in self._journal.newest(self._most)][::-1]
        self._read_to = entries[-1].entry_id if entries else self._read_to or BEGINNING
        found: dict[str, L] = {}
        for entry in entries:
            try:
                found[entry.text] = self._decoder.decode(entry.text)
            except DECODE_ERRORS:
                self._unreadable.met(self._key.rpartition(":")[2], self._key)
        return list(found.values())


class ChronicleStore:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._key = keys.memory
        self._unreadable = unreadable
        self._events = Journal(line, scripts, unreadable, keys.events)
        self._moments = Journal(line, scripts, unreadable, keys.moments)
        self.events = JournalReader(self._events, Event, EVENTS_MAX, unreadable, keys.events)
        self.moments = JournalReader(self._moments, Moment, MOMENTS_MAX, unreadable, keys.moments)

    async def write(self, events: Sequence[Event], moment: Moment, memory: FleetMemory | None) -> None:
        """The next page of the chronicle, in one write."""
        encode = msgspec.json.encode
        await asyncio.gather(
            self._events.append([encode(event) for event in events[:PAGE]], EVENTS_MAX, EVENTS_KEEP_MS),
            self._moments.append([encode(moment)], MOMENTS_MAX, MOMENTS_KEEP_MS),
            *(() if memory is None else (self._line.call("SET", self._key, encode(memory), "PX", MEMORY_KEEP_MS),)),
        )

    async def memory(self) -> FleetMemory | None:
        text = await self._line.call("GET", self._key)
        try:
            return None if text is None else _MEMORY.decode(text)
        except DECODE_ERRORS:
            self._unreadable.met("memory", self._key)
            return None
