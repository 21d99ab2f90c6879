"""The supervisor of several workers on one port: starts them, restarts them, replaces them one by one, stops them."""

import asyncio
import shutil
from collections.abc import Callable, Sequence

from lingua_scheduler.supervisor.listeners import Listeners
from lingua_scheduler.supervisor.station import Station
from lingua_scheduler.supervisor.worker import Launch, Word
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

STRAGGLERS_LIMIT_S = 30.0


class StartFailed(Exception):
    """No worker serves. `word` has the reason in one sentence, and the exit code."""

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
            _log.error(
                "workers.missing",
                workers=missing,
                note="the other workers serve; these are restarted until they stay up",
            )
        return serving[0].redis

    def replace_when(self, asked: asyncio.Event, begins: Callable[[], None], ended: Callable[[str], None]) -> None:
        """From now on, replace all workers whenever the event is set. `ended` gets what can be said of it."""
        self._keepers.start(self._replace_when(asked, begins, ended))

    async def stop(self) -> None:
        await self._keepers.close()
        # These connections will never be accepted, so they must not wait.
        for listener in (listener for group in self._listeners for listener in group):
            listener.close()
        await asyncio.gather(*(station.stop() for station in self._stations))

    def kill(self) -> None:
        """Kill all workers immediately; the supervisor cannot be used after this."""
        shutil.rmtree(self._run_dir, ignore_errors=True)
        for station in self._stations:
            station.kill()

    async def _replace_when(
        self, asked: asyncio.Event, begins: Callable[[], None], ended: Callable[[str], None]
    ) -> None:
        while True:
            await asked.wait()
            asked.clear()
            begins()
            ended(await self._replace_all())

    async def _replace_all(self) -> str:
        """One after the other, so that all the others serve meanwhile. The first that fails ends it."""
        _log.info("restart.began", workers=len(self._stations))
        for station in self._stations:
            if failure := await station.replace():
                _log.error(
                    "restart.aborted", worker=station.number, reason=failure, note="the previous worker keeps running"
                )
                return "serving with the previous workers: the reload failed, see the log"
        _log.info("restart.ended", workers=len(self._stations))
        return f"serving with {len(self._stations)} workers"
