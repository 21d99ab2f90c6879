"""The asking process: GETs one page at a steady pace until its input ends, then tells how it went."""

import asyncio
import sys
import time

import msgspec
import uvloop

from lingua_scheduler.bench.measure import percentile
from lingua_scheduler.bench.orders import Asked, Asking

CONNECTIONS = 16
PACE_S = 0.002
_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Asker(asyncio.Protocol):
    """One connection that is kept open; a question waits for the answer to the one before."""

    def __init__(self, request: bytes, took_ns: list[int]) -> None:
        self._request = request
        self._took_ns = took_ns
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""
        self._asked_ns = 0
        self.failures = 0

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
        self.failures += not head.startswith(b"HTTP/1.1 200")
        self._took_ns.append(time.perf_counter_ns() - self._asked_ns)
        self._buffer, self._asked_ns = body[length:], 0

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self.failures += 1


async def ask(asking: Asking) -> Asked:
    loop = asyncio.get_running_loop()
    request = f"GET {asking.path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()
    took_ns: list[int] = []
    askers = [Asker(request, took_ns) for _ in range(CONNECTIONS)]
    for asker in askers:
        await loop.create_connection(lambda asker=asker: asker, "127.0.0.1", asking.port)  # type: ignore[misc]
    over = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(over), sys.stdin)
    ended = asyncio.ensure_future(over.read())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    began_s, due = time.perf_counter(), 0
    while not ended.done():
        wanted = int((time.perf_counter() - began_s) * asking.rate)
        for asker in askers:
            if due < wanted and asker.is_free:
                asker.ask()
                due += 1
        await asyncio.sleep(PACE_S)
    took_s = time.perf_counter() - began_s
    took_ms = sorted(ns / 1e6 for ns in took_ns)
    failures = sum(asker.failures for asker in askers)
    return Asked(answers=len(took_ms), failures=failures, took_s=took_s, p99_ms=percentile(took_ms or [0.0], 0.99))


def main() -> None:
    asking = msgspec.json.decode(sys.argv[1], type=Asking)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        asked = runner.run(ask(asking))
    sys.stdout.buffer.write(msgspec.json.encode(asked) + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
