"""What we aim at: what a run reached, what it did not, and what it did not measure."""

import json
import shlex
from pathlib import Path

import msgspec
import pytest

from lingua_scheduler.bench import report, scenarios
from lingua_scheduler.bench.figures import Run, figure_of
from lingua_scheduler.bench.queues.scenario import BEST_PEER
from lingua_scheduler.bench.tables import number, tables_of
from lingua_scheduler.bench.targets import TARGETS, Outcome, Standing, Target, standings
from lingua_scheduler.cli import bench as command
from tests.bench.runs import cost, run


def measured(of: Run) -> list[Standing]:
    return [standing for standing in standings(of) if standing.outcome is not Outcome.UNKNOWN]


def test_targets_are_held_against_figures_and_ratios() -> None:
    redis = figure_of("life/small/redis CPU", "µs/job", [60], [90])
    limit = figure_of("redis/both: a job/redis CPU", "µs/call", [40], [45])
    found = measured(run(cost(80), redis, limit))
    assert [(standing.value, standing.as_measured, standing.outcome) for standing in found] == [
        (80, None, Outcome.REACHED),
        (60, 90, Outcome.MISSED),
        (1.5, 2, Outcome.MISSED),
    ]
    assert [standing.value for standing in measured(run(redis))] == [60]
    assert measured(run(limit)) == []


@pytest.mark.parametrize(
    ("scaled", "raw", "outcome"),
    [
        (32.3, 34.0, "reached"),
        (32.3, 52.7, "reached, scaled"),
        (36.0, 52.7, "not reached"),
        (36.0, 33.0, "not reached, scaled"),
    ],
)
def test_cpu_is_judged_scaled_and_it_is_said_where_it_would_be_otherwise_as_measured(
    scaled: float, raw: float, outcome: str
) -> None:
    of = run(figure_of("life/small/redis CPU", "µs/job", [scaled], [raw]))
    table = tables_of(of)[-1]
    assert table.rows[0][-1] == outcome
    assert table.rows[0][2] == f"{number(raw)} µs"
    assert ("“Scaled”: on the reference machine; as measured here it would be the other way round." in table.about) is (
        "scaled" in outcome
    )
    assert json.loads(report.encode(of))["targets"][0]["outcome"] == outcome


@pytest.mark.parametrize(
    ("ours", "ours_raw", "outcome"),
    [(47.6, 58, "reached"), (47.6, 73, "unclear"), (60, 50, "unclear"), (60, 80, "not reached")],
)
def test_a_ratio_whose_scaled_and_measured_values_disagree_about_the_limit_is_unclear(
    ours: float, ours_raw: float, outcome: str
) -> None:
    limit = figure_of("redis/both: a job/redis CPU", "µs/call", [40], [45])
    of = run(figure_of("life/small/redis CPU", "µs/job", [ours], [ours_raw]), limit)
    table = tables_of(of)[-1]
    assert table.rows[1][-1] == outcome
    assert ("“Unclear”: " in table.about) is (outcome == "unclear")
    assert json.loads(report.encode(of))["targets"][1]["outcome"] == outcome


def test_a_target_says_nothing_of_a_run_that_measured_something_else() -> None:
    assert measured(run(cost(80), rate=200.0)) == []
    latency = figure_of("speakers/JSON/final to job_assign p99", "ms", [4])
    assert measured(run(latency, speakers=200)) == []
    assert [standing.value for standing in measured(run(latency, speakers=2_000))] == [4]
    ratio = figure_of(BEST_PEER, "×", [0.6])  # with few jobs V8 has not compiled BullMQ
    assert measured(run(ratio, jobs=1_500)) == []
    assert [standing.limit for standing in measured(run(ratio, jobs=5_000))] == [0.8, 0.5]
    memory = figure_of("idle/a session/scheduler memory", "KB", [23])
    assert measured(run(memory, silent=1_000)) == []
    assert [standing.value for standing in measured(run(memory, silent=10_000))] == [23]
    recovery = figure_of("saturation/half load after/normal again", "s", [5])  # all that was watched: it may be more
    assert measured(run(recovery, phase_s=1.0)) == []
    assert [standing.value for standing in measured(run(recovery, phase_s=10.0))] == [5]
    errors = figure_of("soak/jobs/errors", "in all", [0])
    assert measured(run(errors, minutes=5.0)) == measured(run(errors, minutes=30.0, rate=100.0)) == []
    assert [standing.value for standing in measured(run(errors, minutes=30.0))] == [0]


def test_a_target_may_be_something_to_reach() -> None:
    served = "saturation/2 × load/served of capacity"
    found = [measured(run(figure_of(served, "% of capacity", [value])))[0] for value in (94, 95, 99)]
    assert [standing.outcome for standing in found] == [Outcome.MISSED, Outcome.REACHED, Outcome.REACHED]
    table = tables_of(run(figure_of(served, "% of capacity", [94])))[-1]
    assert table.rows[0] == ["served at 2 × load, of capacity", "94 %", "–", "≥ 95 %", "not reached"]


def test_what_was_not_measured_comes_last_with_the_command_that_measures_it(tmp_path: Path) -> None:
    of = run(figure_of("idle/a session/scheduler memory", "KB", [23]))
    table = tables_of(of)[-1]
    assert len(table.rows) == len(TARGETS)
    assert table.rows[0] == ["scheduler memory per idle session of 10 000", "23 KB", "–", "≤ 30 KB", "reached"]
    assert {row[1] for row in table.rows[1:]} == {"not measured"}
    far = "wait for a dispatch, 100 000 ÷ 1 000 nodes"
    row = [far, "not measured", "–", "≤ 2 ×", "`lingua bench --scenario fleet --full`"]
    assert row in table.rows
    page = report.write(of, tmp_path)
    assert f"| {' | '.join(row)} |" in page.read_text("utf-8")
    saved = {target["about"]: target for target in json.loads((tmp_path / "latest.json").read_bytes())["targets"]}
    assert len(saved) == len(TARGETS)
    assert (saved[far]["outcome"], saved[far]["value"]) == ("not measured", None)
    assert saved[far]["command"] == "lingua bench --scenario fleet --full"


def test_a_median_that_reaches_a_target_is_shown_with_its_spread() -> None:
    latency = figure_of("speakers/JSON/final to job_assign p99", "ms", [7, 7.2, 143])
    assert tables_of(run(latency, speakers=2_000))[-1].rows[0][1:] == ["7.2 ±68 ms", "–", "≤ 10 ms", "reached"]


def test_a_run_without_any_target_has_the_table_too() -> None:
    assert len(tables_of(run())[-1].rows) == len(TARGETS)


def test_every_scenario_that_has_a_target_is_in_the_table() -> None:
    named = {target.figure.split("/")[0] for target in TARGETS}
    assert named == {"life", "speakers", "fleet", "idle", "instances", "saturation", "soak", "peers"}
    assert len({target.about for target in TARGETS}) == len(TARGETS)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.about)
def test_the_command_of_a_target_measures_it(target: Target) -> None:
    program, name, *arguments = shlex.split(target.command)
    assert (program, name) == ("lingua", "bench")
    given = command.bench.make_context("bench", arguments).params
    assert {target.figure.split("/")[0]} <= set(given["names"]) <= scenarios.SCENARIOS.keys()
    numbers = ("sessions", "repeats", "jobs", "in_flight", "nodes", "workers", "rate", "minutes")
    plan = command._plan(given["quick"], given["full"], {number: given[number] for number in numbers})
    assert target.only_if(msgspec.to_builtins(plan))
    assert "100 000 nodes" not in target.figure or 100_000 in plan.fleets


def test_a_job_by_way_of_another_instance_is_held_against_its_target_by_size_and_by_whose_cpu_it_is() -> None:
    costs = {"small, other ÷ same/scheduler": 2.1, "small, other ÷ same/redis": 2.6, "32 KB, other ÷ same/redis": 5.4}
    found = measured(run(*(figure_of(f"instances/{name} CPU", "×", [x], [x + 1]) for name, x in costs.items())))
    assert [(standing.about.split(",")[0], standing.outcome, standing.as_measured) for standing in found] == [
        ("scheduler CPU per small job", Outcome.UNCLEAR, 3.1),
        ("Redis CPU per small job", Outcome.MISSED, 3.6),
        ("Redis CPU per 32 KB job", Outcome.MISSED, 6.4),
    ]


def test_whoever_misses_a_target_is_told_where_to_read_why() -> None:
    assert "docs/performance.md" in tables_of(run(cost(100)))[-1].about
    assert tables_of(run(cost(10)))[-1].about == ""
