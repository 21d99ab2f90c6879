"""One tiny real run of everything: real processes, every job answered once, nothing left behind."""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from bench import children, figures, report, scenarios
from bench.bare import open_store
from bench.orders import Cast, Order
from bench.plan import Plan
from lingua_sdk import processes
from tests.support.waiting import until

TINY = Plan(repeats=2, jobs=200, sessions=4, nodes=2, fleets=(10,))
# They take a while even when they are tiny, and have tests of their own.
APART = {"speakers", "languages", "saturation"}


@pytest.mark.timeout(300)
async def test_every_figure_is_there_after_a_run_of_the_quick_scenarios(tmp_path: Path) -> None:
    told: list[str] = []
    run = await scenarios.run([name for name in scenarios.USUAL if name not in APART], TINY, told.append)
    assert told

    saved = figures.read(report.write(run, tmp_path / "results"))
    assert saved == run
    assert {"python", "python_build", "redis", "redis_allocator"} <= run.machine.keys()
    assert any("without PGO" in note for note in run.notes) == (run.machine["python_build"] == "not optimised")
    medians = {figure.name: figure.median for figure in saved.figures}
    for variant in ("small", "small, ack", "32 KB", "32 KB, ack", "32 KB opus"):
        for metric in (
            "scheduler CPU", "redis CPU", "load CPU", "all CPU", "in scripts", "jobs", "p50", "p99",
            "scheduler memory", "redis memory",
        ):  # fmt: skip
            assert medians[f"life/{variant}/{metric}"] > 0, (variant, metric)
        assert f"life/{variant}/p99.9" not in medians  # of 200 jobs nobody knows
    # Nothing but the job's own two, which jobs may share, and now and then a heartbeat or a sweep.
    assert 0 < medians["life/small/scripts"] < 2.5
    assert 0 < medians["life/small, ack/scripts"] < 3.5
    for name in (
        "redis/dispatch",
        "redis/end",
        "redis/both: a job",
        "fleet/heartbeat, 10 nodes",
        "fleet/miss, 10 nodes",
    ):
        assert medians[f"{name}/redis CPU"] > 0
        assert medians[f"{name}/client CPU"] > 0
    assert medians["echo/small/server CPU"] > 0


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"CONFIG_ARGS": "'--prefix=/opt'", "PY_CFLAGS": "-O3", "PGO_PROF_USE_FLAG": "-fprofile-use"}, "not optimised"),
        ({"CONFIG_ARGS": "'--prefix=/usr'", "PY_CFLAGS": "-O2", "PGO_PROF_USE_FLAG": ""}, "not told"),  # Debian's
        ({}, "not told"),
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}, "PGO and LTO"),
        ({"CONFIG_ARGS": "'--enable-optimizations'"}, "PGO"),
        ({"PY_CORE_CFLAGS": "-O3 -fprofile-use -flto"}, "PGO and LTO"),
    ],
)
def test_it_is_told_how_python_was_built(variables: dict[str, str], told: str) -> None:
    assert scenarios.build(variables) == told


@pytest.mark.parametrize("rate", [0.0, 500.0])
@pytest.mark.parametrize("acknowledges", [False, True])
async def test_every_job_gets_one_result(tmp_path: Path, rate: float, acknowledges: bool) -> None:
    async with children.scheduler(tmp_path) as scheduler:
        cast = Cast(port=scheduler.port, talkers=3, nodes=2, slots=8)
        async with children.load(cast) as load:
            order = Order(jobs=250, in_flight=2, audio_bytes=640, acknowledges=acknowledges, rate=rate)
            # The second order only counts right if the first left nothing under way.
            tallies = [await load.carry_out(order), await load.carry_out(order)]
    assert [tally.jobs for tally in tallies] == [250, 250]
    assert all(0 < tally.p50_ms <= tally.p99_ms for tally in tallies)
    for pid in (*scheduler.pids, scheduler.redis_pid, load.pid):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_the_scheduler_that_is_measured_may_have_several_workers(tmp_path: Path) -> None:
    async with children.scheduler(tmp_path, workers=2) as scheduler:
        assert len(set(scheduler.pids)) == 2
        _, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
        writer.close()
    for pid in (*scheduler.pids, scheduler.redis_pid):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_load_that_cannot_go_on_says_why(tmp_path: Path) -> None:
    async with children.scheduler(tmp_path) as scheduler:
        async with children.load(Cast(port=scheduler.port, talkers=1, nodes=1, slots=8)) as load:
            os.kill(scheduler.pids[0], signal.SIGKILL)
            with pytest.raises(children.BenchFailed, match="disconnected"):
                await load.carry_out(Order(jobs=100_000, in_flight=1, audio_bytes=640))


async def test_ctrl_c_leaves_nothing_behind_even_if_it_comes_twice(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    bench = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench", "--scenario", "life", "--out", str(tmp_path / "results"),
        cwd=children.ROOT, env={**os.environ, "TMPDIR": str(folder)}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert bench.stderr is not None
    try:
        async with asyncio.timeout(90):
            while not any(b"scheduler.ready" in log.read_bytes() for log in folder.glob("*/life/scheduler.log")):
                await asyncio.sleep(0.02)
            bench.send_signal(signal.SIGINT)
            # Said while everything is still there.
            assert (await bench.stderr.readline()).startswith(b"Stopping: ")
            bench.send_signal(signal.SIGINT)
            assert await bench.stderr.read() == b""
            assert await bench.wait() == 130
    finally:
        await processes.stop(bench, 10)
    assert list(folder.iterdir()) == []
    assert list((tmp_path / "results").iterdir()) == []
    if sys.platform == "linux":
        commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _is_readable(path)]
        assert not [command for command in commands if re.search(re.escape(os.fsencode(folder)), command)]


async def test_a_scheduler_that_was_measured_does_not_wait_for_jobs_whose_nodes_are_gone(tmp_path: Path) -> None:
    async with children.scheduler(tmp_path) as scheduler, open_store(scheduler.redis_url) as store:
        async with children.load(Cast(port=scheduler.port, talkers=8, nodes=2, slots=64)) as load:
            ordering = asyncio.create_task(load.carry_out(Order(jobs=1_000_000, in_flight=8, audio_bytes=640)))

            async def runs_jobs() -> bool:
                os.kill(load.pid, signal.SIGSTOP)
                await asyncio.sleep(0.3)  # Results that it has sent already are read meanwhile.
                if await store.line.call("KEYS", "*:leases"):
                    return True
                os.kill(load.pid, signal.SIGCONT)
                return False

            await until(runs_jobs)
            os.kill(load.pid, signal.SIGKILL)
            ordering.cancel()
    events = [json.loads(line) for line in (tmp_path / "scheduler.log").read_bytes().splitlines()]
    (stopped,) = (event for event in events if event["event"] == "scheduler.stopped")
    assert stopped["unfinished_jobs"] > 0


def _is_readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True
