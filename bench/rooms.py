"""What a big room costs: `python -m bench.rooms`, or `python -m bench.rooms --webinar` for guests on two workers.

A room of listeners in six languages beside six sessions of one speaker each, in CPU time and bytes of Redis for one
utterance of a second. The nodes and all people are in the load process, which is not counted.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import click

from bench.audio import speech
from lingua_scheduler.store.servers.embedded import shipped_binary
from lingua_sdk.client import Client
from tests.support.peers import FakeNode, Field, Frame, result_of
from tools.chaos.servers import Servers
from tools.chaos.world import Child, instance

SOURCE = "en"
LANGUAGES = ("zh", "pt", "ja", "fr", "de", "es")
SPEECH = speech(32_000, "pcm16")
TRANSLATED = "QUFB" * 8_000  # 24 KB of speech as base64
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Cost(NamedTuple):
    scheduler_ms: float
    redis_ms: float
    redis_bytes: float

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(*(mine - others for mine, others in zip(self, other, strict=True)))

    def each(self, number: int) -> "Cost":
        return Cost(*(value / number for value in self))


class Hall:
    """A scheduler with its Redis, a node for every language, and the people."""

    def __init__(self, scheduler: Child, redis: Servers, http: aiohttp.ClientSession, port: int) -> None:
        self._scheduler = scheduler
        self._redis = redis
        self.http = http
        self.port = port
        self.heard = 0
        self._reading: set[asyncio.Task[None]] = set()

    async def cost(self) -> Cost:
        info = await self._redis.command(0, "INFO", "all")
        facts = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
        redis_s = float(facts["used_cpu_user"]) + float(facts["used_cpu_sys"])
        carried = int(facts["total_net_input_bytes"]) + int(facts["total_net_output_bytes"])
        return Cost(1000 * sum(map(_cpu_s, self.pids())), 1000 * redis_s, carried)

    def pids(self) -> list[int]:
        """The scheduler and its workers."""
        assert self._scheduler._process is not None
        first = self._scheduler._process.pid
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def memory_mb(self) -> float:
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MB for pid in self.pids())

    async def listen(self, code: str, language: str, *, as_guest: bool) -> None:
        socket = await self.http.ws_connect(f"ws://127.0.0.1:{self.port}/ws/session", max_msg_size=0)
        await socket.send_json(
            {
                "type": "session_init",
                "client_version": "b",
                "platform": "bench",
                "src_lang": language,
                "tgt_lang": SOURCE,
            }
        )
        await socket.receive()
        await socket.send_json(
            {
                "type": "room_join",
                "room_code": code,
                "preferred_lang": language,
                "room_events": True,
                "listen_only": as_guest,
            }
        )
        task = asyncio.create_task(self._read(socket))
        self._reading.add(task)

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            if isinstance(message.data, str) and message.data.startswith('{"type":"translation_result"'):
                self.heard += 1

    async def close(self) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)


async def translate(node: FakeNode, job: Frame) -> None:
    more = {"text_asr": "one", "text_translated": "two", "tts_audio": TRANSLATED, "tts_format": "pcm16"}
    await node.socket.send(result_of(job, node.node_id, **more))


@asynccontextmanager
async def hall(folder: Path, workers: int) -> AsyncIterator[Hall]:
    redis = Servers(str(shipped_binary()), folder, is_cluster=False)
    redis.launch(0)
    settings = {"rooms.max_members": "1000", "server.workers": str(workers)}
    scheduler, port = instance(0, folder, redis.url, settings)
    await scheduler.start()
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(connector=connector) as http:
            await _ready(http, port)
            field = Field(http, port)
            for _ in range(2 * workers):
                await field.node(translate, languages=(SOURCE, *LANGUAGES), max_concurrent_jobs=32)
            place = Hall(scheduler, redis, http, port)
            try:
                yield place
            finally:
                await place.close()
                await field.close()
    finally:
        await scheduler.stop()
        redis.stop()


async def in_room(place: Hall, listeners: int, utterances: int, *, as_guest: bool) -> tuple[Cost, float]:
    """The cost of an utterance, and the memory with everyone there."""
    async with Client(f"127.0.0.1:{place.port}", SOURCE, LANGUAGES[0]) as client:
        room = await client.create_room(language=SOURCE)
        for number in range(listeners):
            await place.listen(room.code, LANGUAGES[number % len(LANGUAGES)], as_guest=as_guest)
        await asyncio.sleep(3)
        before = await place.cost()
        for number in range(utterances):
            await room.say(SPEECH)
            await _heard(place, (number + 1) * listeners)
        cost = await place.cost() - before
        return cost.each(utterances), place.memory_mb()


async def alone(place: Hall, utterances: int) -> Cost:
    """The same speech by six sessions, each into one language."""
    clients = [Client(f"127.0.0.1:{place.port}", SOURCE, language) for language in LANGUAGES]
    for client in clients:
        await client.__aenter__()
    before = await place.cost()
    for _ in range(utterances):
        await asyncio.gather(*(client.utterance(SPEECH) for client in clients))
        await asyncio.gather(*(anext(aiter(client.results())) for client in clients))
    cost = await place.cost() - before
    for client in clients:
        await client.__aexit__(None, None, None)
    return cost.each(utterances)


async def _heard(place: Hall, results: int) -> None:
    for _ in range(6000):
        if place.heard >= results:
            return
        await asyncio.sleep(0.01)
    raise click.ClickException(f"{place.heard} of {results} results came")


async def _ready(http: aiohttp.ClientSession, port: int) -> None:
    for _ in range(600):
        try:
            async with http.get(f"http://127.0.0.1:{port}/health/ready") as response:
                if response.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.1)
    raise click.ClickException("the scheduler did not get ready")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _row(name: str, cost: Cost) -> str:
    return f"{name:<28} {cost.scheduler_ms:8.2f} ms {cost.redis_ms:8.2f} ms {cost.redis_bytes / 1000:10.1f} kB"


async def _room(listeners: int, utterances: int, folder: Path) -> None:
    async with hall(folder, 1) as place:
        by_itself = await alone(place, utterances)
        cost, memory_mb = await in_room(place, listeners, utterances, as_guest=False)
    click.echo("per utterance                   scheduler        Redis  Redis's network")
    click.echo(_row("6 sessions alone", by_itself))
    click.echo(_row(f"room, {listeners} listeners", cost))
    ratios = (mine / max(other, 1e-9) for mine, other in zip(cost, by_itself, strict=True))
    click.echo("ratio                        " + "  ".join(f"{ratio:9.2f}" for ratio in ratios))
    click.echo(f"memory of the scheduler: {memory_mb:.0f} MB")


async def _webinar(guests: int, utterances: int, folder: Path) -> None:
    async with hall(folder, 2) as place:
        before_mb = place.memory_mb()
        cost, memory_mb = await in_room(place, guests, utterances, as_guest=True)
    click.echo(_row(f"{guests} guests, 2 workers", cost))
    click.echo(f"memory: {before_mb:.0f} MB without them, {memory_mb:.0f} MB with them")
    click.echo(f"scheduler CPU for each guest and utterance: {1000 * cost.scheduler_ms / guests:.1f} µs")


@click.command()
@click.option("--listeners", default=200, show_default=True, help="Members that listen, in six languages.")
@click.option("--utterances", default=20, show_default=True, help="What is said.")
@click.option("--webinar", is_flag=True, help="Guests on two workers instead.")
@click.option("--guests", default=2000, show_default=True, help="Guests of the webinar.")
def main(listeners: int, utterances: int, webinar: bool, guests: int) -> None:
    with tempfile.TemporaryDirectory(prefix="lingua-bench-") as folder:
        step = _webinar(guests, utterances, Path(folder)) if webinar else _room(listeners, utterances, Path(folder))
        asyncio.run(step)


if __name__ == "__main__":
    main()
