"""The following process: dashboards that read the stream of what changes; it tells how that goes when told to."""

import asyncio
import sys
import time

import msgspec

from lingua_scheduler.bench.frames import SocketClosed
from lingua_scheduler.bench.obeying import obey
from lingua_scheduler.bench.orders import Following, Heard, Recount

_REQUEST = b"GET /v1/watch HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
_STATUS = b"HTTP/1.1 "
_OK = _STATUS + b"200 "
_PICTURE = b"event: picture"
_CHANGE = b"event: change"


class Dashboard(asyncio.Protocol):
    """One stream. It reads no more of a message than its name."""

    def __init__(self, hall: "Hall") -> None:
        self._hall = hall
        self._rest = b""
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(_REQUEST)  # type: ignore[attr-defined] # uvloop's transports are no asyncio ones by name

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line == _CHANGE:
                self._hall.changes += 1
            elif line == _PICTURE:
                self._begin()
            elif line.startswith(_STATUS) and not line.startswith(_OK):
                self._fail(f"a dashboard was refused: {line.decode(errors='replace').strip()}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"a dashboard was disconnected: {exc or 'the connection was closed'}")

    def _begin(self) -> None:
        if self.begun.done():
            # It was so slow that it has to begin again.
            self._hall.failures += 1
        else:
            self.begun.set_result(None)

    def _fail(self, reason: str) -> None:
        if self.begun.done():
            self._hall.failures += 1
        else:
            self.begun.set_exception(SocketClosed(reason))


class Hall:
    def __init__(self, following: Following) -> None:
        self._following = following
        self._told_s = time.perf_counter()
        self.changes = self.failures = 0

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(self._following.dashboards):
            _, dashboard = await loop.create_connection(lambda: Dashboard(self), "127.0.0.1", self._following.port)
            await dashboard.begun
        self._told_s, self.changes = time.perf_counter(), 0

    async def carry_out(self, _: Recount) -> Heard:
        now_s = time.perf_counter()
        heard = Heard(answers=self.changes, failures=self.failures, took_s=now_s - self._told_s)
        self._told_s, self.changes, self.failures = now_s, 0, 0
        return heard


def main() -> None:
    obey(Hall(msgspec.json.decode(sys.argv[1], type=Following)), Recount)


if __name__ == "__main__":
    main()
