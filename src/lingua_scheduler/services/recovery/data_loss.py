"""Restores what Redis has lost of this instance. The one that finds the loss signals it; each writes its own again."""

import asyncio

from lingua_scheduler.protocol.signals import DataLost
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.nodes.reassertion import Reassertion
from lingua_scheduler.services.sessions.session_records import SessionRecords
from lingua_scheduler.store.cluster.signals import Signals
from lingua_scheduler.telemetry.tasks import Nursery

# After restoring on a signal: a run writes every node of ours, and signals may come without end.
REST_S = 1.0


class DataLoss:
    def __init__(
        self, instance: str, signals: Signals, reassertion: Reassertion, records: SessionRecords, endings: Endings
    ) -> None:
        self._instance = instance
        self._signals = signals
        self._reassertion = reassertion
        self._records = records
        self._endings = endings
        self._signalled = 0
        # Restoring after a signal, and whether another signal arrived meanwhile.
        self._restoring: asyncio.Task[None] | None = None
        self._must_restore = False
        self.tasks = Nursery("data_loss")

    async def recall(self, pools: tuple[str, ...]) -> bool:
        """Called when no node in Redis serves all of these pools. True: nodes of ours were lost, and are back."""
        signalled = self._signalled
        found = await self._reassertion.recall(pools)
        if found and signalled == self._signalled:
            # Coalesced: all waiting callers share one check, and the first of them signals.
            self._signalled += 1
            self._signals.publish(DataLost(self._instance))
        return found

    def heard(self, signal: DataLost) -> None:
        """Another instance found a loss. Signals that arrive while we restore and rest cause one more run."""
        if signal.instance == self._instance:
            return
        self._must_restore = True
        if self._restoring is None or self._restoring.done():
            self._restoring = self.tasks.start(self._restore_until_quiet())

    async def restore(self) -> None:
        """We counted as dead, or Redis lost its data: write our nodes again, and check the jobs we wait for."""
        self._records.doubt()
        await self._reassertion.reassert()
        await self._endings.recheck()

    async def _restore_until_quiet(self) -> None:
        while self._must_restore:
            self._must_restore = False
            await self.restore()
            await asyncio.sleep(REST_S)
