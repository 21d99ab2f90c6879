"""`lingua serve --workers N`: the supervisor's side, and the reports of its workers."""

import asyncio
import fcntl
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from lingua_scheduler.cli.options import fail
from lingua_scheduler.cli.serving.running import (
    fail_for_port,
    on_hangup,
    redis_url,
    stop_signals,
    unless_stopped,
    warn_if_open,
)
from lingua_scheduler.cli.serving.service_manager import ServiceManager
from lingua_scheduler.settings import Settings
from lingua_scheduler.supervisor.listeners import Listeners, open_listeners
from lingua_scheduler.supervisor.supervisor import StartFailed, Supervisor
from lingua_scheduler.supervisor.worker import Launch, Word
from lingua_scheduler.telemetry import logs

START_LIMIT_S = 60.0
# In addition to the time for running jobs: closing sockets, and a slow Redis.
STOP_SLACK_S = 10.0


def count_of(_context: object, _option: object, text: str | None) -> str | None:
    """For click: `auto` is 0, which stands for the number of cores; the settings check the rest."""
    return "0" if text == "auto" else text


def worker_count(settings: Settings) -> int:
    return settings.server.workers or _cores()


def _cores() -> int:
    # A container may be given fewer than the machine has.
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


async def supervise(settings: Settings, arguments: Sequence[str], manager: ServiceManager) -> None:
    log = logs.get()
    supervisor: Supervisor | None = None

    def end_at_once() -> None:
        if supervisor is not None:
            supervisor.kill()
        os._exit(1)

    asked_to_stop = stop_signals(end_at_once)
    asked_to_restart = asyncio.Event()
    on_hangup(asked_to_stop, asked_to_restart.set)
    warn_if_open(settings)
    listeners, internal = _listeners(settings)
    async with AsyncExitStack() as stack:
        run_dir = _run_dir(stack)
        url = await redis_url(settings, stack)
        launch = Launch(
            arguments=(*arguments, *(() if settings.redis.url else ("--set", f"redis.url={url}"))),
            run_dir=run_dir,
            start_limit_s=None if settings.redis.wait else START_LIMIT_S,
            stop_grace_s=settings.server.stop_timeout_ms / 1000 + STOP_SLACK_S,
            internal_sockets=len(internal[0]),
        )
        supervisor = Supervisor(launch, [public + own for public, own in zip(listeners, internal, strict=True)])
        stack.push_async_callback(supervisor.stop)
        try:
            redis = await unless_stopped(supervisor.start(), asked_to_stop)
        except StartFailed as failed:
            fail(failed.word.failure, failed.word.exit_code)
        if redis is None:
            return
        port = listeners[0][0].getsockname()[1]
        address = f"{'https' if settings.server.tls_cert_file else 'http'}://{settings.server.host}:{port}"
        log.info("scheduler.ready", address=address, redis=redis, workers=len(listeners))
        stack.callback(manager.close)
        manager.ready(f"serving with {len(listeners)} workers")
        supervisor.replace_when(asked_to_restart, manager.reloading, manager.ready)
        await asked_to_stop.wait()
        manager.stopping()
        log.info("supervisor.stopping", workers=len(listeners))


def _listeners(settings: Settings) -> tuple[list[Listeners], list[Listeners]]:
    """The sockets of each worker: of the port, and of the internal one."""
    server, workers = settings.server, worker_count(settings)
    try:
        public = open_listeners(server.host, server.port, workers)
    except OSError as error:
        fail_for_port(error, server)
    if not server.internal_port:
        return public, [()] * workers
    try:
        return public, open_listeners(server.internal_host, server.internal_port, workers)
    except OSError as error:
        fail_for_port(error, server, is_internal=True)


def _run_dir(stack: AsyncExitStack) -> Path:
    """A private folder for what workers tell each other."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lingua-run-"))
    # systemd removes temporary directories that were unused for days, unless they are locked.
    lock = os.open(folder, os.O_RDONLY)
    stack.callback(os.close, lock)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return Path(folder)


def tell_supervisor(word: Word) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(word) + b"\n")
    sys.stdout.flush()
