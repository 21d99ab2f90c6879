"""The example of an autoscaler with real processes: it follows the load, and a node that it stops loses nothing."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.cli.load.crowd import Crowd, Plan
from lingua_scheduler.domain.watching.scaling import slots_for
from lingua_scheduler.setting_sections.watching import ScalingSettings
from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.audio import SAMPLE_RATE
from lingua_sdk.processes import die_with_parent, stop
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.tones import tone
from tests.support.waiting import until
from tools.docs import ROOT

AUDIO = tone(300, SAMPLE_RATE, 1.0).tobytes()
SETTINGS = {
    "watch.interval_ms": 500,
    "watch.watched_interval_ms": 500,
    "scaling.window_ms": 8_000,
    "scaling.hold_ms": 12_000,
}
RATE, DELAY_MS, SLOTS = 2.0, 750, 2
# Of what is needed; and nodes come whole.
TOLERANCE = 0.2
STAYS = 20


class Autoscaler:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8")

    def count(self, words: str) -> int:
        return self.said.count(words)

    def nodes(self) -> list[int]:
        """The processes of its nodes."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in path.read_text("utf-8").split()]


@asynccontextmanager
async def autoscaler(folder: Path, port: int, *options: str) -> AsyncIterator[Autoscaler]:
    log = folder / "autoscaler.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(ROOT / "examples" / "autoscaler.py"), "--url", f"ws://127.0.0.1:{port}"),
            *("--interval", "0.5", "--cool-down", "2", *options),
            *("--", "--languages", "en,zh", "--delay-ms", str(DELAY_MS)),
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            preexec_fn=die_with_parent,
        )
    try:
        yield Autoscaler(process, log)
    finally:
        await stop(process, 60.0)


class Watched:
    """What the scheduler itself says."""

    def __init__(self, port: int, http: aiohttp.ClientSession) -> None:
        self._port = port
        self._http = http

    async def get(self, path: str) -> Any:
        async with self._http.get(f"http://127.0.0.1:{self._port}{path}") as response:
            return await response.json() if "json" in response.content_type else await response.text()

    async def slots(self) -> int:
        return int((await self.get("/v1/scaling"))["capacity"]["slots"])

    async def sums(self, *names: str) -> list[float]:
        lines = [line.rpartition(" ") for line in (await self.get("/metrics")).splitlines()]
        return [sum(float(value) for key, _, value in lines if key.partition("{")[0] == name) for name in names]


class Attempts:
    """How long attempts took since it was made, from another measurement than the signal's."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._before = [0.0, 0.0]

    async def begin(self) -> None:
        self._before = await self._read()

    async def mean_s(self) -> float:
        took_s, count = (now - then for now, then in zip(await self._read(), self._before, strict=True))
        return took_s / max(1.0, count)

    async def _read(self) -> list[float]:
        return await self._watched.sums("lingua_attempt_seconds_sum", "lingua_attempt_seconds_count")


async def followed(watched: Watched, people: Crowd, rate: float, what: str) -> None:
    """Wait until the slots are within 20 % of what this rate needs, and still are some utterances later.

    On a busy machine a job takes longer, and more is needed."""
    attempts, began_s = Attempts(watched), time.monotonic()
    await attempts.begin()
    await until(lambda: attempts.mean_s())

    async def is_followed() -> tuple[int, int] | None:
        needed = slots_for(rate * await attempts.mean_s(), ScalingSettings().headroom)
        slots = await watched.slots()
        return (needed, slots) if abs(slots - needed) <= max(TOLERANCE * needed, SLOTS - 1) else None

    needed, slots = await until(is_followed, within_s=180, what=what)
    print(f"{what}: {slots} slots for {needed} needed, after {time.monotonic() - began_s:.0f} s", end="")
    before = people.tally.translated
    await until(lambda: people.tally.translated >= before + STAYS, within_s=180)
    needed, slots = await until(is_followed, within_s=180, what=what)
    print(f"; {slots} for {needed} {STAYS} utterances later")


def people(port: int) -> Crowd:
    return Crowd(Plan(f"127.0.0.1:{port}", "en", "zh", 4, RATE, 3_600.0, 0.0, AUDIO))


@pytest.mark.slow
async def test_it_follows_a_doubled_and_halved_load_and_loses_nothing(server: RedisProcess, tmp_path: Path) -> None:
    words = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    async with (
        aiohttp.ClientSession() as http,
        serve_process(tmp_path, "--redis-url", server.url, *words) as serving,
    ):
        port = await until(lambda: serving.port)
        watched = Watched(port, http)
        async with autoscaler(tmp_path, port, "--min", "1", "--max", "8", "--slots", str(SLOTS)) as scaler:
            await until(watched.slots)
            first, second = people(port), people(port)
            talking = asyncio.create_task(first.run())
            await followed(watched, first, RATE, "load")
            more = asyncio.create_task(second.run())
            await until(lambda: second.tally.translated)
            await followed(watched, first, 2 * RATE, "doubled")
            second.stop()
            await followed(watched, first, RATE, "halved")
            await more
            assert scaler.count("drained and stopped")
            first.stop()
            await talking
            for tally in (first.tally, second.tally):
                # None failed, and none was refused.
                assert tally.problems(None) == []
                assert tally.translated == tally.said > 0
            lost, retried = await watched.sums("lingua_attempts_lost_total", "lingua_job_retries_total")
            print(f"{first.tally.said + second.tally.said} said, all translated; {scaler.count('started')} started")
            assert (lost, retried) == (0, 0), scaler.said
            # Without load only the nodes that always run are left.
            await until(lambda: len(scaler.nodes()) == 1, within_s=180, what=scaler.said)
        assert scaler.process.returncode == 0, scaler.said


@pytest.mark.slow
async def test_it_outlives_a_restart_of_the_scheduler_replaces_a_dead_node_and_ends_with_its_nodes(
    server: RedisProcess, tmp_path: Path
) -> None:
    port = free_port()
    where = ("--redis-url", server.url, "--port", str(port))
    async with aiohttp.ClientSession() as http:
        watched = Watched(port, http)
        async with serve_process(tmp_path, *where) as serving:
            await until(lambda: serving.port)
            stack = autoscaler(tmp_path, port, "--min", "2", "--max", "3", "--slots", "1")
            scaler = await stack.__aenter__()
            await until(lambda: len(scaler.nodes()) == 2)
        try:
            await until(lambda: scaler.count("cannot ask the scheduler"))
            nodes = scaler.nodes()
            async with serve_process(tmp_path, *where) as serving:
                await until(lambda: serving.port)
                # The same processes, which reconnected by themselves.
                await until(lambda: _all_connected(watched, 2))
                assert scaler.nodes() == nodes
                os.kill(nodes[0], 9)
                await until(lambda: scaler.count("ended by itself"))
                await until(lambda: _all_connected(watched, 2), within_s=60)
                assert nodes[0] not in scaler.nodes()
                nodes = scaler.nodes()
                assert await stop(scaler.process, 60.0) == 0
                assert not any(Path(f"/proc/{pid}").exists() for pid in nodes)
        finally:
            await stack.__aexit__(None, None, None)


async def _all_connected(watched: Watched, count: int) -> bool:
    nodes = (await watched.get("/v1/nodes"))["nodes"]
    return len([node for node in nodes if node["free"] is not None]) == count
