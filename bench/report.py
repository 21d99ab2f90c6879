"""A run as JSON and as tables, and what changed between two runs."""

from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.figures import Figure, Run
from bench.scenarios import SCENARIOS

HOW_TO_READ = (
    "Medians; ± is half the distance from the lowest to the highest sample. CPU is user and system time, scaled to the"
    " undisturbed reference machine by fixed work that is timed alongside; in brackets as measured."
)
# Smaller changes of a median are noise on any machine we know.
FLOOR = 0.05


def write(run: Run, folder: Path) -> Path:
    """The run as JSON, under its time and as latest.json; returns the latter. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = encode(run)
    (folder / f"{run.started_at.replace(':', '')}.json").write_bytes(saved)
    latest = folder / "latest.json"
    latest.write_bytes(saved)
    return latest


def encode(run: Run) -> bytes:
    return msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n"


def show(run: Run, console: Console) -> None:
    console.print(f"{HOW_TO_READ} Here that work took {run.slowdown:.2f} × as long as there.", style="dim")
    for name, scenario in SCENARIOS.items():
        variants = _variants(run, name)
        if not variants:
            continue
        console.print(f"\n[bold]{scenario.title}[/]\n[dim]{scenario.about}[/]")
        for variant, figures in variants.items():
            table = Table(variant, "", box=None, pad_edge=False, header_style="bold")
            for metric, figure in figures.items():
                table.add_row(metric, f"{_told(figure)} {figure.unit}")
            console.print(table)
    for note in run.notes:
        console.print(f"! {note}", style="yellow", markup=False)


def show_changes(before: Run, after: Run, console: Console) -> None:
    """Only what moved beyond the floor and beyond the samples of both runs."""
    earlier = {figure.name: figure for figure in before.figures}
    pairs = [(earlier[figure.name], figure) for figure in after.figures if figure.name in earlier]
    moved = [(then, now) for then, now in pairs if has_moved(then, now)]
    console.print(
        f"\n[bold]Compared with {before.started_at}[/]\n[dim]{len(moved)} of {len(pairs)} figures moved by more than"
        f" {FLOOR:.0%} and beyond the samples of both runs. Fixed work took {before.slowdown:.2f} × as long as on the"
        f" reference machine then, {after.slowdown:.2f} × now.[/]"
    )
    for what in ("plan", "machine"):
        then, now = getattr(before, what), getattr(after, what)
        for name in sorted(then.keys() | now.keys()):
            if then.get(name) != now.get(name):
                console.print(f"! {name}: {then.get(name)} then, {now.get(name)} now", style="yellow", markup=False)
    for then, now in moved:
        change = f"{(now.median / then.median - 1) * 100:+.0f} %" if then.median else "from 0"
        console.print(f"{now.name}: {_told(then)} → {_told(now)} {now.unit}, {change}", markup=False, soft_wrap=True)


def has_moved(before: Figure, after: Figure) -> bool:
    if abs(after.median - before.median) <= FLOOR * abs(before.median):
        return False
    return min(after.samples) > max(before.samples) or max(after.samples) < min(before.samples)


def _variants(run: Run, scenario: str) -> dict[str, dict[str, Figure]]:
    """Figures by variant and metric."""
    variants: dict[str, dict[str, Figure]] = {}
    for figure in run.figures:
        name, variant, metric = figure.name.split("/")
        if name == scenario:
            variants.setdefault(variant, {})[metric] = figure
    return variants


def _told(figure: Figure) -> str:
    told = _number(figure.median)
    if len(figure.samples) > 1:
        told += f" ±{_number((max(figure.samples) - min(figure.samples)) / 2)}"
    return told if figure.raw_median is None else f"{told} ({_number(figure.raw_median)})"


def _number(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 100 else f"{value:.3g}"
