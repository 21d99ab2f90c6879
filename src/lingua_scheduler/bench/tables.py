"""A run as tables: titles, headers and cells, for the terminal and for the written report alike."""

from typing import NamedTuple

from lingua_scheduler.bench.comparison import Change, Verdict
from lingua_scheduler.bench.figures import Figure, Run
from lingua_scheduler.bench.queues.catalog import ABOUT_SETTINGS
from lingua_scheduler.bench.scenarios import SCENARIOS
from lingua_scheduler.bench.targets import Target, standings


class Table(NamedTuple):
    title: str
    about: str
    header: list[str]
    rows: list[list[str]]
    is_prose: bool = False


def tables_of(run: Run, with_raw: bool) -> list[Table]:
    """One table a scenario, then the targets; `with_raw` adds CPU times as they were measured."""
    present = {figure.name.split("/")[0] for figure in run.figures}
    scenarios = (_scenario(run, name, with_raw) for name in SCENARIOS if name in present)
    return [*scenarios, *_compared(run), *_targets(run)]


def table_of_changes(changes: list[Change]) -> Table:
    """Only what changed beyond noise; the rest is a number in the text."""
    beyond = [change for change in changes if change.verdict is not Verdict.NOISE]
    about = f"{len(beyond)} of {len(changes)} figures differ by more than the spread of both runs."
    rows = [
        [
            change.name,
            f"{number(change.before)} {change.unit}",
            f"{number(change.after)} {change.unit}",
            f"{change.percent:+.0f} %",
            change.verdict.value,
        ]
        for change in sorted(beyond, key=lambda change: (change.verdict is Verdict.BETTER, change.name))
    ]
    return Table("Compared with the baseline", about, ["figure", "before", "now", "change", ""], rows)


def number(value: float) -> str:
    """Three digits that mean something, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def _scenario(run: Run, name: str, with_raw: bool) -> Table:
    """Variants against metrics; whichever are fewer become the columns."""
    cells: dict[tuple[str, str], str] = {}
    for figure in run.figures:
        scenario, variant, metric = figure.name.split("/")
        if scenario == name:
            cells[variant, f"{metric}, {figure.unit}"] = _cell(figure, with_raw)
    variants = _related_together(list(dict.fromkeys(variant for variant, _ in cells)))
    metrics = list(dict.fromkeys(metric for _, metric in cells))
    if len(metrics) <= len(variants):
        rows = [[variant, *(cells.get((variant, metric), "") for metric in metrics)] for variant in variants]
        header = ["", *metrics]
    else:
        rows = [[metric, *(cells.get((variant, metric), "") for variant in variants)] for metric in metrics]
        header = ["", *variants]
    return Table(SCENARIOS[name].title, SCENARIOS[name].about, header, rows)


def _compared(run: Run) -> list[Table]:
    rows = [
        [one.name, one.version, f"skipped: {one.absent_because}" if one.absent_because else one.settings]
        for one in run.compared
    ]
    header = ["", "version", "settings"]
    return [Table("Versions and settings", ABOUT_SETTINGS, header, rows, is_prose=True)] if rows else []


def _related_together(variants: list[str]) -> list[str]:
    families = list(dict.fromkeys(variant.split(",")[0] for variant in variants))
    return sorted(variants, key=lambda variant: families.index(variant.split(",")[0]))


def _cell(figure: Figure, with_raw: bool) -> str:
    spread = f" ±{number(figure.spread / 2)}" if len(figure.samples) > 1 else ""
    raw = f" ‹{number(figure.raw_median)}›" if with_raw and figure.raw_median is not None else ""
    return f"{number(figure.median)}{spread}{raw}"


def _targets(run: Run) -> list[Table]:
    rows = [
        [
            standing.target.about,
            f"{number(standing.value)} {standing.target.unit}".rstrip(),
            f"{_sign(standing.target)} {number(standing.target.limit)} {standing.target.unit}".rstrip(),
            "reached" if standing.is_reached else "not reached",
        ]
        for standing in standings(run)
    ]
    return [Table("Targets", "", ["", "measured", "target", ""], rows)] if rows else []


def _sign(target: Target) -> str:
    return "≥" if target.at_least else "≤"
