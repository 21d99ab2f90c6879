"""Other job queues are measured with real workers and clients where they are installed, and skipped with a reason."""

import os
import sys
from pathlib import Path

import pytest

from bench import children, scenarios
from bench.children import BenchFailed
from bench.figures import Samples
from bench.orders import Order
from bench.plan import Plan
from bench.queues import catalog, scenario
from bench.queues.catalog import QUEUES, Catalog, Found, JobQueue, NotFound

TINY = Plan(repeats=1, jobs=100, sessions=4, nodes=2)
# A Python that claims to have dramatiq, and cannot run it.
PRETENDER = """#!/bin/sh
if [ "$2" = -c ]; then echo '{"dramatiq": "9.9", "hiredis": "1", "uvloop": "1", "redis": "8.8"}'; exit; fi
echo 'no module named anything' >&2
exit 1
"""


async def found_here(queue: JobQueue) -> Found:
    """Skips where it would have to be fetched first: tests do not reach for the network."""
    if not queue.is_python and not (catalog.NPM_CACHE / "installed.json").exists():
        pytest.skip("BullMQ is not installed; make bench-peers installs it")
    try:
        return await Catalog().find(queue)
    except NotFound as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.name)
async def test_a_queue_does_every_job_and_leaves_no_process(queue: JobQueue, tmp_path: Path) -> None:
    found = await found_here(queue)
    async with scenario._theirs(found, 150, tmp_path) as stage:
        order = Order(jobs=stage.jobs, in_flight=20, audio_bytes=0)
        # The second order only counts right if the first left nothing under way.
        tallies = [await stage.load.carry_out(order), await stage.load.carry_out(order)]
    assert [tally.jobs for tally in tallies] == [150, 150]
    assert all(tally.cpu_s > 0 and tally.took_s > 0 for tally in tallies)
    for pid in (stage.load.pid, *stage.pids.values()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_run_has_figures_versions_and_ratios_of_all_that_is_installed() -> None:
    for queue in QUEUES:
        await found_here(queue)
    run = await scenarios.run(["peers"], TINY, lambda _: None)
    medians = {figure.name: figure.median for figure in run.figures}
    for queue in QUEUES:
        for metric in ("client CPU", "worker CPU", "redis CPU", "all CPU", "jobs"):
            assert medians[f"peers/{queue.name}/{metric}"] > 0, (queue.name, metric)
    for metric in ("scheduler CPU", "load CPU", "redis CPU", "all CPU", "jobs"):
        for name in (scenario.OURS, scenario.OURS_APART):
            assert medians[f"peers/{name}/{metric}"] > 0
    assert {scenario.BEST_PEER, scenario.BEST_PYTHON_PEER} <= medians.keys()
    assert {note.split(":")[0].partition(" ")[0] for note in run.notes} >= {
        queue.name.split(",")[0] for queue in QUEUES
    }


async def test_what_cannot_be_had_or_does_not_run_is_told_and_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / ".venv-peers" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PRETENDER)
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    run = await scenarios.run(["peers"], TINY, lambda _: None)
    assert "BullMQ was skipped: node and npm are not installed." in run.notes
    assert any(note.startswith("Celery was skipped: ") and "make bench-peers" in note for note in run.notes)
    assert any(note.startswith("dramatiq 9.9, redis-py 8.8: ") for note in run.notes)
    (given_up,) = [note for note in run.notes if note.startswith("dramatiq was given up")]
    assert "no module named anything" in given_up
    assert {figure.name.split("/")[1] for figure in run.figures} == {scenario.OURS, scenario.OURS_APART}


async def test_npm_that_fails_is_a_reason_to_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for program, does in (("node", "exit 0"), ("npm", "echo 'npm error code ENOTFOUND'; exit 1")):
        (tmp_path / program).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="npm could not install it: code ENOTFOUND"):
        await Catalog().find(QUEUES[0])


async def test_a_worker_ends_although_its_client_never_came(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    script = f"import os, pathlib, time; pathlib.Path({str(marker)!r}).write_text(str(os.getpid())); time.sleep(30)"
    leaves = (
        f"import os\nwhile not os.path.exists({str(marker)!r}) or not os.path.getsize({str(marker)!r}): pass\nexit(3)"
    )
    with pytest.raises(BenchFailed, match="ended with code 3"):
        async with children.queue(
            (sys.executable, "-c", script),
            (sys.executable, "-c", leaves),
            tmp_path / "log",
        ):
            pass
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)


def test_ours_is_compared_with_the_cheapest_round_by_round() -> None:
    samples = Samples()
    cpu_us = {scenario.OURS: [100.0, 90.0], "BullMQ": [200.0, 100.0], "dramatiq": [400.0, 300.0]}
    cpu_us |= {"Celery": [900.0, 800.0], scenario.OURS_APART: [200.0, 120.0]}
    spent = {name: [scenario.Spent(us, 2 * us) for us in all_us] for name, all_us in cpu_us.items()}
    scenario._compare([queue for queue in QUEUES if queue.name in spent], spent, samples)
    ratios = {figure.name: (figure.samples, figure.raw_median) for figure in samples.figures()}
    assert ratios == {
        scenario.BEST_PEER: ([0.5, 0.9], 0.7),
        "peers/ours, fewer under way ÷ best peer/all CPU": ([1.0, 1.2], 1.1),
        scenario.BEST_PYTHON_PEER: ([0.25, 0.3], 0.275),
        "peers/ours, fewer under way ÷ best Python peer/all CPU": ([0.5, 0.4], 0.45),
    }
    assert list(samples.notes) == ["The best peer was BullMQ.", "The best Python peer was dramatiq."]
