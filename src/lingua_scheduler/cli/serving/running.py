"""Shared by a single scheduler and a supervisor: signals, the embedded Redis, errors about the port."""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, NoReturn, TypeVar

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.configuration.data_dirs import resolved_data_dir
from lingua_scheduler.domain.guards.origins import is_loopback
from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.servers.embedded import EmbeddedError, EmbeddedServer
from lingua_scheduler.telemetry import logs

T = TypeVar("T")

_log = logs.get()


def _end() -> None:
    os._exit(1)


def stop_signals(at_once: Callable[[], None] = _end) -> asyncio.Event:
    """Set on the first SIGTERM or SIGINT; the second ends the process at once."""
    asked = asyncio.Event()

    def on_signal() -> None:
        if asked.is_set():
            at_once()
        asked.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return asked


def on_hangup(asked_to_stop: asyncio.Event, act: Callable[[], None]) -> None:
    """Handle SIGHUP. A closing terminal sends it too, and then the scheduler must not keep running unnoticed."""
    had_terminal = sys.stderr.isatty()

    def on_signal() -> None:
        if had_terminal and not sys.stderr.isatty():
            asked_to_stop.set()
        else:
            act()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_signal)


async def unless_stopped(work: Coroutine[Any, Any, T], asked_to_stop: asyncio.Event) -> T | None:
    """The result of the work; None if a stop was requested before it was done."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(asked_to_stop.wait())
    await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not working.done():
        working.cancel()
        return None
    return await working


async def redis_url(settings: Settings, stack: AsyncExitStack) -> str:
    """The Redis to use; an embedded one lives as long as the stack."""
    if settings.redis.url:
        return settings.redis.url
    redis = settings.redis
    server = EmbeddedServer(resolved_data_dir(redis), redis.server_binary, _note, redis.max_memory_mb)
    try:
        await stack.enter_async_context(server)
    except EmbeddedError as error:
        fail(str(error), Exit.REDIS)
    return server.url


def _note(event: str, about: dict[str, object]) -> None:
    tell = _log.warning if "died" in event or "failed" in event else _log.info
    tell(event, **about)


def warn_if_open(settings: Settings) -> None:
    if settings.auth.mode == "off":
        note = "auth.mode is off: every program that can reach this port can use it"
        server = settings.server
        hosts = (server.host, *((server.internal_host,) if server.internal_port else ()))
        reachable = [host for host in hosts if not is_loopback(host)]
        if reachable:
            _log.warning("server.unprotected", host=reachable[0], note=note)
        else:
            _log.info("auth.off", host=server.host, note=note)


def fail_for_port(error: OSError, server: ServerSettings, *, is_internal: bool = False) -> NoReturn:
    """Explain why the port cannot be used; other errors are raised."""
    host, port = (server.internal_host, server.internal_port) if is_internal else (server.host, server.port)
    other_host = "--set server.internal_host=…" if is_internal else "--host"
    other_port = "--set server.internal_port=…" if is_internal else "--port (0 = any free port)"
    if error.errno == errno.EADDRNOTAVAIL:
        fail(f"{host} is not an address of this machine; choose another with {other_host}", Exit.PORT)
    if error.errno not in (errno.EADDRINUSE, errno.EACCES):
        raise error
    what = "is in use by another program" if error.errno == errno.EADDRINUSE else "may not be used"
    fail(f"{host}:{port} {what}; choose another with {other_port}", Exit.PORT)
