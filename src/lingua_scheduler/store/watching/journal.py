"""A journal: a stream with a limit on the number and the age of its entries, which any instance may read."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.reading import is_text
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys

# Entries read, and written, in one call.
PAGE = 500
BEGINNING = "0-0"


class JournalEntry(NamedTuple):
    # Orders the entries of a journal; its first part is when it was written (ms, Redis's clock).
    entry_id: str
    text: str


class Journal:
    def __init__(self, line: RedisLine, scripts: Scripts, unreadable: UnreadableKeys, key: str) -> None:
        self._line = line
        self._scripts = scripts
        self._unreadable = unreadable
        self._key = key

    async def append(self, entries: Sequence[bytes], most: int, keep_ms: int) -> None:
        """Write some entries in one call, at most a page."""
        if entries:
            await self._scripts.run(
                "journal_append", journal=self._key, most=most, keep_ms=keep_ms, entries=list(entries)
            )

    async def after(self, entry_id: str, most: int = PAGE) -> list[JournalEntry]:
        """Those that follow an entry, the oldest first."""
        return self._read(await self._line.call("XRANGE", self._key, f"({entry_id}", "+", "COUNT", most))

    async def newest(self, most: int, since_ms: int = 0, page_size: int = PAGE) -> AsyncIterator[JournalEntry]:
        """The newest first, page by page, `most` in all; none written before `since_ms`."""
        end, left = "+", most
        while left > 0:
            page = await self._line.call("XREVRANGE", self._key, end, max(0, since_ms), "COUNT", min(page_size, left))
            for entry in self._read(page):
                yield entry
            if len(page) < min(page_size, left):
                return
            end, left = f"({page[-1][0]}", left - len(page)

    def _read(self, page: list[tuple[str, list[str]]]) -> list[JournalEntry]:
        found = [JournalEntry(entry_id, flat[1]) for entry_id, flat in page if len(flat) == 2 and is_text(flat[1])]
        self._unreadable.met(self._key.rpartition(":")[2], self._key, len(page) - len(found))
        return found
