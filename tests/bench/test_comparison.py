"""What counts as a change between two runs."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lingua_scheduler.bench import figures, report
from lingua_scheduler.bench.comparison import Change, Verdict, compare, differences, verdict_of
from lingua_scheduler.bench.figures import Figure, Samples, figure_of
from lingua_scheduler.bench.tables import table_of_changes
from tests.bench.runs import cost, run, speed

FIVE = (98, 99, 100, 101, 102)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (cost(*FIVE), cost(88, 89, 90, 91, 92), Verdict.BETTER),
        (cost(88, 89, 90, 91, 92), cost(*FIVE), Verdict.WORSE),
        (cost(80, 99, 100, 101, 102), cost(88, 89, 90, 91, 92), Verdict.NOISE),  # one sample was as good before
        (cost(*FIVE), cost(88, 89, 90, 91, 120), Verdict.NOISE),  # and one is as bad now
        (
            cost(100, 100, 100, 100, 100),
            cost(102, 102, 102, 102, 102),
            Verdict.NOISE,
        ),  # runs differ by this much anyway
        (speed(1000, 1010, 1005), speed(2000, 2010, 2005), Verdict.BETTER),
        (speed(2000, 2010, 2005), speed(1000, 1010, 1005), Verdict.WORSE),
        (cost(0, 0, 0), cost(0, 0, 0), Verdict.NOISE),
        (cost(0), cost(1), Verdict.WORSE),
    ],
)
def test_a_change_is_beyond_the_floor_and_beyond_the_spread_of_both_runs(
    before: Figure, after: Figure, verdict: Verdict
) -> None:
    assert verdict_of(before, after) is verdict


@pytest.mark.parametrize(("samples", "small", "large"), [(1, 15, 25), (2, 8, 12), (3, 4, 7), (5, 2, 4)])
def test_the_fewer_samples_the_larger_a_change_must_be(samples: int, small: float, large: float) -> None:
    before, noise, change = (cost(*[100.0 + more] * samples) for more in (0, small, large))
    assert verdict_of(before, noise) is Verdict.NOISE
    assert verdict_of(before, change) is Verdict.WORSE


def test_memory_is_steady_even_if_there_is_one_sample() -> None:
    before, after = (figure_of("fleet/registered, 1 000 nodes/memory per node", "bytes", [x]) for x in (1000, 1050))
    assert verdict_of(before, after) is Verdict.WORSE


def test_of_many_samples_the_middle_half_counts() -> None:
    before, after = (cost(*range(first, first + 20), 50, 200) for first in (90, 115))
    assert verdict_of(before, after) is Verdict.WORSE


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        # The machine was the same: both say so.
        (cost(*FIVE, raw=150), cost(88, 89, 90, 91, 92, raw=135), Verdict.BETTER),
        # As measured nothing changed: the yardstick did.
        (cost(*FIVE, raw=150), cost(88, 89, 90, 91, 92, raw=151), Verdict.UNCLEAR),
        # As measured it is the other way round.
        (cost(*FIVE, raw=150), cost(88, 89, 90, 91, 92, raw=180), Verdict.UNCLEAR),
        # The machine was slower, and the yardstick may have seen only half of that.
        (cost(*FIVE, raw=150), cost(108, 109, 110, 111, 112, raw=240), Verdict.UNCLEAR),
        (cost(*FIVE, raw=150), cost(148, 149, 150, 151, 152, raw=270), Verdict.WORSE),
        # A slower machine alone.
        (cost(*FIVE, raw=100), cost(*FIVE, raw=200), Verdict.NOISE),
        # A baseline that did not keep it.
        (cost(*FIVE), cost(88, 89, 90, 91, 92, raw=180), Verdict.BETTER),
    ],
)
def test_scaled_cpu_has_changed_only_if_it_changed_as_measured_too(
    before: Figure, after: Figure, verdict: Verdict
) -> None:
    assert verdict_of(before, after) is verdict


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        ("jobs", Verdict.UNCLEAR),
        ("p99 ÷ alone", Verdict.UNCLEAR),
        ("in scripts", Verdict.UNCLEAR),
        ("scripts", Verdict.UNCLEAR),
        ("CPU", Verdict.WORSE),
    ],
)
def test_while_others_use_the_machine_the_clock_on_the_wall_says_little(figure: str, verdict: Verdict) -> None:
    unit = "1/s" if figure == "jobs" else "µs/job"
    quiet, busy = (
        msgspec.structs.replace(run(figure_of(f"life/small/{figure}", unit, [x, x, x])), others=others)
        for x, others in ((100, 0.1), (50 if figure == "jobs" else 200, 1.5))
    )
    assert [change.verdict for change in compare(quiet, busy).changes] == [verdict]
    assert compare(quiet, busy).differences == ["cores that other programs used: 0.1 then, 1.5 now"]
    calm = msgspec.structs.replace(busy, others=0.1)
    assert [change.verdict for change in compare(quiet, calm).changes] == [Verdict.WORSE]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (cost(*FIVE, raw=150), cost(78, 79, 80, 81, 82, raw=115), Verdict.UNCLEAR),
        (cost(*FIVE), cost(78, 79, 80, 81, 82), Verdict.UNCLEAR),
        (cost(*FIVE, raw=150), cost(*(1.2 * x for x in FIVE), raw=180), Verdict.UNCLEAR),
        # Large as measured alone, or scaled alone, may still be the machine.
        (cost(*FIVE, raw=150), cost(68, 69, 70, 71, 72, raw=80), Verdict.UNCLEAR),
        (cost(*FIVE, raw=150), cost(48, 49, 50, 51, 52, raw=120), Verdict.UNCLEAR),
        (cost(*FIVE, raw=150), cost(48, 49, 50, 51, 52, raw=75), Verdict.BETTER),
        (cost(*FIVE), cost(*(1.5 * x for x in FIVE)), Verdict.WORSE),
        (cost(*FIVE, raw=150), cost(*FIVE, raw=200), Verdict.NOISE),
    ],
)
def test_cpu_that_others_disturbed_has_changed_only_beyond_doubt(
    before: Figure, after: Figure, verdict: Verdict
) -> None:
    assert verdict_of(before, after, is_disturbed=True) is verdict


@pytest.mark.parametrize(
    ("figure", "plans", "is_judged"),
    [
        (figure_of("life/small/redis memory", "MB", [10]), {"jobs": (100, 900)}, False),
        (figure_of("life/small/redis memory", "MB", [10]), {"repeats": (2, 5)}, False),
        (figure_of("life/small/redis memory", "MB", [10]), {"sessions": (8, 64)}, False),
        (figure_of("life/small/redis memory", "MB", [10]), {"silent": (8, 64), "fleets": ([10], [9])}, True),
        (figure_of("idle/a session/scheduler memory", "KB", [10]), {"silent": (1_000, 10_000)}, False),
        (figure_of("idle/all together/scheduler CPU", "ms/s", [10], [10]), {"silent": (1_000, 10_000)}, False),
        (figure_of("speakers/JSON/of a core", "%", [10]), {"speakers": (200, 2_000)}, False),
        (figure_of("life/small/p99", "ms", [10]), {"in_flight": (1, 8)}, False),
        (figure_of("life/small/p99", "ms", [10]), {"jobs": (100, 900)}, True),
        (figure_of("life/small/redis CPU", "µs/job", [10], [10]), {"jobs": (100, 900)}, True),
        (figure_of("fleet/registered, 1 000 nodes/memory per node", "bytes", [10]), {"jobs": (100, 900)}, True),
    ],
)
def test_a_figure_that_follows_the_plan_is_not_judged_when_the_plans_are_not_alike(
    figure: Figure, plans: dict[str, tuple[Any, Any]], is_judged: bool
) -> None:
    more = msgspec.structs.replace(figure, median=20.0, samples=[20.0], raw_median=figure.raw_median and 20.0)
    first, second = ({name: values[i] for name, values in plans.items()} for i in (0, 1))
    found = compare(run(figure, **first), run(more, **second))
    assert [change.verdict for change in found.changes] == [Verdict.WORSE if is_judged else Verdict.NOT_ALIKE]
    table = table_of_changes(found)
    assert len(table.rows) == is_judged
    assert ("the plans are not alike: 1." in table.about) is not is_judged
    alike = compare(run(figure, **first), run(more, **first))
    assert [change.verdict for change in alike.changes] == [Verdict.WORSE]


def test_a_slower_machine_excuses_the_clock_on_the_wall_but_not_cpu_time() -> None:
    before = run(cost(100, 101, 102), speed(1000, 1001, 1002), slowdown=1.0)
    after = run(cost(130, 131, 132), speed(800, 801, 802), slowdown=1.3)
    assert [change.verdict for change in compare(before, after).changes] == [Verdict.WORSE, Verdict.NOISE]


def test_only_figures_of_both_runs_are_compared_and_the_others_counted() -> None:
    found = compare(run(cost(100)), run(speed(10), cost(50)))
    assert [(change.name, change.percent) for change in found.changes] == [("life/small/scheduler CPU", -50)]
    assert found.in_one_only == 1
    assert "In one of the two runs only: 1." in table_of_changes(found).about


def test_what_a_run_asks_for_is_neither_better_nor_worse() -> None:
    before, after = (run(figure_of("idle/all together/sessions", "connected", [x])) for x in (10_000, 1_000))
    assert compare(before, after).changes == []


def test_the_table_of_changes_leaves_noise_out_and_puts_what_is_worse_first() -> None:
    before = run(cost(100, raw=100), speed(100), *(figure_of(f"life/{x}/p50", "ms", [10]) for x in ("small", "32 KB")))
    after = run(
        cost(50, raw=150),
        speed(100),
        *(figure_of(f"life/{x}/p50", "ms", [y]) for x, y in (("small", 20), ("32 KB", 5))),
    )
    table = table_of_changes(compare(before, after))
    assert [row[0] for row in table.rows] == ["life/small/p50", "life/small/scheduler CPU", "life/32 KB/p50"]
    assert table.rows[0][1:] == ["10 ms", "20 ms", "+100 %", "–", "worse"]
    assert table.rows[1][1:] == ["100 µs/job", "50 µs/job", "-50 %", "100 → 150", "unclear: it may be the machine"]
    assert table.about == "Of 4 figures 2 changed beyond noise; unclear: 1."
    assert table.warnings == []


def test_if_nothing_changed_there_is_a_sentence_and_no_table() -> None:
    text = report.markdown(run(), [table_of_changes(compare(run(cost(100)), run(cost(100))))], [])
    assert text.endswith("Of 1 figures 0 changed beyond noise; unclear: 0.\n")


def test_of_something_that_was_nothing_there_is_no_percentage() -> None:
    errors = Change(name="soak/jobs/errors", unit="in all", before=0, after=1, verdict=Verdict.WORSE)
    assert errors.percent is None


def test_runs_that_are_not_alike_are_said_before_any_verdict() -> None:
    here = {"version": "1", "redis": "Valkey 9.1.2", "cores": 2, "processor": "A"}
    there = {"version": "2", "redis": "Redis 7.2", "cores": 2, "processor": "B"}
    before = run(cost(100, 101), slowdown=1.0, machine=here, repeats=2, rate=0.0, fleets=[10, 1000])
    after = run(cost(50, 51), slowdown=1.5, machine=there, repeats=5, rate=2000.0, fleets=[10])
    expected = [
        "Redis: Valkey 9.1.2 then, Redis 7.2 now",
        "processor: A then, B now",
        "samples of each figure: 2 then, 5 now",
        "utterances a second (0: as fast as it goes): 0 then, 2000 now",
        "sizes of the fleet: 10, 1000 then, 10 now",
        "pace of the machine: fixed work took 1.00 × as long as it should then, 1.50 × now",
    ]
    found = compare(before, after)
    assert found.differences == expected
    text = report.markdown(after, [table_of_changes(found)], [])
    assert 0 < text.index("not alike") < text.index(expected[0]) < text.index(expected[-1]) < text.index("| better |")


def test_what_a_former_release_did_not_know_is_no_difference() -> None:
    assert differences(run(), run(speakers=200, machine={"processor": "A"})) == []
    assert differences(run(), run(slowdown=1.05)) == []


def test_a_comparison_is_in_the_json_too_and_a_run_can_be_read_from_it(tmp_path: Path) -> None:
    after = run(cost(50), jobs=10)
    report.write(after, tmp_path, compare(run(cost(100)), after))
    saved = json.loads((tmp_path / "latest.json").read_bytes())
    assert saved["comparison"]["differences"] == ["jobs of a sample: 100 then, 10 now"]
    assert saved["comparison"]["changes"][0]["verdict"] == "better"
    assert figures.read(tmp_path / "latest.json") == after


def test_cpu_time_is_scaled_and_kept_as_measured() -> None:
    samples = Samples()
    samples.add_cpu("life/small/redis CPU", "µs/job", 60.0, 2.0)
    samples.add_cpu("life/small/redis CPU", "µs/job", 80.0, 1.0)
    (figure,) = samples.figures()
    assert (figure.samples, figure.median, figure.raw_median, figure.spread) == ([30, 80], 55, 70, 50)


def test_to_serve_more_is_better_and_to_need_longer_is_worse() -> None:
    served, recovery = "saturation/2 × load/served of capacity", "saturation/half load after/normal again"
    before = run(figure_of(served, "% of capacity", [70]), figure_of(recovery, "s", [5]))
    after = run(figure_of(served, "% of capacity", [95]), figure_of(recovery, "s", [9]))
    assert [change.verdict for change in compare(before, after).changes] == [Verdict.BETTER, Verdict.WORSE]
