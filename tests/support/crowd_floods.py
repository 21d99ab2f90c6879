"""An attack over many connections at once, as a process of its own: each of them sends as fast as it is read, or asks
again as soon as it was answered. What it sends comes as one JSON line on its input; it says when all are connected."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from time import monotonic
from typing import NamedTuple

from lingua_sdk.processes import die_with_parent, stop
from tests.support.bare import handshake

BLOCK_BYTES = 16_384


class Crowd(NamedTuple):
    """`repeated` goes out again and again after `opening`; with `per_s`, so many of them a second on each connection.

    Who is `patient` sends the next after an answer to the last.
    """

    connections: int
    path: str
    opening: str
    repeated: str
    per_s: float = 0.0
    is_patient: bool = False


class _Link:
    def __init__(self, port: int, crowd: Crowd) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        if crowd.path.startswith("/ws/"):
            self.socket.sendall(handshake(crowd.path))
            head = b""
            while b"\r\n\r\n" not in head:
                head += self.socket.recv(4096)
            assert head.startswith(b"HTTP/1.1 101")
        self.socket.setblocking(False)
        self.unsent = crowd.opening.encode("latin-1")
        self.sent = 0


@asynccontextmanager
async def crowd_flood(port: int, crowd: Crowd) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.crowd_floods", str(port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(crowd).encode() + b"\n")
        async with asyncio.timeout(90):
            assert await process.stdout.readline() == b"connected\n"
        yield
    finally:
        await stop(process, 5.0)


def flood(port: int, crowd: Crowd) -> None:
    repeated = crowd.repeated.encode("latin-1")
    is_slow = crowd.is_patient or crowd.per_s
    block = repeated if is_slow else repeated * max(1, BLOCK_BYTES // len(repeated))
    links = [_Link(port, crowd) for _ in range(crowd.connections)]
    print("connected", flush=True)
    began_s = monotonic()
    with DefaultSelector() as watched:
        for link in links:
            if crowd.is_patient:
                link.unsent += block
            watched.register(link.socket, EVENT_READ | EVENT_WRITE, link)
        while watched.get_map():
            due = int((monotonic() - began_s) * crowd.per_s) if crowd.per_s else 0
            for link in links:
                if crowd.per_s and link.sent < due and len(link.unsent) < BLOCK_BYTES:
                    link.unsent += block * (due - link.sent)
                    link.sent = due
                    watched.modify(link.socket, EVENT_READ | EVENT_WRITE, link)
            for key, events in watched.select(0.002 if crowd.per_s else None):
                link = key.data
                try:
                    if events & EVENT_READ:
                        if not link.socket.recv(65_536):
                            raise ConnectionError
                        if crowd.is_patient and not link.unsent:
                            link.unsent = block
                    if link.unsent or not is_slow:
                        link.unsent = link.unsent or block
                        link.unsent = link.unsent[link.socket.send(link.unsent) :]
                except BlockingIOError:
                    continue
                except ConnectionError:
                    watched.unregister(link.socket)
                    links.remove(link)
                    continue
                wanted = EVENT_READ | (EVENT_WRITE if link.unsent or not is_slow else 0)
                if wanted != key.events:
                    watched.modify(link.socket, wanted, link)


if __name__ == "__main__":
    flood(int(sys.argv[1]), Crowd(*json.loads(sys.stdin.readline())))
