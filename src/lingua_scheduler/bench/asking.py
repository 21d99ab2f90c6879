"""The asking process: GETs one page at a steady pace, and tells how that goes whenever it is told to."""

import asyncio
import sys
import time

import msgspec

from lingua_scheduler.bench.measure import percentile
from lingua_scheduler.bench.obeying import obey
from lingua_scheduler.bench.orders import Asking, Heard, Recount

CONNECTIONS = 16
PACE_S = 0.002
_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Asker(asyncio.Protocol):
    """One connection that is kept open; a question waits for the answer to the one before."""

    def __init__(self, request: bytes, crowd: "Crowd") -> None:
        self._request = request
        self._crowd = crowd
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""
        self._asked_ns = 0

    @property
    def is_free(self) -> bool:
        return self._transport is not None and not self._asked_ns

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # uvloop's transports are no asyncio ones by name

    def ask(self) -> None:
        assert self._transport is not None
        self._asked_ns = time.perf_counter_ns()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(_END)
        if not found:
            return
        length = int(head.lower().split(_LENGTH, 1)[1].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        self._crowd.took_ns.append(time.perf_counter_ns() - self._asked_ns)
        self._crowd.failures += not head.startswith(b"HTTP/1.1 200")
        self._buffer, self._asked_ns = body[length:], 0

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self._crowd.failures += 1


class Crowd:
    """All who ask. Whoever waits for an answer does not ask: then there are fewer questions than there should be."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._askers: list[Asker] = []
        self._asked = 0
        self._began_s = self._told_s = time.perf_counter()
        self.took_ns: list[int] = []
        self.failures = 0

    async def connect(self) -> None:
        request = f"GET {self._asking.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        self._askers = [Asker(request, self) for _ in range(CONNECTIONS)]
        loop = asyncio.get_running_loop()
        for asker in self._askers:
            await loop.create_connection(lambda asker=asker: asker, "127.0.0.1", self._asking.port)  # type: ignore[misc]
        self._began_s = self._told_s = time.perf_counter()
        self._pace()

    async def carry_out(self, _: Recount) -> Heard:
        now_s = time.perf_counter()
        took_ms = sorted(took_ns / 1e6 for took_ns in self.took_ns)
        heard = Heard(
            answers=len(took_ms),
            failures=self.failures,
            took_s=now_s - self._told_s,
            p99_ms=percentile(took_ms, 0.99) if took_ms else None,
        )
        self._told_s, self.took_ns, self.failures = now_s, [], 0
        return heard

    def _pace(self) -> None:
        due = int((time.perf_counter() - self._began_s) * self._asking.rate)
        for asker in self._askers:
            if self._asked < due and asker.is_free:
                asker.ask()
                self._asked += 1
        asyncio.get_running_loop().call_later(PACE_S, self._pace)


def main() -> None:
    obey(Crowd(msgspec.json.decode(sys.argv[1], type=Asking)), Recount)


if __name__ == "__main__":
    main()
