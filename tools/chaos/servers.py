"""The Redis under test: one server with an append-only file, or a Cluster of three masters, each with one."""

import asyncio
import contextlib
import shutil
import signal
from pathlib import Path
from typing import Any

import hiredis

from lingua_scheduler.store.servers.local_cluster import LocalCluster, LocalServer, on_free_port
from tools.chaos.clock import Clock

# Away, refusing, or half started: what a command may meet while faults happen.
Unanswered = (OSError, hiredis.ReplyError, hiredis.ProtocolError)

_KEPT = ("--save", "", "--appendonly", "yes", "--appendfsync", "everysec")


class _ClockedCluster(LocalCluster):
    def __init__(self, binary: str, folder: Path, clock: Clock) -> None:
        self._clock = clock
        super().__init__(binary, folder, masters=3, node_timeout_ms=5_000, options=_KEPT)

    def new_server(self, binary: str, folder: Path, *options: str) -> LocalServer:
        return _server(binary, folder, self._clock, *options)


class Servers:
    """`number` names a server; a standalone Redis is number 0."""

    def __init__(self, binary: str, folder: Path, *, is_cluster: bool) -> None:
        self.clock = Clock(folder)
        self._binary = binary
        if is_cluster:
            self._cluster: LocalCluster | None = _ClockedCluster(binary, folder / "cluster", self.clock)
            self._servers = self._cluster.servers
            self.url = self._cluster.url
        else:
            self._cluster = None
            server = on_free_port(lambda: _server(binary, folder / "redis", self.clock, *_KEPT))
            self._servers = [server]
            self.url = f"redis://{server.address}/0"

    def __len__(self) -> int:
        return len(self._servers)

    @property
    def pids(self) -> list[int]:
        return [server.pid for server in self._servers]

    async def command(self, number: int, *words: str | int) -> Any:
        return await asyncio.to_thread(self._servers[number].command, *words)

    async def everywhere(self, *words: str | int) -> list[Any]:
        return [await self.command(number, *words) for number in range(len(self))]

    async def keys(self, number: int, pattern: str) -> list[str]:
        found: list[str] = []
        cursor = "0"
        while True:
            cursor, names = await self.command(number, "SCAN", cursor, "MATCH", pattern, "COUNT", 1_000)
            found += names
            if cursor == "0":
                return found

    async def drop(self, pattern: str) -> int:
        """Delete every key of a family."""
        dropped = 0
        for number in range(len(self)):
            names = await self.keys(number, pattern)
            if self._cluster is None and names:
                dropped += await self.command(number, "UNLINK", *names)
                continue
            for name in names:  # of several slots
                dropped += await self.command(number, "UNLINK", name)
        return dropped

    def kill(self, number: int) -> None:
        self._servers[number].signal(signal.SIGCONT)
        self._servers[number].kill()

    def launch(self, number: int, *, is_empty: bool = False) -> None:
        server = self._servers[number]
        if is_empty:
            shutil.rmtree(server.folder / "appendonlydir", ignore_errors=True)
            (server.folder / "appendonly.aof").unlink(missing_ok=True)
        server.launch()

    def signal(self, number: int, signal_number: int) -> None:
        self._servers[number].signal(signal_number)

    def stop(self) -> None:
        for server in self._servers:
            with contextlib.suppress(ProcessLookupError):
                server.signal(signal.SIGCONT)
            server.kill()


def _server(binary: str, folder: Path, clock: Clock, *options: str) -> LocalServer:
    words = [*clock.wrapper, binary, *options]
    return LocalServer(words[0], folder, *words[1:])
