"""What this instance does when Redis becomes unavailable, comes back, perhaps empty, or when its clock jumps."""

import asyncio
from collections.abc import Callable

from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.services.nodes.sweeper import Sweeper
from lingua_scheduler.services.sessions.session_records import SessionRecords
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()


class Outages:
    """`settled` is cleared while jobs must not be placed; `on_change` is called when an outage begins or ends."""

    def __init__(
        self, store: Store, presence: Presence, sweeper: Sweeper, records: SessionRecords, connected: ConnectedNodes
    ) -> None:
        self._store = store
        self._presence = presence
        self._sweeper = sweeper
        self._records = records
        self._connected = connected
        self._rewriting: asyncio.Task[None] | None = None
        self.settled = asyncio.Event()
        self.settled.set()
        self.on_change: Callable[[], None] = lambda: None
        self.tasks = Nursery("outages")

    def watch(self) -> None:
        """From now on, on an open store."""
        self._store.line.on_up = self.ended
        self._store.line.on_down = self.began
        metrics.REDIS_UP.set(1)

    def began(self, reason: str) -> None:
        metrics.REDIS_UP.set(0)
        _log.error("redis.down", reason=reason)
        self.on_change()

    def ended(self) -> None:
        metrics.REDIS_UP.set(1)
        self.settled.clear()
        self._sweeper.suspend_judgement()
        self._presence.suspend_judgement()
        self._records.doubt()
        _log.info("redis.up", version=self._store.version)
        self.on_change()
        self.tasks.start(self._settle())

    def clock_jumped(self, _jump_ms: float) -> None:
        """Redis's clock jumped: write our nodes again with deadlines of the new time."""
        self._presence.suspend_judgement()
        if self._rewriting is None or self._rewriting.done():
            # Every shard may notice it.
            self._rewriting = self.tasks.start(self._connected.reassertion.reassert())

    async def _settle(self) -> None:
        """Before jobs are placed: nodes that left are removed, and the jobs that ours run are in the ledger."""
        try:
            await self._connected.departures.remove_left_behind()
            await self._connected.reassertion.reassert()
        finally:
            self.settled.set()
