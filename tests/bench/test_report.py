"""A run is shown as tables, saved as JSON, and compared with an earlier one."""

import asyncio
import io
import json
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bench import children, report
from bench.figures import Figure, Run, figure_of


def cost(*samples: float, raw: float | None = None) -> Figure:
    return figure_of("life/small/scheduler CPU", "µs/job", list(samples), None if raw is None else [raw])


def run(*figures: Figure, **plan: object) -> Run:
    return Run(
        started_at="2026-01-01T00:00:00Z",
        took_s=1.0,
        slowdown=1.5,
        machine={"python": "3.11"},
        plan=plan,
        figures=list(figures),
        notes=["Other programs used [half] of a core."],
    )


def printed() -> Console:
    return Console(file=io.StringIO(), width=400, highlight=False)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_figure_is_shown_with_its_spread_and_as_measured() -> None:
    console = printed()
    report.show(run(cost(100, 120, raw=165)), console)
    assert "scheduler CPU  110 ±10 (165) µs/job" in text_of(console)
    assert "1.50 × as long" in text_of(console)
    assert "! Other programs used [half] of a core." in text_of(console)


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ((100, 102), (110, 112), True),
        ((100, 102), (90, 92), True),
        ((100, 102), (103, 105), False),  # within the floor
        ((100, 130), (120, 150), False),  # the samples overlap
        ((0, 0), (1, 1), True),
        ((0, 0), (0, 0), False),
    ],
)
def test_a_figure_has_moved_beyond_the_floor_and_beyond_all_samples(
    before: tuple[float, ...], after: tuple[float, ...], moved: bool
) -> None:
    assert report.has_moved(cost(*before), cost(*after)) is moved


def test_a_comparison_says_what_moved_and_in_what_the_runs_differ() -> None:
    console = printed()
    report.show_changes(run(cost(100, 102), jobs=100), run(cost(120, 122), jobs=200), console)
    told = text_of(console)
    assert "1 of 1 figures moved" in told
    assert "! jobs: 100 then, 200 now" in told
    assert "life/small/scheduler CPU: 101 ±1 → 121 ±1 µs/job, +20 %" in told


async def test_a_run_is_saved_where_one_says_and_printed_as_json(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench", "--scenario", "echo", "--jobs", "100", "--repeats", "1", "--sessions", "4",
        "--out", str(tmp_path / "out"), "--json", cwd=children.ROOT, env=dict(os.environ),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, told = await process.communicate()
    assert (process.returncode, told.decode().splitlines()[-1]) == (0, "bare echo: 32 KB")
    assert json.loads(out) == json.loads((tmp_path / "out" / "latest.json").read_bytes())
    assert any(figure["name"] == "echo/small/server CPU" for figure in json.loads(out)["figures"])


async def test_a_folder_that_cannot_be_written_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench", "--scenario", "echo", "--out", str(tmp_path / "file" / "results"),
        cwd=children.ROOT, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, told = await process.communicate()
    assert process.returncode == 2
    assert b"Not a directory" in told
    assert b"bare echo" not in told
