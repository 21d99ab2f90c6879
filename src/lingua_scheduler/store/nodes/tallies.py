"""Tallies of nodes in Redis: what each did lately, counted by all instances together."""

from collections.abc import Sequence

from lingua_scheduler.domain.watching.tallies import (
    ERRORS_MAX,
    STEP_MS,
    STEPS,
    WINDOW_MS,
    NodeTally,
    TalliedError,
    TallySums,
    error_line,
    tally_of,
)
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys

# Longer than the window, so that a step is not lost before it is over.
KEEP_MS = 2 * WINDOW_MS


class Tallies:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts
        self._unreadable = unreadable

    async def add(self, shard: int, node_id: str, sums: TallySums, errors: Sequence[TalliedError]) -> None:
        """Not idempotent: a reply that gets lost may make it count twice."""
        await self._scripts.run(
            "node_tally",
            tally=self._keys.shard(shard).tally(node_id),
            step_ms=STEP_MS,
            steps=STEPS,
            most=ERRORS_MAX,
            keep_ms=KEEP_MS,
            done=sums.done,
            failed=sums.failed,
            took_ms=sums.took_ms,
            slowest=sums.slowest_ms,
            audio_ms=sums.audio_ms,
            on_audio=sums.audio_took_ms,
            errors=[error_line(error) for error in errors[:ERRORS_MAX]],
        )

    async def read(self, shard: int, node_id: str, now_ms: int) -> NodeTally:
        key = self._keys.shard(shard).tally(node_id)
        flat = await self._line.call("HGETALL", key)
        found = tally_of(dict(zip(flat[::2], flat[1::2], strict=True)), now_ms)
        if found is None:
            self._unreadable.met("tally", key)
        return found or NodeTally()
