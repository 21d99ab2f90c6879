"""Those who watch in a benchmark: what they are sent is counted, and whoever is refused or lost is said."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from lingua_scheduler.bench import children, scenarios
from lingua_scheduler.bench.children import BenchFailed, LoadChild
from lingua_scheduler.bench.orders import Asking, Following, Heard, Recount
from lingua_scheduler.bench.plan import Plan
from tests.support.waiting import until

TINY = Plan(repeats=1, jobs=500, sessions=4, nodes=2, phase_s=1.5)
STATS, METRICS, DASHBOARDS = "stats, 1 000 a second", "metrics, 20 a second", "dashboards, 50 of them"


async def test_every_figure_of_those_who_watch_is_there() -> None:
    told: list[str] = []
    run = await scenarios.run(["watched"], TINY, told.append)
    assert len(told) == scenarios.total_steps(["watched"], TINY)
    medians = {figure.name: figure.median for figure in run.figures}
    for variant in ("alone", STATS, METRICS, DASHBOARDS):
        for metric in ("p50", "p99", "redis commands"):
            assert medians[f"watched/{variant}/{metric}"] > 0, (variant, metric)
    for variant in (STATS, METRICS, DASHBOARDS):
        assert medians[f"watched/{variant}/failures"] == 0
        for metric in ("p50", "p99", "redis commands"):
            assert medians[f"watched/{variant}/{metric} ÷ alone"] > 0, (variant, metric)
    # A slow machine gives fewer answers, or some of them later.
    assert 0 < medians[f"watched/{STATS}/answers"] < 2_000
    assert 0 < medians[f"watched/{METRICS}/answers"] < 40
    assert medians[f"watched/{DASHBOARDS}/messages"] > 0
    assert 0 < medians[f"watched/{STATS}/scheduler CPU"] < medians[f"watched/{METRICS}/scheduler CPU"]
    assert f"watched/{DASHBOARDS}/scheduler CPU" in medians
    assert not [note for note in run.notes if "watched" in note]


async def since(child: LoadChild[Heard], total: list[Heard]) -> list[Heard]:
    total.append(await child.carry_out(Recount()))
    return total


async def heard(child: LoadChild[Heard], total: list[Heard], answers: int) -> bool:
    return sum(one.answers for one in await since(child, total)) >= answers


async def failed(child: LoadChild[Heard], total: list[Heard], failures: int) -> bool:
    return sum(one.failures for one in await since(child, total)) >= failures


async def test_questions_come_at_the_pace_that_was_asked_for(tmp_path: Path) -> None:
    total: list[Heard] = []
    async with (
        children.scheduler(tmp_path) as scheduler,
        children.asker(Asking(port=scheduler.port, path="/health", rate=200)) as asker,
    ):
        await until(partial(heard, asker, total, 100), 20)
    took_s = sum(one.took_s for one in total)
    assert 100 <= sum(one.answers for one in total) <= 200 * took_s + 1
    assert sum(one.failures for one in total) == 0
    assert max(one.p99_ms for one in total if one.p99_ms is not None) > 0


async def test_an_answer_other_than_200_is_a_failure(tmp_path: Path) -> None:
    total: list[Heard] = []
    async with (
        children.scheduler(tmp_path) as scheduler,
        children.asker(Asking(port=scheduler.port, path="/nowhere", rate=500)) as asker,
    ):
        await until(partial(heard, asker, total, 20), 20)
    assert sum(one.failures for one in total) == sum(one.answers for one in total)


async def test_every_dashboard_hears_every_change_and_one_that_is_lost_is_counted(tmp_path: Path) -> None:
    total: list[Heard] = []
    async with (
        children.scheduler(tmp_path, LINGUA_WATCH_WATCHED_INTERVAL_MS="100") as scheduler,
        children.dashboards(Following(port=scheduler.port, dashboards=7)) as dashboards,
    ):
        await until(partial(heard, dashboards, total, 7 * 5), 20)
        assert sum(one.failures for one in total) == 0
        # Ten a second, and what may have been on its way to those who were there first.
        assert sum(one.answers for one in total) <= 7 * (10 * sum(one.took_s for one in total) + 10)
        os.kill(scheduler.pids[0], signal.SIGKILL)
        await until(partial(failed, dashboards, total, 7), 20)
    assert sum(one.failures for one in total) == 7


async def test_a_dashboard_that_is_refused_is_said(tmp_path: Path) -> None:
    async with children.scheduler(tmp_path, LINGUA_WATCH_MAX_WATCHERS="2") as scheduler:
        with pytest.raises(BenchFailed, match=r"a dashboard was refused: HTTP/1\.1 503"):
            async with children.dashboards(Following(port=scheduler.port, dashboards=3)):
                pass
