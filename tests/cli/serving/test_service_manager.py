"""What a service manager is told, over a real socket, by the class and by `lingua serve` itself."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lingua_scheduler.cli.serving.service_manager import ServiceManager
from tests.support.schedulers import serve_command
from tests.support.servers import RedisProcess
from tests.support.waiting import until


class Listener:
    """The service manager's end."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._heard: list[str] = []

    @property
    def heard(self) -> list[str]:
        """The first line of each message so far."""
        while True:
            try:
                self._heard.append(self._socket.recv(4096).decode().partition("\n")[0])
            except BlockingIOError:
                return self._heard

    @property
    def changes(self) -> list[str]:
        return [word for word in self.heard if word != "WATCHDOG=1"]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listener]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@lingua-test-{os.getpid()}"
    found = Listener(address)
    yield found
    found.close()


async def test_the_service_manager_is_told_and_the_watchdog_hears_the_event_loop(listener: Listener) -> None:
    environment = {"NOTIFY_SOCKET": listener.address, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": str(os.getpid())}
    manager = ServiceManager(environment)
    assert environment == {}, "children must not speak for the service"
    manager.ready("serving")
    await until(lambda: listener.heard.count("WATCHDOG=1") >= 3)
    manager.reloading()
    manager.ready("serving")
    manager.stopping()
    manager.close()
    assert listener.changes == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": "/nowhere/at/all"},
        {"NOTIFY_SOCKET": "@nobody-listens", "WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"},
    ],
)
async def test_without_a_service_manager_nothing_happens(environment: dict[str, str]) -> None:
    manager = ServiceManager(environment)
    manager.ready("serving")
    manager.stopping()
    manager.close()


async def test_a_scheduler_says_that_it_is_ready_alive_and_stopping(
    server: RedisProcess, listener: Listener, tmp_path: Path
) -> None:
    told = {"NOTIFY_SOCKET": listener.address, "WATCHDOG_USEC": "200000"}
    async with serve_command(tmp_path, "--redis-url", server.url, **told) as scheduler:
        await until(lambda: listener.heard.count("WATCHDOG=1") >= 2, within_s=60)
        assert scheduler.port
        scheduler.process.terminate()
        async with asyncio.timeout(90):
            assert await scheduler.process.wait() == 0
        assert listener.changes == ["READY=1", "STOPPING=1"]


async def test_a_supervisor_says_when_its_workers_are_replaced(server: RedisProcess, tmp_path: Path) -> None:
    listener = Listener(str(tmp_path / "notify"))
    told = {"NOTIFY_SOCKET": listener.address}
    async with serve_command(tmp_path, "--redis-url", server.url, "--workers", "2", **told) as scheduler:
        await until(lambda: listener.changes == ["READY=1"], within_s=60)
        scheduler.process.send_signal(signal.SIGHUP)
        await until(lambda: listener.changes == ["READY=1", "RELOADING=1", "READY=1"], within_s=60)
        scheduler.process.terminate()
        async with asyncio.timeout(90):
            assert await scheduler.process.wait() == 0
        assert listener.changes[-1] == "STOPPING=1"
    listener.close()
