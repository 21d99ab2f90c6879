"""Idle sessions: all of them stay, what they take is measured, and a limit of the machine is said."""

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from lingua_scheduler.bench import children, scenarios
from lingua_scheduler.bench.orders import Cast, Gathering
from lingua_scheduler.bench.plan import Plan

TINY = Plan(rounds=1, silent=60, phase_s=0.3)

FEW_FILES = 230
WITH_FEW_FILES = f"""
import asyncio, resource, tempfile
from pathlib import Path
from lingua_scheduler.bench import idle
from lingua_scheduler.bench.figures import Samples
from lingua_scheduler.bench.plan import Plan
samples = Samples()
resource.setrlimit(resource.RLIMIT_NOFILE, (100, {FEW_FILES}))
with tempfile.TemporaryDirectory() as folder:
    asyncio.run(idle.measure(Plan(rounds=1, silent=500, phase_s=0.1), samples, Path(folder), lambda step: None))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
print(*samples.notes, sep="\\n")
print(*(figure.median for figure in samples.figures() if figure.name == "idle/all together/sessions"))
"""


async def test_every_figure_of_idle_sessions_is_there() -> None:
    told: list[str] = []
    run = await scenarios.run(["idle"], TINY, told.append)
    assert len(told) == scenarios.total_steps(["idle"], TINY)
    medians = {figure.name: figure.median for figure in run.figures}
    assert medians["idle/all together/sessions"] == 60
    assert medians["idle/all together/scheduler CPU"] > 0
    assert medians["idle/all together/scheduler memory"] > 10
    assert 0.1 < medians["idle/a session/redis memory"] < 20
    assert {"idle/a session/scheduler memory", "idle/a session/scheduler memory before gc"} <= medians.keys()
    (curve,) = run.curves
    assert [x for x, _ in curve.points] == sorted(x for x, _ in curve.points)
    assert curve.points[-1][0] == 60


async def test_a_session_that_is_lost_is_said(tmp_path: Path) -> None:
    async with (
        children.scheduler(tmp_path) as scheduler,
        children.silent_crowd(Cast(port=scheduler.port, talkers=5)) as crowd,
    ):
        assert (await crowd.carry_out(Gathering(sessions=5))).connected == 5
        os.kill(scheduler.pids[0], signal.SIGKILL)
        with pytest.raises(children.BenchFailed, match=r"disconnected|refused|Connect"):
            await crowd.carry_out(Gathering(sessions=1))


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < FEW_FILES, reason="even fewer files are allowed")
async def test_fewer_sessions_than_asked_for_are_said_when_files_are_scarce() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WITH_FEW_FILES, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    limit, note, sessions = said.decode().splitlines()
    assert int(limit) == FEW_FILES
    assert note.startswith("Only 30 of 500 idle sessions")
    assert float(sessions) == 30
