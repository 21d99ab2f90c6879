"""Attackers in a process of their own: pings, node frames, half-open connections and session_init without end.

python -m tools.chaos.floods KIND PORT SECONDS PER_SECOND
"""

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp

from tests.support.peers import heartbeat, registration

# Attackers come from an address of their own, so that limits by address hit them and nobody else (Linux).
ADDRESS = "127.0.0.66"
SOCKETS = 4
# What their nodes are called: nobody judges what is done to those.
ATTACKER = "flood-"
TICK_S = 0.05
_NUMBERS = itertools.count()


class Paced:
    """Lets through so many a second until the time is up."""

    def __init__(self, seconds: float, per_second: float) -> None:
        self._ends_s = time.monotonic() + seconds
        self._a_tick = max(1, int(per_second * TICK_S))
        self.acts = 0

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_s

    async def each(self, act: Callable[[], Awaitable[object]]) -> None:
        while not self.is_over:
            for _ in range(self._a_tick):
                await act()
                self.acts += 1
            await asyncio.sleep(TICK_S)


async def ping(http: aiohttp.ClientSession, url: str, paced: Paced) -> None:
    async with http.ws_connect(f"{url}/ws/session") as socket:
        await paced.each(lambda: socket.ping(b"x" * 100))


async def node(http: aiohttp.ClientSession, url: str, paced: Paced) -> None:
    """Registers, and then changes its languages and claims jobs that nobody gave it."""
    async with http.ws_connect(f"{url}/ws/node") as socket:
        # A pair that no honest session asks for.
        await socket.send_str(
            json.dumps(registration(("xx", "yy"), node_id=f"{ATTACKER}{next(_NUMBERS)}", max_concurrent_jobs=4))
        )
        ack = json.loads((await socket.receive()).data)
        node_id = ack.get("node_id", "node-00000000")
        turn = 0

        async def beat() -> None:
            nonlocal turn
            turn += 1
            codes = ["xx", "yy", "zz"][: 2 + turn % 2]
            languages = {"asr_languages": codes, "tts_languages": codes, "semantic_languages": codes}
            jobs = [f"job-0-{turn:08x}{number:08x}" for number in range(50)]
            frame = heartbeat(node_id, language_capabilities=languages, running_job_ids=jobs)
            await socket.send_str(json.dumps(frame))

        await paced.each(beat)


async def half_open(_: aiohttp.ClientSession, url: str, paced: Paced) -> None:
    """Requests whose headers never end."""
    host, port = url.removeprefix("http://").split(":")
    writers: list[asyncio.StreamWriter] = []

    async def begin() -> None:
        _, writer = await asyncio.open_connection(host, int(port), local_addr=(ADDRESS, 0))
        writer.write(b"GET /ws/session HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        writers.append(writer)

    try:
        await paced.each(begin)
    finally:
        for writer in writers:
            writer.transport.abort()


async def session_init(http: aiohttp.ClientSession, url: str, paced: Paced) -> None:
    """Sessions that are opened and left behind."""
    init = {"type": "session_init", "client_version": "x", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}

    async def begin() -> None:
        async with http.ws_connect(f"{url}/ws/session") as socket:
            for _ in range(3):
                await socket.send_str(json.dumps(init | {"features": {"x": "y" * 500}}))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(socket.receive(), 1.0)
            socket._response.close()

    await paced.each(begin)


FLOODS = {"flood.ping": ping, "flood.node": node, "flood.half_open": half_open, "flood.session_init": session_init}


async def main(kind: str, port: str, seconds: str, per_second: str) -> None:
    sockets = SOCKETS if kind in ("flood.ping", "flood.node") else 1
    paced = Paced(float(seconds), float(per_second) / sockets)
    connector = aiohttp.TCPConnector(limit=0, local_addr=(ADDRESS, 0))
    async with aiohttp.ClientSession(connector=connector) as http:
        refusals = 0

        async def attack() -> None:
            nonlocal refusals
            while not paced.is_over:
                # Turned away is what an attacker deserves; it comes back.
                try:
                    await FLOODS[kind](http, f"http://127.0.0.1:{port}", paced)
                except (aiohttp.ClientError, OSError, TypeError, ValueError):
                    refusals += 1
                await asyncio.sleep(TICK_S)

        await asyncio.gather(*(attack() for _ in range(sockets)))
        print(f"{paced.acts} times done, {refusals} times turned away", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
