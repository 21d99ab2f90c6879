"""Several workers as one scheduler: started, kept alive, replaced one after the other, ended together."""

import asyncio
import shutil
from collections.abc import Sequence

from lingua_scheduler.supervisor.listeners import Listeners
from lingua_scheduler.supervisor.station import Station
from lingua_scheduler.supervisor.worker import Launch, Word
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

STRAGGLERS_LIMIT_S = 30.0


class StartFailed(Exception):
    """No worker serves; `word` says why, in one sentence, and how to end."""

    def __init__(self, word: Word) -> None:
        super().__init__(word.failure)
        self.word = word


class Supervisor:
    """Keeps the sockets open from beginning to end, so connections wait while a station has no worker."""

    def __init__(self, launch: Launch, listeners: Sequence[Listeners]) -> None:
        self._listeners = listeners
        self._run_dir = launch.run_dir
        self._stations = [Station(number, group, launch) for number, group in enumerate(listeners)]
        self._keepers = Nursery("stations")

    async def start(self) -> str:
        """Return when all serve, or all that will; the version of their Redis."""
        for station in self._stations:
            self._keepers.start(station.keep())
        words = await asyncio.gather(*(station.first_word for station in self._stations))
        serving = [word for word in words if not word.failure]
        if not serving:
            raise StartFailed(words[0])
        try:
            async with asyncio.timeout(STRAGGLERS_LIMIT_S):
                await asyncio.gather(*(station.is_ready.wait() for station in self._stations))
        except TimeoutError:
            missing = [station.number for station in self._stations if not station.is_ready.is_set()]
            _log.error("workers.missing", workers=missing, note="the others serve; these are tried again and again")
        return serving[0].redis

    def replace_when(self, asked: asyncio.Event) -> None:
        """From now on, replace all workers whenever the event is set."""
        self._keepers.start(self._replace_when(asked))

    async def stop(self) -> None:
        await self._keepers.close()
        # Nobody will accept what waits here, so nobody may wait.
        for listener in (listener for group in self._listeners for listener in group):
            listener.close()
        await asyncio.gather(*(station.stop() for station in self._stations))

    def kill(self) -> None:
        """At once, whatever they do; nothing of ours can be used after this."""
        shutil.rmtree(self._run_dir, ignore_errors=True)
        for station in self._stations:
            station.kill()

    async def _replace_when(self, asked: asyncio.Event) -> None:
        while True:
            await asked.wait()
            asked.clear()
            await self._replace_all()

    async def _replace_all(self) -> None:
        """One after the other, so that all the others serve meanwhile. The first that fails ends it."""
        _log.info("restart.began", workers=len(self._stations))
        for station in self._stations:
            if failure := await station.replace():
                _log.error("restart.aborted", worker=station.number, reason=failure, note="the worker before it stays")
                return
        _log.info("restart.ended", workers=len(self._stations))
