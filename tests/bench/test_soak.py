"""A soak: flat or not, and the first error ends it and is said."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import pytest

from lingua_scheduler.bench import scenarios, soak
from lingua_scheduler.bench.figures import Samples
from lingua_scheduler.bench.plan import Plan
from tests.bench.evicting import evict
from tests.support.waiting import until

TINY = Plan(jobs=100, sessions=4, nodes=1, rate=50.0, minutes=0.1)


@pytest.mark.parametrize(("warm_s", "took_s"), [(180, 1000), (300, 3000), (50, 100)])
def test_what_stays_the_same_once_it_is_warm_is_flat(warm_s: int, took_s: int) -> None:
    """Warm is after three minutes, or a tenth of the time if that is more, but not later than half of it."""
    points = [(float(s), 100.0 if s >= warm_s else 10.0) for s in range(took_s + 1)]
    assert soak.flatness(points) == pytest.approx((100, 0, 0))
    too_early = [(s, 10.0 if s == warm_s else mb) for s, mb in points]
    assert soak.flatness(too_early)[1] == pytest.approx(90)


def test_what_grows_is_not_flat() -> None:
    middle_mb, spread, slope = soak.flatness([(float(s), 100.0 + s) for s in range(101)])
    assert middle_mb == 175
    assert spread == pytest.approx(25 / 175 * 100)
    assert slope == pytest.approx(3600)


async def test_every_figure_of_a_soak_is_there() -> None:
    told: list[str] = []
    run = await scenarios.run(["soak"], TINY, told.append)
    assert len(told) == scenarios.total_steps(["soak"], TINY) == 1
    assert told[0].startswith("soak: minute 1 of 0.1: ")
    medians = {figure.name: figure.median for figure in run.figures}
    assert medians["soak/jobs/errors"] == 0
    assert medians["soak/jobs/jobs"] == pytest.approx(50, rel=0.3)
    assert medians["soak/jobs/p99"] > 0
    for who in ("scheduler", "redis"):
        assert medians[f"soak/{who}/memory"] > 1
        assert {f"soak/{who}/memory spread", f"soak/{who}/memory slope"} <= medians.keys()
    assert {curve.label for curve in run.curves} == {"scheduler", "redis", "p99"}


async def test_the_first_error_ends_a_soak_and_is_said(tmp_path: Path) -> None:
    samples = Samples()
    plan = Plan(jobs=100, sessions=4, nodes=1, rate=50.0, minutes=2)
    async with asyncio.timeout(50), asyncio.TaskGroup() as tasks:
        tasks.create_task(_evict_later(tmp_path / "scheduler.log"))
        await soak.measure(plan, samples, tmp_path, lambda _: None)
    figures = {figure.name: figure.median for figure in samples.figures()}
    assert figures["soak/jobs/errors"] == 1
    (note,) = samples.notes
    assert note.startswith("The soak ended in minute 1 of 2: a ")
    # What was measured until then is there.
    assert figures["soak/scheduler/memory"] > 1


async def _evict_later(log: Path) -> None:
    await until(lambda: log.exists() and '"scheduler.ready"' in log.read_text(), within_s=30)
    events = map(json.loads, log.read_text().splitlines())
    port = next(event["port"] for event in events if event["event"] == "scheduler.started")
    await evict(port, "bench-plain-0")


async def test_a_soak_is_no_part_of_a_usual_run() -> None:
    assert set(scenarios.SCENARIOS) - set(scenarios.USUAL) == {"peers", "soak"}


async def test_a_soak_tells_a_line_a_minute(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lingua_scheduler", "bench", "--scenario", "soak", "--minutes", "0.05",
        "--rate", "50", "--jobs", "100", "--sessions", "4", "--nodes", "1", "--out", str(tmp_path),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=dict(os.environ),
    )  # fmt: skip
    out, lines = await process.communicate()
    assert process.returncode == 0
    (line,) = lines.decode().splitlines()
    assert re.match(r"soak: minute 1 of 0\.05: \d+ jobs/s, p99 ", line)
    assert "errors in a soak" in out.decode()
    assert (tmp_path / "curve-memory-in-a-soak.svg").exists()
