"""A station: a worker's number and sockets, which stay while its processes are replaced."""

import asyncio
import random

from lingua_scheduler.supervisor.listeners import Listeners
from lingua_scheduler.supervisor.worker import Launch, Word, Worker
from lingua_scheduler.telemetry import departed, logs
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.backoff import Backoff

_log = logs.get()

STEADY_S = 10.0
# With jitter, so that stations do not march in step.
RESTARTS = Backoff(0.1, 5.0, jitter=0.5)
KEEPS_DYING = 3
SPAWN_LIMIT_S = 10.0


class Station:
    def __init__(self, number: int, listeners: Listeners, launch: Launch) -> None:
        self.number = number
        self.is_ready = asyncio.Event()
        # The outcome of the first start, for the caller of `start`.
        self.first_word: asyncio.Future[Word] = asyncio.get_running_loop().create_future()
        self._listeners = listeners
        self._launch = launch
        self._worker: Worker | None = None
        self._workers: set[Worker] = set()
        self._quick_deaths = 0
        # Held while a worker is started or replaced here.
        self._changing = asyncio.Lock()
        self._spawns = Nursery("spawns")
        self._burials = Nursery("burials")

    async def keep(self) -> None:
        """Restart the worker whenever it ends, for ever, with an exponential back-off while it ends quickly."""
        while True:
            async with self._changing:
                worker = self._worker
                if worker is None or worker.has_ended:
                    worker = await self._fill()
            exit_code = await worker.ended()
            if worker is self._worker:
                self._note_death(worker, exit_code)

    async def replace(self) -> str:
        """Replace the worker: start a successor, and stop the worker once both serve.

        Returns why it failed, or None.
        """
        async with self._changing:
            successor = await self._start()
            word = await successor.first_word(self._launch.start_limit_s)
            if word.failure:
                await successor.stop(self._launch.stop_grace_s)
                return word.failure
            before, self._worker = self._worker, successor
            self._quick_deaths = 0
            self._greet(successor)
        if before is not None:
            await before.stop(self._launch.stop_grace_s)
        return ""

    async def stop(self) -> None:
        """Stop the worker for good; `keep` and `replace` must not be called afterwards."""
        await self._spawns.settle(SPAWN_LIMIT_S)
        await asyncio.gather(*(worker.stop(self._launch.stop_grace_s) for worker in self._workers))
        await self._burials.settle(SPAWN_LIMIT_S)

    def kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    async def _fill(self) -> Worker:
        await asyncio.sleep(RESTARTS.pause_s(self._quick_deaths, random.random()))
        worker = self._worker = await self._start()
        word = await worker.first_word(self._launch.start_limit_s)
        if not self.first_word.done():
            self.first_word.set_result(word)
        if word.failure:
            _log.error("worker.failed", worker=self.number, pid=worker.pid, reason=word.failure)
        else:
            self._greet(worker)
        return worker

    async def _start(self) -> Worker:
        # Must not be cancelled: an unsupervised process would stay.
        return await asyncio.shield(self._spawns.start(self._spawn()))

    async def _spawn(self) -> Worker:
        worker = await Worker.start(self.number, self._listeners, self._launch)
        self._workers.add(worker)
        self._burials.start(self._bury(worker))
        return worker

    async def _bury(self, worker: Worker) -> None:
        await worker.ended()
        self._workers.discard(worker)
        departed.bury(self._launch.run_dir, worker.name)

    def _greet(self, worker: Worker) -> None:
        self.is_ready.set()
        _log.info("worker.ready", worker=self.number, pid=worker.pid, after_s=round(worker.lived_s, 2))

    def _note_death(self, worker: Worker, exit_code: int) -> None:
        if worker.lived_s >= STEADY_S:
            self._quick_deaths = 0
        self._quick_deaths += 1
        about = {"worker": self.number, "pid": worker.pid, "exit_code": exit_code, "lived_s": round(worker.lived_s, 1)}
        if self._quick_deaths < KEEPS_DYING:
            _log.warning("worker.died", **about)
        else:
            _log.error("worker.keeps_dying", times=self._quick_deaths, **about)
