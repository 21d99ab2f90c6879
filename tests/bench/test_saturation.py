"""More work than a fleet can do: what is refused, what is served, and when it is over."""

import asyncio
from pathlib import Path

import pytest

from lingua_scheduler.bench import children, saturation, scenarios
from lingua_scheduler.bench.orders import Fleet, Pressure, Said
from lingua_scheduler.bench.plan import Plan
from lingua_scheduler.bench.pressing import BusyNode, Crowd
from tests.bench.evicting import evict

TINY = Plan(rounds=1, nodes=2, phase_s=0.8)


def said(*utterances: tuple[float, float] | tuple[float, float, str]) -> list[Said]:
    """Each is when it was due, how long it took, and why it was refused."""
    return [Said(due, due + took, *(why or [""])) for due, took, *why in utterances]


def test_served_is_what_got_a_result_within_the_time() -> None:
    spoken = said((0, 0.5), (0, 1.5), (1, 0.5), (1, 0.5, "job_failed"), (1, 5))
    assert saturation.served_per_s(spoken, 1, 3) == 1.0


@pytest.mark.parametrize(
    ("spoken", "recovered_s"),
    [
        (said((10.1, 0.1), (10.6, 0.1), (11.1, 0.1)), 0),
        (said((10.1, 0.9), (10.6, 0.1), (11.1, 0.1)), 0.5),
        (said((10.1, 0.1), (10.6, 0.9), (11.1, 0.1)), 1.0),  # a relapse counts
        (said((10.1, 0.1), (10.6, 0.1, "job_failed"), (11.1, 0.1)), 1.0),  # to be refused is not normal
        (said((10.1, 0.1), (10.6, 0.1), (11.1, 0.9)), None),
        (said((9.9, 9.9), (10.1, 0.1), (12, 9.9)), 0),  # what was due before or after is no part of it
        ([], 0),
    ],
)
def test_things_are_normal_again_when_they_stay_so(spoken: list[Said], recovered_s: float | None) -> None:
    assert saturation.recovered_after_s(spoken, 10, 11.5, 150) == recovered_s


async def test_every_figure_of_saturation_is_there() -> None:
    told: list[str] = []
    run = await scenarios.run(["saturation"], TINY, told.append)
    assert len(told) == scenarios.total_steps(["saturation"], TINY)
    medians = {figure.name: figure.median for figure in run.figures}
    capacity = medians["saturation/capacity/served"]
    # Two nodes with four slots and 100 ms for a job cannot do more, but for what a busy machine settles in a rush.
    assert 0 < capacity < 80 * 1.5
    assert medians["saturation/2 × load/asked"] == pytest.approx(2 * capacity, rel=0.1)
    assert medians["saturation/half load after/asked"] == pytest.approx(capacity / 2, rel=0.1)
    assert 0 < medians["saturation/2 × load/served"] < 80 * 1.5
    share = medians["saturation/2 × load/served"] / capacity * 100
    assert medians["saturation/2 × load/served of capacity"] == pytest.approx(share, rel=0.01)
    for phase in ("half load", "2 × load", "half load after"):
        for metric in ("p50", "p99", "scheduler CPU", "redis CPU"):
            assert medians[f"saturation/{phase}/{metric}"] > 0, (phase, metric)
        assert medians[f"saturation/{phase}/refused"] == 0
    assert medians["saturation/half load/p50"] > 80 * 0.9
    assert medians["saturation/2 × load/p99"] > medians["saturation/half load/p50"]
    assert medians["saturation/half load after/normal again"] >= 0
    assert {curve.label for curve in run.curves} == {"p50", "p99", "asked", "served", "refused"}


def fleet(port: int) -> Fleet:
    return Fleet(port=port, talkers=20, nodes=1, slots=2, job_ms=50)


async def test_what_is_refused_is_counted_with_its_reason(tmp_path: Path) -> None:
    async with (
        children.scheduler(tmp_path, LINGUA_DISPATCH_QUEUE_MAX="3") as scheduler,
        children.pressure(fleet(scheduler.port)) as crowd,
    ):
        pressed = await crowd.carry_out(Pressure(phases=[(200, 1)]))
    assert len(pressed.said) == 200
    reasons = {one.refusal for one in pressed.said}
    assert reasons == {"", "job_failed ALL_CANDIDATES_FULL_OR_FAILED"}
    served = sum(not one.refusal for one in pressed.said)
    took_s = max(one.settled_s for one in pressed.said)
    assert 10 < served < 80 * took_s  # 40 a second, a bit more at the end


async def test_a_node_that_is_lost_under_pressure_is_said(tmp_path: Path) -> None:
    async with (
        children.scheduler(tmp_path, LINGUA_SERVER_STOP_TIMEOUT_MS="0") as scheduler,
        children.pressure(fleet(scheduler.port)) as crowd,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(evict(scheduler.port, "bench-0"))
        with pytest.raises(children.BenchFailed, match=r"a node was (disconnected|told)"):
            await crowd.carry_out(Pressure(phases=[(50, 10)]))


async def test_a_node_that_gets_more_jobs_than_it_has_slots_says_so() -> None:
    crowd = Crowd(fleet(0))
    node = BusyNode(0, fleet(0), crowd)
    for number in range(3):
        assert crowd.failure == "", number
        node.take(b'"job_id":"job-0-1"')
    assert crowd.failure == "a node with 2 slots got 3 jobs at once"
