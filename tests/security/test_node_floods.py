"""A node whose messages are legal and costly, as fast as they are read: others keep their latency, and it is closed.

The scheduler is a process of its own, so that the attacker does not share its loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from lingua_scheduler.protocol.node_dialogue import MAX_UNDER_WAY
from lingua_scheduler.services.nodes.pacing import STRAYS, STRAYS_PER_S
from tests.security.test_frame_floods import GHOST
from tests.support.bare import Bare, frame, handshake
from tests.support.crowd_floods import Crowd, crowd_flood
from tests.support.fleet import wide_codes
from tests.support.peers import FakeClient, Field, field, heartbeat, registration
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

LARGE = "16 000 pairs, others each time"
ROGUES, FLOOD_S = 10, 5.0
CODES = wide_codes(128)
PAIRS = [{"from": src, "to": tgt} for src in CODES for tgt in CODES if src != tgt and src not in ("en", "zh")]


def beat(**more: Any) -> bytes:
    return frame(heartbeat("node-bad", **more))


def speaking(pairs: list[dict[str, str]]) -> dict[str, Any]:
    lists = {"asr_languages": CODES, "semantic_languages": CODES, "tts_languages": CODES}
    return {"language_capabilities": lists | {"nmt_capabilities": pairs}}


FLOODS = {
    "thousands of jobs, others each time": [
        beat(running_job_ids=[f"job-0-{turn:x}-{number:x}" for number in range(3_000)]) for turn in range(20)
    ],
    "a service that comes and goes": [
        beat(capability_by_type=[{"type": kind, "ready": is_ready} for kind in ("asr", "tts")])
        for is_ready in (True, False)
    ],
    "registering again and again": [
        frame(registration(languages=("fr", "de"), node_id="node-bad", max_concurrent_jobs=slots)) for slots in (3, 4)
    ],
    # So large that they are read slowly; nobody need close it.
    LARGE: [beat(**speaking(PAIRS[turn:])) for turn in range(10)],
}


class Flood:
    """Sends as fast as it is read, and counts."""

    def __init__(self, peer: Bare, frames: list[bytes]) -> None:
        self._peer = peer
        self._frames = cycle(frames)
        self.sent = 0

    async def run(self) -> None:
        with suppress(ConnectionError):
            self._peer.writer.write(frame(registration(languages=("fr", "de"), node_id="node-bad")))
            while True:
                self._peer.writer.write(next(self._frames))
                await self._peer.writer.drain()
                self.sent += 1
                await asyncio.sleep(0)


@asynccontextmanager
async def flood(port: int, frames: list[bytes]) -> AsyncIterator[tuple[Flood, "asyncio.Task[None]"]]:
    peer = Bare(*await asyncio.open_connection("127.0.0.1", port))
    peer.writer.write(handshake("/ws/node"))
    assert (await peer.head()).startswith(b"HTTP/1.1 101")
    flooding = Flood(peer, frames)
    tasks = asyncio.create_task(flooding.run()), asyncio.create_task(peer.until_hung_up())
    await until(lambda: flooding.sent, within_s=10)
    try:
        yield flooding, tasks[1]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        peer.writer.transport.abort()


async def latencies(client: FakeClient, first: int, count: int) -> list[float]:
    taken = []
    for index in range(first, first + count):
        began = perf_counter()
        await client.utterance(index)
        assert (await client.outcome(within_s=15))["type"] == "translation_result"
        taken.append((perf_counter() - began) * 1000)
    return taken


async def test_an_honest_conversation_goes_on_beside_costly_words_of_a_node(
    server: RedisProcess, tmp_path: Path
) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url) as process:
        await until(lambda: process.port, within_s=30)
        async with field(process.port) as peers:
            honest = await peers.node()
            client = await peers.client()
            await latencies(client, 0, 10)
            before, said = median(await latencies(client, 10, 30)), 40
            for name, frames in FLOODS.items():
                async with flood(process.port, frames) as (flooding, hung_up):
                    during = sorted(await latencies(client, said, 30))
                    said += 30
                    print(
                        f"{name}: median {before:.1f} ms before, {during[15]:.1f} during "
                        f"({during[15] / before:.1f} times), worst {during[-1]:.0f} ms, {flooding.sent} were sent"
                    )
                    # A busy machine makes everything slower.
                    assert during[15] < 1000, name
                    if name is not LARGE:
                        await asyncio.wait_for(hung_up, 30)
            assert not honest.socket.socket.closed


async def judged(peers: Field) -> float:
    """Reports that Redis was asked about and that changed nothing."""
    line = "lingua_messages_stale_total{"
    _, page = await peers.get("/metrics")
    return sum(float(found.rpartition(" ")[2]) for found in page.splitlines() if found.startswith(line))


async def test_reports_about_jobs_that_nodes_do_not_have_are_read_slowly(server: RedisProcess, tmp_path: Path) -> None:
    crowd = Crowd(
        ROGUES,
        "/ws/node",
        frame(registration(languages=("fr", "de"))).decode("latin-1"),
        frame({"type": "job_started"} | GHOST).decode("latin-1"),
    )
    async with serve_process(tmp_path, "--redis-url", server.url) as process:
        await until(lambda: process.port, within_s=30)
        async with field(process.port) as peers:
            await peers.node()
            client = await peers.client()
            before = median(await latencies(client, 0, 30))
            began = perf_counter()
            async with crowd_flood(process.port, crowd):
                await until(lambda: has_judged(peers, ROGUES * STRAYS), within_s=60)
                during, said = list[float](), 30
                while perf_counter() - began < FLOOD_S:
                    during += await latencies(client, said, 5)
                    said += 5
                found = await judged(peers)
                took_s = perf_counter() - began
    print(
        f"{found:.0f} stale reports of {ROGUES} nodes in {took_s:.1f} s; the conversation's median: {before:.1f} ms "
        f"before, {median(during):.1f} during"
    )
    # What was under way when the first of them had to rest comes on top; unheld, it would be 1000 a second of each.
    assert found <= ROGUES * (STRAYS + 4 * MAX_UNDER_WAY + STRAYS_PER_S * took_s)


async def has_judged(peers: Field, least: int) -> bool:
    return await judged(peers) >= least
