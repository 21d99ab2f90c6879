"""One socket floods a scheduler with frames of one kind; an honest conversation beside it goes on (issue: one socket
stalls an instance). Schedulers are processes of their own, so that the attacker does not share their loop."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from tests.support.bare import Bare, frame, handshake
from tests.support.peers import FakeClient, Field, field, heartbeat, registration
from tests.support.schedulers import ServeProcess, serve_command
from tests.support.servers import RedisProcess
from tests.support.waiting import until

PING = frame(b"", opcode=9)
PONG = frame(b"", opcode=10)
# A message that never ends, in fragments without content.
OPENING, CONTINUATION = b"\x01\x80" + bytes(4), b"\x00\x80" + bytes(4)
BLOCK_BYTES = 65_536
GHOST = {"job_id": "job-0-x-1", "attempt_id": 1, "session_id": "s-1", "trace_id": "t", "node_id": "node-bad"}
REGISTERED = frame(registration(languages=("fr", "de"), node_id="node-bad"))
RESULT = GHOST | {"type": "job_result", "success": True, "text_asr": "a", "text_translated": "b", "tts_audio": ""}
SERVICE = {"service_id": "s", "type": "asr", "device": "gpu", "status": "running"}
# What a flood that is held back may cost of what it costs where nothing holds it: 0.05 to 0.2 were measured, about 1
# without the mechanism. A busy machine leaves less to both, since they are flooded at the same time.
MOST_OF_FREE = 0.7
# Of the CPU of the free one; below that the ratio says nothing.
ENOUGH_S = 0.15
MOST_ROUNDS = 8
# Limits so low that a flood gets less than a busy machine leaves to one that is free; honest peers need less still.
FRAMES_PER_S = 200
CPU_PERCENT = 1
ANY = 1_000_000
POST = (
    b"POST /v1/dispatch/f2f HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)

Floods = dict[str, tuple[str, bytes, bytes]]

FLOODS: Floods = {
    "pings to a session": ("/ws/session", b"", PING),
    "pongs to a session": ("/ws/session", b"", PONG),
    "continuations to a session": ("/ws/session", OPENING, CONTINUATION),
    "empty texts to a session": ("/ws/session", b"", frame(b"")),
    "pings to a node": ("/ws/node", b"", PING),
    "continuations to a node": ("/ws/node", OPENING, CONTINUATION),
    "rubbish to a node": ("/ws/node", b"", frame(b"{")),
    "heartbeats before registering": ("/ws/node", b"", frame(heartbeat("node-bad"))),
    "stale words of a node": (
        "/ws/node",
        frame(registration(languages=("fr", "de"), node_id="node-bad", advanced_features=["job_ack"])),
        frame({"type": "job_started"} | GHOST),
    ),
    "heartbeats of a node": (
        "/ws/node",
        frame(registration(languages=("fr", "de"), node_id="node-bad")),
        frame(heartbeat("node-bad")),
    ),
}

# After each of these that comes too fast nothing is read for a moment, whatever the limits are: neither scheduler
# spends more on them than on the conversation, so that they cannot be compared.
HELD_ANYWAY = {"heartbeats of a node"}

# Frames, chunks or requests, each of which costs much more to read than to send.
COSTLY: Floods = {
    "results with 4000 objects": ("/ws/node", REGISTERED, frame(RESULT | {"segments_meta": [{"": 0}] * 4000})),
    "results with 60000 numbers": ("/ws/node", REGISTERED, frame(RESULT | {"extra": {"x": [1] * 60_000}})),
    "errors with 60000 numbers": (
        "/ws/node",
        REGISTERED,
        frame({"type": "node_error", "node_id": "node-bad", "code": "X", "message": "m", "details": [1] * 60_000}),
    ),
    "heartbeats that are refused when they were read": (
        "/ws/node",
        REGISTERED,
        frame(heartbeat("node-bad", installed_services=[SERVICE] * 9000)),
    ),
    "a body in chunks of one byte": ("/v1/dispatch/f2f", POST, b"1\r\n \r\n"),
    "pages, without waiting for any": ("/health", b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
}


class Flood:
    """Sends as fast as it is read, and counts."""

    def __init__(self, peer: Bare, opening: bytes, repeated: bytes) -> None:
        self._peer = peer
        self._opening = opening
        self._block = repeated * max(1, BLOCK_BYTES // len(repeated))
        self.blocks = 0

    @property
    def sent(self) -> int:
        return self.blocks * len(self._block)

    async def run(self) -> None:
        with suppress(ConnectionError):
            self._peer.writer.write(self._opening)
            while True:
                self._peer.writer.write(self._block)
                await self._peer.writer.drain()
                self.blocks += 1
                await asyncio.sleep(0)


@asynccontextmanager
async def flood(port: int, path: str, opening: bytes, repeated: bytes) -> AsyncIterator[Flood]:
    peer = Bare(*await asyncio.open_connection("127.0.0.1", port))
    if path.startswith("/ws/"):
        peer.writer.write(handshake(path))
        assert (await peer.head()).startswith(b"HTTP/1.1 101")
    flooding = Flood(peer, opening, repeated)
    tasks = asyncio.create_task(flooding.run()), asyncio.create_task(peer.until_hung_up())
    await until(lambda: flooding.blocks, within_s=10)
    try:
        yield flooding
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        peer.writer.transport.abort()


class Rivals(NamedTuple):
    """Two schedulers that have nothing in common: one holds floods back, and the same floods are free at the other."""

    held: ServeProcess
    free: ServeProcess


def options(settings: dict[str, int]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


@asynccontextmanager
async def rivals(
    server: RedisProcess, folder: Path, held: dict[str, int], free: dict[str, int]
) -> AsyncIterator[Rivals]:
    (folder / "held").mkdir()
    (folder / "free").mkdir()
    redis = ("--redis-url", server.url, "--set")
    async with (
        serve_command(folder / "held", *redis, "redis.key_prefix=held", *options(held)) as holding,
        serve_command(folder / "free", *redis, "redis.key_prefix=free", *options(free)) as freeing,
    ):
        await until(lambda: holding.port and freeing.port, within_s=60)
        yield Rivals(holding, freeing)


def cpu_s(process: ServeProcess) -> float:
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def throttled(peers: Field, path: str) -> float:
    """How often sockets of this kind were read more slowly."""
    line = f'lingua_sockets_throttled_total{{side="{path.removeprefix("/ws/")}"}} '
    _, page = await peers.get("/metrics")
    return sum(float(found.removeprefix(line)) for found in page.splitlines() if found.startswith(line))


async def talk(client: FakeClient, numbers: Iterator[int], for_s: float) -> list[float]:
    """What utterances took, in ms; each has its result. With pauses, so that the floods make up most of the work."""
    taken: list[float] = []
    ends = perf_counter() + for_s
    while perf_counter() < ends:
        began = perf_counter()
        await client.utterance(next(numbers))
        assert (await client.outcome(within_s=30))["type"] == "translation_result"
        taken.append((perf_counter() - began) * 1000)
        await asyncio.sleep(0.03)
    return sorted(taken)


async def unheld(both: Rivals, floods: Floods) -> dict[str, str]:
    """The floods that cost the scheduler that should hold them back as much as the other, or did not make it rest."""
    found = {}
    async with field(both.held.port) as peers, field(both.free.port) as others:
        await peers.node()
        client, numbers = await peers.client(), count()
        before = median(await talk(client, numbers, 0.5))
        for number, (name, (path, opening, repeated)) in enumerate(floods.items()):
            # Under its own name, since the one before may still be heard.
            alias = b"node-b%02d" % number
            attack = path, opening.replace(b"node-bad", alias), repeated.replace(b"node-bad", alias)
            rested, rested_free = await throttled(peers, path), await throttled(others, path)
            async with flood(both.held.port, *attack) as held, flood(both.free.port, *attack) as free:
                had_s, during = (cpu_s(both.held), cpu_s(both.free)), list[float]()
                held_s = free_s = 0.0
                # On a busy machine it takes longer until a flood costs more than the conversation does.
                for _ in range(MOST_ROUNDS):
                    during += await talk(client, numbers, 1)
                    held_s, free_s = cpu_s(both.held) - had_s[0], cpu_s(both.free) - had_s[1]
                    if name in HELD_ANYWAY or (free_s >= ENOUGH_S and held_s <= MOST_OF_FREE * free_s):
                        break
                during.sort()
                rests = await throttled(peers, path) - rested
                rests_free = await throttled(others, path) - rested_free
            told = (
                f"median {before:.1f} ms before, {median(during):.1f} during, worst {during[-1]:.0f} ms, "
                f"{len(during)} answers; held: {held_s:.2f} s CPU, {rests:.0f} rests, {held.sent // 1024} KiB, "
                f"free: {free_s:.2f} s CPU, {rests_free:.0f} rests, {free.sent // 1024} KiB"
            )
            print(f"{name}: {told}")
            is_costly = name not in HELD_ANYWAY and held_s > MOST_OF_FREE * free_s
            if is_costly or (path.startswith("/ws/") and not rests):
                found[name] = told
    return found


async def test_an_honest_conversation_goes_on_beside_every_flood(server: RedisProcess, tmp_path: Path) -> None:
    rates = ("nodes.max_frames_per_s", "sessions.max_frames_per_s")
    held, free = (dict.fromkeys(rates, most) for most in (FRAMES_PER_S, ANY))
    async with rivals(server, tmp_path, held, free | {"server.max_bad_frames_per_min": ANY}) as both:
        assert await unheld(both, FLOODS) == {}


async def test_what_costs_much_to_read_is_read_slowly(server: RedisProcess, tmp_path: Path) -> None:
    # Nothing but the share of the CPU holds these back.
    else_free = {
        "nodes.max_bytes_per_s": 1_000 * ANY,
        "server.max_bad_frames_per_min": ANY,
        "server.max_body_bytes": 1_000 * ANY,
    }
    # What all HTTP connections may take together is no limit here.
    held, free = (
        {"server.max_connection_cpu_percent": share, "server.max_shared_loop_percent": 100}
        for share in (CPU_PERCENT, 100)
    )
    async with rivals(server, tmp_path, held | else_free, free | else_free) as both:
        assert await unheld(both, COSTLY) == {}
