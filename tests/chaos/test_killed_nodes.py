"""Node processes killed with SIGKILL, one a second: every utterance has its outcome, lost work goes elsewhere at once.

In full size (500 jobs under way, 20 kills) with CHAOS=full in the environment."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from lingua_scheduler.store.store import Store
from lingua_sdk.processes import die_with_parent, stop
from tests.support.figures import percentile
from tests.support.peers import FakeClient, field
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until


class Size(NamedTuple):
    clients: int
    kills: int
    job_ms: int


IS_FULL = os.environ.get("CHAOS") == "full"
# A job that is shorter than the time between two kills cannot lose all its attempts to them.
SIZE = Size(clients=130, kills=20, job_ms=1_700) if IS_FULL else Size(clients=40, kills=6, job_ms=900)
UNDER_WAY = 4
NODES, SLOTS = 20, 30
# Their nodes have the slots they claim. Whatever else a node is lost by, a heartbeat or an acknowledgement that never
# comes, takes so long that no busy machine can be mistaken for it.
SETTINGS = (
    *("--set", "server.stop_timeout_ms=1000"),
    *("--set", "nodes.believed_slots=0"),
    *("--set", "nodes.heartbeat_interval_ms=15000"),
    *("--set", "job.reservation_ttl_ms=30000"),
    *("--set", "job.timeout_base_ms=30000"),
)
NOTICED_S = 15.0
KILL_EVERY_S = 1.0

# Forks a node for every id it reads, and answers with its process. A node notes each assignment at once, so that the
# note survives it.
FLEET = f"""
import asyncio, os, signal, sys, time
from lingua_scheduler.engines.sim import SimEngine
from lingua_sdk.processes import die_with_parent
from lingua_sdk.protocol.node import JobAssign
from lingua_sdk.node import Abilities, Node

address, notes = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

class NotingNode(Node):
    async def _take(self, message):
        if isinstance(message, JobAssign):
            job = message
            os.write(notes, f"{{time.monotonic()}} {{self.node_id}} {{job.job_id}} {{job.attempt_id}}\\n".encode())
        await super()._take(message)

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        die_with_parent()
        able = Abilities(("en", "zh"), ("en", "zh"), ("en", "zh"), slots={SLOTS})
        engine = SimEngine(base_ms={SIZE.job_ms}, per_second_ms=0)
        asyncio.run(NotingNode(address, engine, able, node_id=line.strip()).run())
        os._exit(1)
    print(child, flush=True)
"""


class Note(NamedTuple):
    at_s: float
    node_id: str
    job_id: str
    attempt: int


class Fleet:
    def __init__(self, process: Process, notes: Path) -> None:
        self._process = process
        self._notes = notes
        self._pids: dict[str, int] = {}
        self.killed_at_s: dict[str, float] = {}

    async def start_node(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        node_id = f"n{len(self._pids) + len(self.killed_at_s)}"
        self._process.stdin.write(f"{node_id}\n".encode())
        self._pids[node_id] = int(await self._process.stdout.readline())

    def kill_oldest(self) -> None:
        node_id = next(iter(self._pids))
        self.killed_at_s[node_id] = time.monotonic()
        os.kill(self._pids.pop(node_id), signal.SIGKILL)

    def notes(self) -> list[Note]:
        lines = [line.split() for line in self._notes.read_text().splitlines()]
        return [Note(float(at), node_id, job_id, int(attempt)) for at, node_id, job_id, attempt in lines]

    def recoveries_s(self) -> list[float]:
        """From the death of a node to the next assignment of each job it had."""
        notes = self.notes()
        holders = {(note.job_id, note.attempt): note.node_id for note in notes}
        found = []
        for note in notes:
            if note.attempt > 1:
                # Sent into a dying socket, it was noted nowhere; then the last death before this was its end.
                unseen = max((at for at in self.killed_at_s.values() if at < note.at_s), default=None)
                holder = holders.get((note.job_id, note.attempt - 1))
                died_at = self.killed_at_s.get(holder) if holder else unseen
                if died_at is not None:
                    found.append(note.at_s - died_at)
        return found


@asynccontextmanager
async def fleet_on(port: int, folder: Path) -> AsyncIterator[Fleet]:
    notes = folder / "assignments"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FLEET, f"ws://127.0.0.1:{port}", str(notes)),
        stdin=PIPE,
        stdout=PIPE,
        preexec_fn=die_with_parent,
    )
    try:
        yield Fleet(process, notes)
    finally:
        await stop(process, 10.0)  # and its children with it


class Told(NamedTuple):
    number: int
    kind: str
    is_late: bool


async def talk(client: FakeClient, enough: asyncio.Event) -> tuple[int, list[Told]]:
    """Keep a few utterances under way; how many were said, and what came of them."""
    said = 0
    outcomes: list[Told] = []
    sound = b"\x00\x01" * 800
    for _ in range(UNDER_WAY):
        await client.utterance(said, sound)
        said += 1
    while len(outcomes) < said:
        outcome = await client.outcome(within_s=40)
        kind = str(outcome.get("reason", outcome["type"]))
        outcomes.append(Told(outcome["utterance_index"], kind, bool(outcome.get("late"))))
        if not enough.is_set():
            await client.utterance(said, sound)
            said += 1
    return said, outcomes


@pytest.mark.slow
async def test_nodes_killed_one_after_the_other_cost_nobody_a_sentence(
    server: RedisProcess, store: Store, tmp_path: Path
) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url, *SETTINGS) as serving:
        port = await until(lambda: serving.port, within_s=60)
        async with fleet_on(port, tmp_path) as fleet, field(port) as peers:
            for _ in range(NODES):
                await fleet.start_node()

            async def all_ready() -> bool:
                return [view.state for view in await store.node_views.all()] == ["ready"] * NODES

            await until(all_ready, within_s=30, what="all nodes ready")
            clients = [await peers.client() for _ in range(SIZE.clients)]
            enough = asyncio.Event()
            talking = [asyncio.create_task(talk(client, enough)) for client in clients]
            under_way = await _kill_one_after_the_other(store, fleet)
            enough.set()
            told = await asyncio.gather(*talking)

            for said, outcomes in told:
                # One each; and in order, but for what was overtaken, which a busy machine may make more than the hold.
                assert sorted(one.number for one in outcomes) == list(range(said))
                in_time = [one.number for one in outcomes if not one.is_late]
                assert in_time == sorted(in_time)
            kinds = Counter(one.kind for _, outcomes in told for one in outcomes)
            recoveries_s = fleet.recoveries_s()
            p99_s = percentile(recoveries_s, 99)
            print(
                f"\n{SIZE.kills} nodes killed, {min(under_way)} to {max(under_way)} jobs under way; "
                f"{sum(kinds.values())} utterances: {dict(kinds)}\n"
                f"{len(recoveries_s)} attempts lost; from a death to the next assignment: "
                f"median {percentile(recoveries_s, 50) * 1000:.0f} ms, p99 {p99_s * 1000:.0f} ms, "
                f"longest {max(recoveries_s) * 1000:.0f} ms"
            )
            failures = sum(kinds.values()) - kinds["translation_result"]
            assert failures <= max(1, 0.001 * sum(kinds.values()))
            # Enough of them for a 99th percentile to mean something.
            assert len(recoveries_s) > 2 * SIZE.kills
            assert p99_s < NOTICED_S

            async def all_free() -> bool:
                views = await store.node_views.all()
                return [(view.held, view.free) for view in views] == [(0, SLOTS)] * NODES

            await until(all_free, within_s=20, what="every slot free")
            keys = store.keys.shard(0)
            assert await store.line.call("ZCARD", keys.leases) == 0
            assert await store.line.call("ZCARD", keys.held) == 0


async def _kill_one_after_the_other(store: Store, fleet: Fleet) -> list[int]:
    """How many jobs were under way at each kill."""
    under_way = []
    leases = store.keys.shard(0).leases

    async def all_talk() -> bool:
        return bool(await store.line.call("ZCARD", leases) >= 0.9 * SIZE.clients * UNDER_WAY)

    await until(all_talk, within_s=30, what="everybody talking")
    began = time.monotonic()
    for number in range(SIZE.kills):
        await asyncio.sleep(max(0.0, began + number * KILL_EVERY_S - time.monotonic()))
        under_way.append(int(await store.line.call("ZCARD", leases)))
        fleet.kill_oldest()
        await fleet.start_node()
    return under_way
