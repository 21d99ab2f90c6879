"""Attack H99 as a process of its own: connections that say nothing, half a head, or a byte at a time.

It reads how many of each from its input, a line for each attack, and says when the last of them was cut off."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, sleep

from lingua_sdk.processes import die_with_parent, stop

HALF_A_HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
# As slowly as somebody who wants to hold them open for long: a burst would be another attack.
OPENED_PER_S = 1_000
DRIBBLE_S = 0.5
CUT_OFF_WITHIN_S = 90


class Attacker:
    """In the test's own process: tells the other what to do."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def attack(self, silent: int, half: int, dribbling: int) -> None:
        """Returns when all of them were cut off."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{silent} {half} {dribbling}\n".encode())
        async with asyncio.timeout(CUT_OFF_WITHIN_S):
            assert await self._process.stdout.readline() == b"gone\n"


@asynccontextmanager
async def attacker(port: int) -> AsyncIterator[Attacker]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.half_open", str(port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    try:
        yield Attacker(process)
    finally:
        await stop(process, 5.0)


def attack(port: int, silent: int, half: int, dribbling: int) -> None:
    links: dict[int, socket.socket] = {}
    slow: set[int] = set()
    dribbled_s = began_s = monotonic()
    opened = 0
    with DefaultSelector() as watched:
        while links or opened < silent + half + dribbling:
            due = min(silent + half + dribbling, int((monotonic() - began_s) * OPENED_PER_S))
            for number in range(opened, due):
                link = socket.create_connection(("127.0.0.1", port))
                links[link.fileno()] = link
                watched.register(link, EVENT_READ)
                if number >= silent:
                    link.send(HALF_A_HEAD)
                if number >= silent + half:
                    slow.add(link.fileno())
            opened = due
            if monotonic() - dribbled_s > DRIBBLE_S:
                dribbled_s = monotonic()
                for number in slow:
                    with suppress(ConnectionError):
                        links[number].send(b"x")
            # Nobody says anything to them, so whatever can be read is the end.
            for key, _ in watched.select(0):
                watched.unregister(key.fileobj)
                links.pop(key.fd).close()
                slow.discard(key.fd)
            sleep(0.005)


if __name__ == "__main__":
    # Its work is that of another machine: what it takes of this one's CPU is not what the attack does to a scheduler.
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    for line in sys.stdin:
        attack(int(sys.argv[1]), *map(int, line.split()))
        print("gone", flush=True)
