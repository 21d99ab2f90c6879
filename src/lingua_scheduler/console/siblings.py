"""Metrics of all workers of one supervisor, so that any of them can answer for all."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lingua_scheduler.domain.jobs.jobs import ENDED
from lingua_scheduler.protocol.http import Status, WorkerAbout
from lingua_scheduler.telemetry import departed, figures, metrics
from lingua_scheduler.telemetry.figures import MetricFamily, total

ASK_LIMIT_S = 1.0
MAX_ANSWER_BYTES = 4 * 2**20


class WorkerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's own."""

    worker: int
    pid: int
    instance_id: str
    families: list[MetricFamily]


_FIGURES = msgspec.json.Decoder(WorkerFigures)


class Together(NamedTuple):
    workers: list[WorkerFigures]
    families: list[MetricFamily]


class Siblings:
    """`name` is this process's in the folder that all workers share."""

    def __init__(self, run_dir: Path, worker: int, instance_id: str) -> None:
        self._run_dir = run_dir
        self._worker = worker
        self._instance_id = instance_id
        self._name = f"{worker}-{os.getpid()}"
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._answer, str(self._run_dir / f"{self._name}.sock"))
        self._own()

    async def close(self) -> None:
        """The last word: what is noted here is all that is left of us."""
        if self._server is not None:
            self._server.close()
            # Without a supervisor the directory may already be gone, and is not read.
            with contextlib.suppress(OSError):
                self._own()

    async def together(self) -> Together:
        """The metrics of all workers. For one that does not answer, its last known counters."""
        others = [name for name in departed.living(self._run_dir) if name != self._name]
        answers = dict(zip(others, await asyncio.gather(*map(self._ask, others)), strict=True))
        silent = {name: departed.noted(self._run_dir, name) for name, answer in answers.items() if answer is None}
        # Read last: a worker that has ended in the meantime is in here, and is not counted twice.
        gone = departed.read(self._run_dir)
        metrics.WORKERS_SILENT.inc(len(silent.keys() - set(gone.names)))
        living = [self._own()]
        living += [answer for name, answer in answers.items() if answer is not None and name not in gone.names]
        past = [families for name, families in silent.items() if name not in gone.names]
        families = figures.merged([*(one.families for one in living), *past, gone.families])
        return Together(sorted(living, key=lambda one: (one.worker, one.pid)), families)

    def _own(self) -> WorkerFigures:
        families = figures.snapshot(metrics.REGISTRY)
        # Stored before it is reported, so that no sum decreases when this process is killed.
        departed.note(self._run_dir, self._name, families)
        return WorkerFigures(worker=self._worker, pid=os.getpid(), instance_id=self._instance_id, families=families)

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(msgspec.json.encode(self._own()) + b"\n")
            await writer.drain()
        writer.close()

    async def _ask(self, name: str) -> WorkerFigures | None:
        path = str(self._run_dir / f"{name}.sock")
        try:
            async with asyncio.timeout(ASK_LIMIT_S):
                reader, writer = await asyncio.open_unix_connection(path, limit=MAX_ANSWER_BYTES)
                try:
                    return _FIGURES.decode(await reader.readline())
                finally:
                    writer.close()
        except (OSError, ValueError, TimeoutError):
            return None


def status_of(status: Status, together: Together) -> Status:
    """The same of all workers, and of each."""
    workers = [
        WorkerAbout(worker=one.worker, pid=one.pid, instance_id=one.instance_id, **_totals(one.families))
        for one in together.workers
    ]
    return msgspec.structs.replace(status, workers=workers, **_totals(together.families))


def _totals(families: list[MetricFamily]) -> dict[str, Any]:
    return {
        "sessions": total(families, "lingua_sessions_open"),
        "nodes_connected": total(families, "lingua_nodes_connected"),
        "jobs_waiting": total(families, "lingua_jobs_waiting"),
        "jobs_ended": {
            state.value: total(families, "lingua_jobs_ended_total", {"state": state.value}) for state in ENDED
        },
    }
