"""One connection asks for a page again and again, without waiting for answers: a page that is costly to make is not
made each time, and an honest conversation beside it goes on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter

import aiohttp
import pytest

from lingua_scheduler.console import cached, openapi
from lingua_scheduler.telemetry import figures
from tests.support.peers import FakeClient, Field, field
from tests.support.schedulers import ServeProcess, scheduler_on, serve_command
from tests.support.servers import RedisProcess
from tests.support.waiting import until

CHEAP = "/health"
COSTLY = ("/docs", "/docs/messages", "/openapi.json", "/asyncapi.json", "/messages.schema.json")
BLOCK = 100
# The CPU that an answer takes, in terms of the cheapest; the answers are up to 130 KB long.
MOST_TIMES = 10
# Answers to measure, and the CPU for them: it is counted in hundredths of a second.
ENOUGH = 400
ENOUGH_S = 0.3


class Flood:
    """Asks as fast as it is heard, and counts the answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        self._reader = reader
        self._writer = writer
        self._block = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * BLOCK
        self.answers = 0

    async def ask(self) -> None:
        while True:
            self._writer.write(self._block)
            await self._writer.drain()
            await asyncio.sleep(0)

    async def read(self) -> None:
        while head := await self._reader.readuntil(b"\r\n\r\n"):
            length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: "))
            await self._reader.readexactly(int(length[16:]))
            self.answers += 1


@asynccontextmanager
async def flood(port: int, path: str) -> AsyncIterator[Flood]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    flooding = Flood(reader, writer, path)
    tasks = asyncio.create_task(flooding.ask()), asyncio.create_task(flooding.read())
    try:
        yield flooding
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.transport.abort()


def cpu_s(process: ServeProcess) -> float:
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def talk(client: FakeClient, numbers: Iterator[int], for_s: float) -> list[float]:
    """What utterances took, in ms; each has its result."""
    taken: list[float] = []
    ends = perf_counter() + for_s
    while perf_counter() < ends:
        began = perf_counter()
        await client.utterance(next(numbers))
        assert (await client.outcome(within_s=30))["type"] == "translation_result"
        taken.append((perf_counter() - began) * 1000)
    return taken


async def test_a_costly_page_costs_hardly_more_than_a_cheap_one(server: RedisProcess, tmp_path: Path) -> None:
    costs_ms = {}
    # Here the flood is not held back: what counts is what a page costs.
    free = ("--set", "server.max_connection_cpu_percent=100")
    async with serve_command(tmp_path, "--redis-url", server.url, *free) as process:
        await until(lambda: process.port, within_s=30)
        async with field(process.port) as peers:
            await peers.node()
            client, numbers = await peers.client(), count()
            alone = median(await talk(client, numbers, 0.5))
            for path in (CHEAP, *COSTLY):
                async with flood(process.port, path) as flooding:
                    # What it costs once, and the conversation, are none of the cost of an answer.
                    while not flooding.answers:
                        await asyncio.sleep(0.01)
                    had_s, had = cpu_s(process), flooding.answers
                    while flooding.answers < had + ENOUGH or cpu_s(process) < had_s + ENOUGH_S:
                        await asyncio.sleep(0.01)
                    costs_ms[path] = (cpu_s(process) - had_s) * 1000 / (flooding.answers - had)
                    during = median(await talk(client, numbers, 0.5))
                print(
                    f"{path}: {flooding.answers} answers, {costs_ms[path]:.2f} ms of CPU for each; "
                    f"the conversation's median was {alone:.1f} ms alone, {during:.1f} ms beside it"
                )
    assert {path: cost for path, cost in costs_ms.items() if cost > MOST_TIMES * costs_ms[CHEAP]} == {}


async def test_documents_are_made_once_under_whatever_name_they_are_asked_for(
    peers: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = count(), openapi.document
    monkeypatch.setattr(openapi, "document", lambda *known: (next(made), make(*known))[1])
    names = [f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]") for port in range(1, 11)]
    for path in ("/docs", "/openapi.json"):
        for name in names:
            status, _ = await peers.ask("GET", path, headers={"Host": name})
            assert status == 200
    assert next(made) <= 2, "once for each"


async def test_metrics_are_not_made_for_everybody_who_asks_at_once(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = count(), figures.snapshot
    monkeypatch.setattr(figures, "snapshot", lambda registry: (next(made), make(registry))[1])
    async with (
        scheduler_on(server.url) as (scheduler, _),
        field(scheduler.port) as peers,
        aiohttp.ClientSession() as http,
    ):

        async def ask() -> None:
            async with http.get(f"http://127.0.0.1:{peers.port}/metrics") as response:
                assert "lingua_sockets_open" in await response.text()

        began_s = perf_counter()
        for _ in range(50):
            await asyncio.gather(*(ask() for _ in range(20)))
        took_s = perf_counter() - began_s
    pages = next(made)
    print(f"{pages} pages were made for 1000 requests in {took_s:.1f} s")
    assert pages <= cached.BURST + cached.PER_S * took_s + 1
