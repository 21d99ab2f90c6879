"""What counts as a change between two runs."""

import msgspec
import pytest

from lingua_scheduler.bench.comparison import Verdict, change_of, compare, differing_plans
from lingua_scheduler.bench.figures import Figure, Run, Samples, figure_of
from lingua_scheduler.bench.tables import number, table_of_changes, tables_of
from lingua_scheduler.bench.targets import standings


def cost(*samples: float) -> Figure:
    return figure_of("life/small/scheduler CPU", "µs/job", list(samples))


def speed(*samples: float) -> Figure:
    return figure_of("life/small/jobs", "1/s", list(samples))


def run(*figures: Figure, slowdown: float = 1.0, jobs: int = 100, **plan: float) -> Run:
    return Run(
        started_at="2026-01-01T00:00:00Z",
        took_s=1.0,
        slowdown=slowdown,
        machine={},
        plan={"jobs": jobs, **plan},
        figures=list(figures),
        notes=[],
    )


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (cost(100, 101, 102), cost(89, 90, 91), Verdict.BETTER),
        (cost(89, 90, 91), cost(100, 101, 102), Verdict.WORSE),
        (cost(80, 100, 120), cost(70, 90, 110), Verdict.NOISE),  # steadier runs would have to tell
        (cost(100, 100, 100), cost(102, 102, 102), Verdict.NOISE),  # runs differ by this much anyway
        (cost(100), cost(104), Verdict.WORSE),
        (speed(1000, 1010), speed(2000, 2010), Verdict.BETTER),
        (speed(2000, 2010), speed(1000, 1010), Verdict.WORSE),
        (cost(0, 0, 0), cost(0, 0, 0), Verdict.NOISE),
    ],
)
def test_a_change_is_what_exceeds_the_pooled_spread(before: Figure, after: Figure, verdict: Verdict) -> None:
    assert change_of(before, after).verdict is verdict


def test_a_slower_machine_excuses_the_clock_on_the_wall_but_not_cpu_time() -> None:
    before = run(cost(100, 101), speed(1000, 1001), slowdown=1.0)
    after = run(cost(130, 131), speed(800, 801), slowdown=1.3)
    assert [change.verdict for change in compare(before, after)] == [Verdict.WORSE, Verdict.NOISE]


def test_only_figures_of_both_runs_are_compared() -> None:
    changes = compare(run(cost(100)), run(speed(10), cost(50)))
    assert [(change.name, change.percent) for change in changes] == [("life/small/scheduler CPU", -50)]


def test_the_table_of_changes_leaves_noise_out_and_puts_what_is_worse_first() -> None:
    before = run(cost(100), speed(100), figure_of("life/small/p50", "ms", [10]))
    after = run(cost(50), speed(100), figure_of("life/small/p50", "ms", [20]))
    table = table_of_changes(compare(before, after))
    assert [row[0] for row in table.rows] == ["life/small/p50", "life/small/scheduler CPU"]
    assert table.rows[1][1:] == ["100 µs/job", "50 µs/job", "-50 %", "better"]


def test_differing_plans_are_named() -> None:
    assert differing_plans(run(jobs=10), run(jobs=20)) == ["jobs: 10 then, 20 now"]
    assert differing_plans(run(), run()) == []


def test_cpu_time_is_scaled_and_kept_as_measured() -> None:
    samples = Samples()
    samples.add_cpu("life/small/redis CPU", "µs/job", 60.0, 2.0)
    samples.add_cpu("life/small/redis CPU", "µs/job", 80.0, 1.0)
    (figure,) = samples.figures()
    assert (figure.samples, figure.median, figure.raw_median, figure.spread) == ([30, 80], 55, 70, 50)


def test_targets_are_held_against_figures_and_ratios() -> None:
    redis = figure_of("life/small/redis CPU", "µs/job", [60])
    limit = figure_of("redis/both: a job/redis CPU", "µs/call", [40])
    found = standings(run(cost(80), redis, limit))
    assert [(standing.value, standing.is_reached) for standing in found] == [(80, True), (60, False), (1.5, False)]
    assert [standing.value for standing in standings(run(redis))] == [60]
    assert standings(run(limit)) == []


def test_a_target_says_nothing_of_a_run_that_measured_something_else() -> None:
    assert standings(run(cost(80), rate=200.0)) == []
    latency = figure_of("speakers/JSON/final to job_assign p99", "ms", [4])
    assert standings(run(latency, speakers=200)) == []
    assert [standing.value for standing in standings(run(latency, speakers=2_000))] == [4]


def test_a_target_may_be_something_to_reach() -> None:
    served = "saturation/2 × load/served of capacity"
    found = [standings(run(figure_of(served, "% of capacity", [value])))[0] for value in (94, 95, 99)]
    assert [standing.is_reached for standing in found] == [False, True, True]
    table = tables_of(run(figure_of(served, "% of capacity", [94])), with_raw=False)[-1]
    assert table.rows == [["served at 2 × load, of capacity", "94 %", "≥ 95 %", "not reached"]]


def test_to_serve_more_is_better_and_to_need_longer_is_worse() -> None:
    served, recovery = "saturation/2 × load/served of capacity", "saturation/half load after/normal again"
    before = run(figure_of(served, "% of capacity", [80]), figure_of(recovery, "s", [5]))
    after = run(figure_of(served, "% of capacity", [95]), figure_of(recovery, "s", [9]))
    assert [change.verdict for change in compare(before, after)] == [Verdict.BETTER, Verdict.WORSE]


def test_a_setting_that_a_former_release_did_not_know_is_no_doubt() -> None:
    before = msgspec.structs.replace(run(), plan={"jobs": 100})
    assert differing_plans(before, msgspec.structs.replace(run(), plan={"jobs": 100, "speakers": 200})) == []


def test_a_scenario_becomes_one_table() -> None:
    tables = tables_of(run(cost(90, 100, 110), speed(1234)), with_raw=False)
    assert [table.title for table in tables] == ["The life of a job", "Targets"]
    assert tables[0].rows == [["scheduler CPU, µs/job", "100 ±10"], ["jobs, 1/s", "1 234"]]


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.01234, "0.0123"), (12.34, "12.3"), (1234567, "1 234 567")])
def test_numbers_have_three_digits_that_mean_something(value: float, text: str) -> None:
    assert number(value) == text
