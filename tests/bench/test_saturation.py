"""More work than a fleet can do: what is refused, what is served, and when it is over."""

import asyncio
from pathlib import Path

import pytest

from bench import children, saturation, scenarios
from bench.figures import Samples
from bench.measure import Track
from bench.orders import Fleet, Pressed, Pressure, Said
from bench.plan import Plan
from bench.pressing import BusyNode, Crowd
from tests.bench.evicting import evict

TINY = Plan(rounds=1, nodes=2, phase_s=1)


def said(*utterances: tuple[float, float] | tuple[float, float, str]) -> list[Said]:
    """Each is when it was due, how long it took, and why it was refused."""
    return [Said(due, due + took, *(why or [""])) for due, took, *why in utterances]


def test_served_is_what_got_a_result_within_the_time() -> None:
    spoken = said((0, 0.5), (0, 1.5), (1, 0.5), (1, 0.5, "job_failed"), (1, 5))
    assert saturation.served_per_s(spoken, 1, 3) == 1.0


NORMAL, LATE, REFUSED = (0.1,), (0.9,), (0.1, "job_failed")


@pytest.mark.parametrize(
    ("by_second", "recovered_s", "disturbed"),
    [
        ([NORMAL] * 4, 0, 0),
        ([LATE, NORMAL, NORMAL, NORMAL], 1, 0),
        ([NORMAL, NORMAL, LATE, NORMAL, NORMAL, NORMAL], 3, 0),  # it was not over yet
        ([REFUSED, NORMAL, NORMAL, NORMAL], 1, 0),  # to be refused is not normal
        ([NORMAL, NORMAL, NORMAL, LATE, NORMAL], 0, 20),  # what disturbs later is told apart
        ([NORMAL, NORMAL, LATE, NORMAL, NORMAL], None, 0),
    ],
)
def test_things_are_normal_again_when_they_stay_so_for_a_while(
    by_second: list[tuple[float] | tuple[float, str]], recovered_s: float | None, disturbed: float
) -> None:
    spoken = said(*((10.1 + i, *how) for i, how in enumerate(by_second)))
    # What was due before or after is no part of it.
    spoken += said((9.9, 9.9), (10 + len(by_second), 9.9))
    assert saturation.recovered_after_s(spoken, 10, 10 + len(by_second), 150) == (recovered_s, disturbed)


def test_one_bad_second_before_does_not_make_a_slow_one_after_normal() -> None:
    assert saturation.usual_p99_ms(said((0, 0.1), (1, 5), (2, 0.12), (3, 9)), 3) == pytest.approx(120)


def test_a_report_says_how_much_was_refused_and_how_soon() -> None:
    spent = Track(lambda: 0.0, 1.0)
    spent.points = [(0.0, 0.0), (8.0, 4.0)]
    spoken = said((0.5, 0.1), (1.5, 0.8), (1.5, 0.2, "job_failed"), (2.2, 0.4, "job_failed"), (2.5, 0.6, "job_failed"))
    spoken += said((3.5, 0.9), *((4.5 + i, 0.1) for i in range(4)))
    samples = Samples()
    saturation._report(samples, saturation.Course(Pressed(said=spoken), spent, spent, 1.0, 1.0, 3.0, 8.0), capacity=1)
    figures = {figure.name: figure.median for figure in samples.figures()}
    assert figures["saturation/2 × load/refused"] == figures["saturation/2 × load/refused: job_failed"] == 75
    assert figures["saturation/2 × load/refused after, p50"] == pytest.approx(400)
    assert figures["saturation/2 × load/p99"] == pytest.approx(800)
    assert figures["saturation/half load after/normal again"] == 1
    assert "saturation/half load after/refused after, p50" not in figures
    assert not samples.notes


async def test_every_figure_of_saturation_is_there() -> None:
    run = await scenarios.run(["saturation"], TINY, lambda _: None)
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
    assert medians["saturation/half load/p50"] > 80 * 0.9
    assert medians["saturation/2 × load/p99"] > medians["saturation/half load/p50"]
    assert medians["saturation/half load/refused"] == 0
    assert medians["saturation/half load after/normal again"] >= 0
    assert medians["saturation/half load after/not normal later"] >= 0


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


@pytest.mark.expects_surprise("loop.failed")
async def test_a_node_that_gets_more_jobs_than_it_has_slots_says_so() -> None:
    crowd = Crowd(fleet(0))
    node = BusyNode(0, fleet(0), crowd)
    for number in range(3):
        assert crowd.failure == "", number
        node.take(b'"job_id":"job-0-1"')
    assert crowd.failure == "a node with 2 slots got 3 jobs at once"
