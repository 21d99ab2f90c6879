"""A soak: flat or not, errors by code, and what it cannot go on with ends it and is said."""

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import aiohttp
import pytest

from bench import children, scenarios, soak
from bench.figures import Samples
from bench.orders import Cast, Order
from bench.plan import Plan
from tests.bench.evicting import evict
from tests.support.waiting import until

TINY = Plan(jobs=100, sessions=4, nodes=1, rate=50.0, minutes=0.1)


@pytest.mark.parametrize(("warm_s", "took_s"), [(180, 1000), (300, 3000), (50, 100)])
def test_what_stays_the_same_once_it_is_warm_is_flat(warm_s: int, took_s: int) -> None:
    """Warm is after three minutes, or a tenth of the time if that is more, but not later than half of it."""
    points = [(float(s), 100.0 if s >= warm_s else 10.0) for s in range(took_s + 1)]
    *memory, slope = soak.flatness(points)
    assert memory == pytest.approx([100, 100, 100, 0])
    assert (slope or 0.0) == pytest.approx(0)
    too_early = [(s, 10.0 if s == warm_s else mb) for s, mb in points]
    assert soak.flatness(too_early).spread == pytest.approx(90)


def test_what_grows_is_not_flat() -> None:
    memory = soak.flatness([(float(s), 100.0 + s) for s in range(0, 1181, 10)])
    assert memory.middle_mb == 100 + 680
    assert (memory.first_mb, memory.last_mb) == (100 + 230, 100 + 1130)
    assert memory.spread == pytest.approx(500 / 780 * 100)
    assert memory.per_hour_mb == pytest.approx(3600)


@pytest.mark.parametrize(("took_s", "is_told"), [(12, False), (359, False), (361, True), (1800, True)])
def test_a_slope_is_told_once_it_was_warm_for_as_long_as_it_took_to_get_there(took_s: int, is_told: bool) -> None:
    slope = soak.flatness([(float(s), 100.0 + s) for s in range(took_s + 1)]).per_hour_mb
    assert slope == (pytest.approx(3600) if is_told else None)


@pytest.mark.parametrize(
    ("minute", "minutes", "words"),
    [
        (1, 0.2, "12 s of 12 s"),
        (1, 30, "1 min of 30 min"),
        (2, 2.5, "2 min of 2.5 min"),
        (3, 2.5, "2.5 min of 2.5 min"),
    ],
)
def test_how_far_a_soak_has_come(minute: int, minutes: float, words: str) -> None:
    assert soak.so_far(minute, minutes) == words


async def test_every_figure_of_a_soak_is_there() -> None:
    told: list[str] = []
    run = await scenarios.run(["soak"], TINY, told.append)
    assert len(told) == 1
    assert told[0].startswith("soak: 6 s of 6 s: ")
    medians = {figure.name: figure.median for figure in run.figures}
    assert medians["soak/jobs/errors"] == 0
    assert medians["soak/jobs/jobs"] == pytest.approx(50, rel=0.3)
    assert medians["soak/jobs/p99"] > 0
    for who in ("scheduler", "redis"):
        assert medians[f"soak/{who}/memory"] > 1
        for when in ("at first", "at last"):
            assert medians[f"soak/{who}/memory {when}"] == pytest.approx(medians[f"soak/{who}/memory"], rel=0.5)
        assert f"soak/{who}/memory spread" in medians
        # Of seconds it would be thousands of MB an hour.
        assert f"soak/{who}/memory slope" not in medians
    assert any(note.startswith("The soak was too short to tell a slope of memory") for note in run.notes)


async def test_a_scheduler_that_stands_still_for_a_while_costs_time_but_no_utterance(tmp_path: Path) -> None:
    """In that time far more falls due than its sessions may have under way."""
    order = Order(jobs=3000, in_flight=1, audio_bytes=640, rate=600)
    async with (
        children.scheduler(tmp_path) as scheduler,
        children.load(Cast(port=scheduler.port, talkers=4, nodes=1, slots=256, takes_no=True)) as load,
        asyncio.TaskGroup() as tasks,
    ):
        soaked = tasks.create_task(load.carry_out(order))
        await until(lambda: served_by(scheduler.port), within_s=30, what="an utterance on its way")
        os.kill(scheduler.pids[0], signal.SIGSTOP)
        try:
            await asyncio.sleep(1.5)  # 900 utterances, of 256 that may be under way
        finally:
            os.kill(scheduler.pids[0], signal.SIGCONT)
        tally = await soaked
    assert (tally.jobs, tally.refusals) == (3000, {})
    assert tally.p99_ms > 1000


async def test_sessions_come_and_go_and_no_utterance_is_lost(tmp_path: Path) -> None:
    async with (
        children.scheduler(tmp_path) as scheduler,
        children.load(Cast(port=scheduler.port, talkers=4, nodes=1, slots=256, takes_no=True, life_s=0.4)) as load,
    ):
        tally = await load.carry_out(Order(jobs=150, in_flight=1, audio_bytes=640, rate=100))
    assert (tally.jobs, tally.refusals) == (150, {})
    assert tally.replaced > 3


async def test_utterances_without_a_result_are_counted_by_what_was_told(tmp_path: Path) -> None:
    async with (
        children.scheduler(tmp_path, LINGUA_DISPATCH_QUEUE_MAX="0") as scheduler,
        children.load(Cast(port=scheduler.port, talkers=4, nodes=1, slots=1, takes_no=True)) as load,
    ):
        tally = await load.carry_out(Order(jobs=400, in_flight=16, audio_bytes=640))
    refused = tally.refusals["job_failed ALL_CANDIDATES_FULL_OR_FAILED"]
    assert 0 < refused == 400 - tally.jobs


async def test_what_it_cannot_go_on_with_ends_a_soak_and_is_said(tmp_path: Path) -> None:
    samples = Samples()
    plan = Plan(jobs=100, sessions=4, nodes=1, rate=50.0, minutes=2)
    async with asyncio.timeout(90), asyncio.TaskGroup() as tasks:
        tasks.create_task(_evict_later(tmp_path / "scheduler.log"))
        await soak.measure(plan, samples, tmp_path, lambda _: None)
    figures = {figure.name: figure.median for figure in samples.figures()}
    assert figures["soak/jobs/errors"] == figures["soak/jobs/error: ended early"] == 1
    note, _ = samples.notes
    assert note.startswith("The soak ended before 1 min of 2 min were over: a ")
    # What was measured until then is there.
    assert figures["soak/scheduler/memory"] > 1


async def served_by(port: int) -> bool:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/metrics") as page:
        ended = re.search(r'lingua_jobs_ended_total{state="DONE"} ([0-9.]+)', await page.text())
        return ended is not None and float(ended[1]) > 0


async def _evict_later(log: Path) -> None:
    await until(lambda: log.exists() and '"scheduler.ready"' in log.read_text(), within_s=30)
    events = map(json.loads, log.read_text().splitlines())
    port = next(event["port"] for event in events if event["event"] == "scheduler.started")
    await until(lambda: served_by(port), within_s=30, what="an utterance on its way")
    await evict(port, "bench-plain-0")


async def test_a_soak_is_no_part_of_a_usual_run() -> None:
    assert set(scenarios.SCENARIOS) - set(scenarios.USUAL) == {"peers", "soak"}
