"""A run as tables: titles, headers and cells, for the terminal and for the written report alike."""

from collections.abc import Sequence
from typing import NamedTuple

from lingua_scheduler.bench.comparison import Change, Comparison, Verdict
from lingua_scheduler.bench.figures import Figure, Run
from lingua_scheduler.bench.queues.catalog import ABOUT_SETTINGS
from lingua_scheduler.bench.scenarios import SCENARIOS
from lingua_scheduler.bench.targets import Outcome, Standing, standings

NOTHING = "–"
# Shown as they were measured too: whoever sees both sees what the scaling did.
HEADLINES = frozenset({"scheduler CPU", "redis CPU", "all CPU"})
ORDER = (Verdict.WORSE, Verdict.UNCLEAR, Verdict.BETTER)

ABOUT_OUTCOMES = (
    (
        {Outcome.MISSED, Outcome.MISSED_SCALED},
        "What is known to bound those that are not reached is in docs/performance.md.",
    ),
    (
        {Outcome.REACHED_SCALED, Outcome.MISSED_SCALED},
        "“Scaled”: on the reference machine; as measured here it would be the other way round.",
    ),
    ({Outcome.UNCLEAR}, "“Unclear”: of this ratio, scaled and as measured are on two sides of the target."),
)


class Table(NamedTuple):
    title: str
    about: str
    header: list[str]
    rows: list[list[str]]
    # Columns of words; the first is one anyhow.
    words: tuple[int, ...] = ()
    # What to know before anything else.
    warnings: Sequence[str] = ()


def tables_of(run: Run) -> list[Table]:
    """One table a scenario, then the targets."""
    present = {figure.name.split("/")[0] for figure in run.figures}
    scenarios = (_scenario(run, name) for name in SCENARIOS if name in present)
    return [*scenarios, *_compared(run), _targets(standings(run))]


def table_of_changes(comparison: Comparison) -> Table:
    """Only what changed beyond noise; the rest is a number in the text."""
    beyond = [change for change in comparison.changes if change.verdict in ORDER]
    not_alike = sum(change.verdict is Verdict.NOT_ALIKE for change in comparison.changes)
    unclear = sum(change.verdict is Verdict.UNCLEAR for change in beyond)
    about = f"Of {len(comparison.changes)} figures {len(beyond) - unclear} changed beyond noise; unclear: {unclear}."
    if not_alike:
        about += f" Not judged, because they follow the plan and the plans are not alike: {not_alike}."
    if comparison.in_one_only:
        about += f" In one of the two runs only: {comparison.in_one_only}."
    return Table(
        "Compared with the baseline",
        about,
        ["figure", "before", "now", "change", "as measured", ""],
        [_change(change) for change in sorted(beyond, key=lambda change: (ORDER.index(change.verdict), change.name))],
        words=(5,),
        warnings=_doubts(comparison.differences),
    )


def _doubts(differences: list[str]) -> list[str]:
    if not differences:
        return []
    return ["The two runs are not alike, and what changed may be due to that:", *(f"{one}." for one in differences)]


def _change(change: Change) -> list[str]:
    raw = change.raw_before, change.raw_after
    return [
        change.name,
        f"{number(change.before)} {change.unit}",
        f"{number(change.after)} {change.unit}",
        NOTHING if change.percent is None else f"{change.percent:+.0f} %",
        NOTHING if raw[0] is None or raw[1] is None else f"{number(raw[0])} → {number(raw[1])}",
        change.verdict.value,
    ]


def number(value: float) -> str:
    """Three digits that mean something, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def _scenario(run: Run, name: str) -> Table:
    """Variants against metrics; whichever are fewer become the columns."""
    cells: dict[tuple[str, str], str] = {}
    for figure in run.figures:
        scenario, variant, metric = figure.name.split("/")
        if scenario == name:
            cells[variant, f"{metric}, {figure.unit}"] = _cell(figure)
            if metric in HEADLINES and figure.raw_median is not None:
                cells[variant, f"{metric} as measured, {figure.unit}"] = number(figure.raw_median)
    variants = _related_together(list(dict.fromkeys(variant for variant, _ in cells)))
    metrics = list(dict.fromkeys(metric for _, metric in cells))
    if len(metrics) <= len(variants):
        rows = [[variant, *(cells.get((variant, metric), NOTHING) for metric in metrics)] for variant in variants]
        header = ["", *metrics]
    else:
        rows = [[metric, *(cells.get((variant, metric), NOTHING) for variant in variants)] for metric in metrics]
        header = ["", *variants]
    return Table(SCENARIOS[name].title, SCENARIOS[name].about, header, rows)


def _compared(run: Run) -> list[Table]:
    rows = [
        [one.name, one.version, f"skipped: {one.absent_because}" if one.absent_because else one.settings]
        for one in run.compared
    ]
    header = ["", "version", "settings"]
    return [Table("Versions and settings", ABOUT_SETTINGS, header, rows, words=(1, 2))] if rows else []


def _related_together(variants: list[str]) -> list[str]:
    families = list(dict.fromkeys(variant.split(",")[0] for variant in variants))
    return sorted(variants, key=lambda variant: families.index(variant.split(",")[0]))


def _cell(figure: Figure) -> str:
    return _with_spread(figure.median, figure.spread / 2 if len(figure.samples) > 1 else None)


def _with_spread(value: float, spread: float | None) -> str:
    # Two digits: of how far a handful of samples is apart nobody knows more.
    return number(value) if spread is None else f"{number(value)} ±{number(float(f'{spread:.2g}'))}"


def _targets(found: list[Standing]) -> Table:
    outcomes = {standing.outcome for standing in found}
    about = " ".join(sentence for kinds, sentence in ABOUT_OUTCOMES if outcomes & kinds)
    header = ["", "value", "as measured", "target", ""]
    return Table("Targets", about, header, [_target(standing) for standing in found], words=(4,))


def _target(standing: Standing) -> list[str]:
    return [
        standing.about,
        _value(standing),
        NOTHING if standing.as_measured is None else f"{number(standing.as_measured)} {standing.unit}",
        f"{'≥' if standing.at_least else '≤'} {number(standing.limit)} {standing.unit}".rstrip(),
        f"`{standing.command}`" if standing.outcome is Outcome.UNKNOWN else standing.outcome.value,
    ]


def _value(standing: Standing) -> str:
    if standing.value is None:
        return standing.outcome.value
    return f"{_with_spread(standing.value, standing.spread)} {standing.unit}".rstrip()
