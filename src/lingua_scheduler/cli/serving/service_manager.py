"""Tells the service manager how the service is: systemd's notify protocol, one datagram a message.

Does nothing without `NOTIFY_SOCKET`. A watchdog is told from the event loop, so a loop that hangs is noticed."""

import asyncio
import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress


class ServiceManager:
    def __init__(self, environment: MutableMapping[str, str]) -> None:
        # Taken out: child processes must not speak for the service.
        self._address = environment.pop("NOTIFY_SOCKET", "")
        watchdog_us = environment.pop("WATCHDOG_USEC", "")
        is_ours = environment.pop("WATCHDOG_PID", "") in ("", str(os.getpid()))
        self._alive_every_s = int(watchdog_us) / 2_000_000 if watchdog_us.isdecimal() and is_ours else 0.0
        self._next: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        """It serves, for the first time or after a reload."""
        self._tell("READY=1", f"STATUS={status}")
        if self._alive_every_s and self._next is None:
            self._show_life()

    def reloading(self) -> None:
        # The time tells the service manager which reload this answers.
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", "STATUS=replacing workers")

    def stopping(self) -> None:
        self._tell("STOPPING=1", "STATUS=running jobs finish")

    def close(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def _show_life(self) -> None:
        self._tell("WATCHDOG=1")
        self._next = asyncio.get_running_loop().call_later(self._alive_every_s, self._show_life)

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        # A service manager that does not listen must not stop the service, nor delay it.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
            line.setblocking(False)
            line.sendto("\n".join(lines).encode(), address)
