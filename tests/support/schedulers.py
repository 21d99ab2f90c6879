"""A whole scheduler in the test's own loop, or as a process of its own."""

import asyncio
import gc
import os
import sys
from asyncio.subprocess import STDOUT
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import msgspec

from lingua_scheduler.app import Scheduler
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry.traces import Traces
from lingua_sdk.processes import die_with_parent, stop
from tests.support.forked import fork_command
from tests.support.leaks import LEAKS
from tests.support.surprises import SURPRISES

# Schedulers of this process, which holds all tests: a full collection of it takes as long as several of them.
_alive: set[Scheduler] = set()


def settings_with(**changes: Any) -> Settings:
    """Defaults on a free port, with `section__key=value` changed."""
    sections: dict[str, dict[str, Any]] = {
        "server": {"port": 0, "stop_timeout_ms": 2_000},
        # Schedulers of other tests must not find the keys of this one.
        "auth": {"backup_file": ""},
    }
    for name, value in changes.items():
        section, key = name.split("__")
        sections.setdefault(section, {})[key] = value
    return msgspec.convert(sections, Settings)


@asynccontextmanager
async def scheduler_on(
    url: str, traces: Traces | None = None, keyring: Keyring | None = None, /, **changes: Any
) -> AsyncIterator[tuple[Scheduler, Store]]:
    async with scheduler_by(monotonic, url, traces, keyring, **changes) as both:
        yield both


@asynccontextmanager
async def scheduler_by(
    clock: Callable[[], float],
    url: str,
    traces: Traces | None = None,
    keyring: Keyring | None = None,
    /,
    **changes: Any,
) -> AsyncIterator[tuple[Scheduler, Store]]:
    """On an event loop that has a clock of its own."""
    if not _alive:
        _tidy()
    settings = settings_with(**changes)
    store = Store(url, key_prefix=settings.redis.key_prefix, timeout_ms=settings.redis.timeout_ms, local_clock=clock)
    await store.open(wait=True)
    scheduler = Scheduler(settings, store, clock, traces=traces, keyring=keyring)
    _alive.add(scheduler)
    try:
        await scheduler.start()
        yield scheduler, store
    finally:
        await scheduler.stop()
        await store.close()
        _alive.discard(scheduler)


def _tidy() -> None:
    """Collect what earlier tests left, of which a task that died is told only then, and look at the rest no more."""
    gc.collect()
    gc.freeze()


class ServeProcess:
    """`lingua serve` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """Its whole lines: the last one may be half written just now."""
        text = self._log.read_text("utf-8", "replace")
        return text[: text.rfind("\n") + 1]

    @property
    def port(self) -> int:
        """0 until it is ready."""
        for line in self.log.splitlines():
            if '"scheduler.ready"' in line:
                event = msgspec.json.decode(line)
                return int(event["address"].rsplit(":", 1)[1])
        return 0


async def _note_metrics(serving: ServeProcess) -> None:
    """Of a process that runs, and shows them without a key."""
    if serving.process.returncode is None and serving.port:
        within = aiohttp.ClientTimeout(total=1.0)
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with aiohttp.ClientSession(timeout=within) as http:
                await http.get(f"http://127.0.0.1:{serving.port}/metrics")


@asynccontextmanager
async def serve_process(folder: Path, *arguments: str, **variables: str) -> AsyncIterator[ServeProcess]:
    """`variables` are of its environment."""
    log = folder / "serve.log"
    with log.open("wb") as output:
        process = await fork_command(
            *_words(arguments), stdout=output.fileno(), stderr=STDOUT, environment=_environment(folder, variables)
        )
    async with _running(process, log) as serving:
        yield serving


@asynccontextmanager
async def serve_command(folder: Path, *arguments: str, **variables: str) -> AsyncIterator[ServeProcess]:
    """Started as a person would, a second of CPU time: for tests of how it starts and ends, or what it costs."""
    log = folder / "serve.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lingua_scheduler", *_words(arguments)),
            stdout=output,
            stderr=STDOUT,
            env=_environment(folder, variables),
            preexec_fn=die_with_parent,
        )
    async with _running(process, log) as serving:
        yield serving


def _words(arguments: tuple[str, ...]) -> tuple[str, ...]:
    return ("serve", "--port", "0", "--set", "logs.format=json", *arguments)


def _environment(folder: Path, variables: dict[str, str]) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LINGUA_", "OTEL_"))}
    # Not those of the person who runs the tests.
    environment["LINGUA_PRIVACY_CLUSTER_KEY_FILE"] = str(folder / "cluster.key")
    environment["LINGUA_AUTH_BACKUP_FILE"] = str(folder / "credentials.json")
    return environment | variables


@asynccontextmanager
async def _running(process: asyncio.subprocess.Process, log: Path) -> AsyncIterator[ServeProcess]:
    serving = ServeProcess(process, log)
    try:
        yield serving
    finally:
        if LEAKS.is_watching:
            await _note_metrics(serving)
        await stop(process, 15.0)
        SURPRISES.look_at_log(serving.log)
        LEAKS.wrote("log of a process", serving.log)
