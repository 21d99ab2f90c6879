"""The failure history in Redis: one journal for the whole fleet."""

from collections.abc import Sequence

from lingua_scheduler.domain.watching.failures import DECODER, ENCODER, FailedJob, FailureFilter
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys
from lingua_scheduler.store.watching.journal import Journal
from lingua_sdk.domain.decoding import DECODE_ERRORS

# Entries one query looks at.
LOOKED_AT_MAX = 20_000
# Entries of one reply: while it is read, nothing else is done.
TOGETHER = 100
# Clocks of instances may differ from Redis's; what is asked for by its time is looked for in entries a little older.
SKEW_MS = 60_000


class FailureHistory:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._journal = Journal(line, scripts, unreadable, keys.failures)
        self._key = keys.failures
        self._unreadable = unreadable

    async def add(self, failures: Sequence[FailedJob], most: int, keep_ms: int) -> None:
        await self._journal.append([ENCODER.encode(failure) for failure in failures], most, keep_ms)

    async def latest(self, asked: FailureFilter, limit: int) -> list[FailedJob]:
        """Those that a filter takes, the newest first. What was written twice is there once."""
        found: dict[str, FailedJob] = {}
        since_ms = asked.since_ms - SKEW_MS if asked.since_ms else 0
        # Who is not choosy needs no more than asked for; a picture is made every second.
        page_size = TOGETHER if any(asked) else min(TOGETHER, limit)
        async for entry in self._journal.newest(LOOKED_AT_MAX, since_ms, page_size):
            failure = self._decoded(entry.text)
            if failure is not None and asked.takes(failure):
                found[entry.text] = failure
            if len(found) >= limit:
                break
        return sorted(found.values(), key=lambda failure: -failure.at_ms)

    def _decoded(self, text: str) -> FailedJob | None:
        try:
            return DECODER.decode(text)
        except DECODE_ERRORS:
            self._unreadable.met("failures", self._key)
            return None
