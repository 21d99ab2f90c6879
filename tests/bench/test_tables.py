"""A run as tables, in the terminal and on the page, and as bars."""

import io
from xml.etree import ElementTree

import pytest
from rich.console import Console

from lingua_scheduler.bench import plot
from lingua_scheduler.bench.comparison import compare
from lingua_scheduler.bench.figures import Figure, figure_of
from lingua_scheduler.bench.tables import number, table_of_changes, tables_of
from lingua_scheduler.bench.targets import TARGETS
from lingua_scheduler.cli.bench import show
from tests.bench.runs import cost, run, speed

SVG = "{http://www.w3.org/2000/svg}"
LONG = "dispatch with 20 looked at, 100 000 nodes"


def life(variant: str, metric: str, *samples: float) -> Figure:
    return figure_of(f"life/{variant}/{metric} CPU", "µs/job", list(samples), [2 * x for x in samples])


def shown(*figures: Figure, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO())
    of = run(*figures)
    show(of, [*tables_of(of), table_of_changes(compare(run(cost(1, raw=3), jobs=7), of))], console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_scenario_becomes_one_table() -> None:
    tables = tables_of(run(cost(90, 100, 110), speed(1234)))
    assert [table.title for table in tables] == ["The life of a job", "Targets"]
    assert tables[0].rows == [["scheduler CPU, µs/job", "100 ±10"], ["jobs, 1/s", "1 234"]]


def test_cpu_that_matters_is_shown_as_measured_beside_it() -> None:
    table = tables_of(run(life("small", "scheduler", 90, 110), life("small", "load", 20)))[0]
    assert table.rows == [
        ["scheduler CPU, µs/job", "100 ±10"],
        ["scheduler CPU as measured, µs/job", "200"],
        ["load CPU, µs/job", "20"],
    ]


def test_what_a_variant_does_not_have_is_a_dash() -> None:
    p999 = figure_of("life/small/p99.9", "ms", [3.0])
    rows = tables_of(run(cost(1), p999, *(life(f"v{i}", "load", 1) for i in range(4))))[0].rows
    assert [row[2] for row in rows] == ["3", "–", "–", "–", "–"]


@pytest.mark.parametrize("width", [48, 60, 80, 120])
def test_no_number_is_broken_or_cut_whatever_the_width(width: int) -> None:
    variants = [
        f"{kind}, {size} nodes"
        for kind in ("dispatch with 20 looked at", "end", "miss")
        for size in ("10", "1 000", "100 000")
    ]
    metrics = ["redis CPU", "in scripts", "client CPU", "alone p50", "alone p99"]
    values = {(v, m): 1000.0 + 100 * i + 10 * j for i, v in enumerate(variants) for j, m in enumerate(metrics)}
    figures = [figure_of(f"fleet/{v}/{m}", "µs/call", [x - 5, x + 5], [7000]) for (v, m), x in values.items()]
    text = shown(*figures, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert [x for x in values.values() if f"{number(x)} ±5" not in text] == []
    assert text.count(" 7 000") == len(variants)
    assert "…" not in text


def test_a_spread_has_two_digits() -> None:
    assert tables_of(run(cost(100, 121.4)))[0].rows[0][1] == "111 ±11"


def test_a_row_that_has_nothing_to_say_in_a_narrow_table_is_left_out() -> None:
    metrics = [figure_of(f"life/small/{i} CPU, of somebody with a name", "µs/job", [1, 90_000]) for i in range(5)]
    others = [figure_of(f"life/variant {i}/0 CPU, of somebody with a name", "µs/job", [1, 90_000]) for i in range(6)]
    text = shown(*metrics, *others, width=60).partition("Targets")[0]
    assert text.count("\nsmall ") > text.count("\nvariant 3 ") == 1


@pytest.mark.parametrize("width", [50, 61, 62, 63, 64, 80])
def test_the_table_of_targets_fits_a_terminal(width: int) -> None:
    text = shown(cost(100, 120), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "110 ±10 µs" in text
    assert text.count("not measured ") == len(TARGETS) - 1
    assert "--full`" in text


@pytest.mark.parametrize("width", [50, 66, 78, 79, 90])
def test_the_table_of_changes_fits_a_terminal(width: int) -> None:
    text = shown(cost(1_234_000, raw=2), width=width).partition("Compared with")[2]
    assert max(map(len, text.splitlines())) <= width
    assert "1 234 000 µs/job" in text
    assert "3 → 2" in text


def test_runs_that_are_not_alike_are_said_before_what_changed() -> None:
    text = shown(cost(100, raw=300), width=120)
    assert text.index("! The two runs are not alike") < text.index("! jobs of a sample: 7 then") < text.index("worse")


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.01234, "0.0123"), (12.34, "12.3"), (1234567, "1 234 567")])
def test_numbers_have_three_digits_that_mean_something(value: float, text: str) -> None:
    assert number(value) == text


def test_a_long_label_begins_inside_the_picture() -> None:
    svg = plot.fleet_chart(run(*(figure_of(f"fleet/{LONG}/{m}", "µs/call", [9]) for m in ("in scripts", "redis CPU"))))
    label = next(text for text in texts(svg) if text.text == LONG)
    assert label.attrib["text-anchor"] == "end"
    assert float(label.attrib["x"]) - 6.5 * len(LONG) > 0


def test_the_number_of_a_bar_is_the_median_of_all_cpu_and_the_picture_says_so() -> None:
    parts = {"scheduler": (100, 110, 150), "redis": (60, 50, 10), "load": (20, 20, 20), "all": (175, 175, 180)}
    svg = plot.cpu_chart(run(*(life("small", metric, *samples) for metric, samples in parts.items())))
    said = [text.text for text in texts(svg)]
    assert "175" in said
    assert any("median of all CPU" in (text or "") for text in said)


@pytest.mark.parametrize(("in_scripts", "is_said"), [(38.5, True), (20, False)])
def test_a_script_that_took_longer_than_all_cpu_is_drawn_as_long_and_explained(
    in_scripts: float, is_said: bool
) -> None:
    figures = {"in scripts": in_scripts, "redis CPU": 32}
    svg = plot.fleet_chart(run(*(figure_of(f"fleet/{LONG}/{m}", "µs/call", [x]) for m, x in figures.items())))
    assert svg is not None
    said = " ".join(text.text or "" for text in texts(svg))
    assert ("goes on while Redis waits for a core" in said) is is_said
    assert " 32 " in said


def texts(svg: str | None) -> list[ElementTree.Element]:
    assert svg is not None
    return ElementTree.fromstring(svg).findall(f"{SVG}text")
