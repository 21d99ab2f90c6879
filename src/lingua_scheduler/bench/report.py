"""What is left of a run: JSON to compare with, a page to read, charts."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from lingua_scheduler.bench import curves, plot
from lingua_scheduler.bench.comparison import Comparison
from lingua_scheduler.bench.figures import Run
from lingua_scheduler.bench.tables import Table, table_of_changes, tables_of
from lingua_scheduler.bench.targets import standings

HOW_TO_READ = (
    "Medians; ± is half the way from the lowest to the highest sample. CPU is user and system time, scaled to the"
    " undisturbed reference machine by fixed work that is timed alongside; “as measured” it is not scaled; “in scripts”"
    " is by Redis's own clock."
)


def encode(run: Run, comparison: Comparison | None = None) -> bytes:
    """A run that can be read again, and what follows from it."""
    told = msgspec.structs.asdict(run) | {"targets": standings(run)}
    if comparison is not None:
        told["comparison"] = comparison
    return msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"


def try_folder(folder: Path) -> None:
    """Raises OSError if nothing can be written there; leaves nothing behind."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            file.write(b"\n")
    finally:
        for one in made:
            with suppress(OSError):  # it was not made, or somebody uses it by now
                one.rmdir()


def write(run: Run, folder: Path, comparison: Comparison | None = None) -> Path:
    """Everything under `folder`; returns the page. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = encode(run, comparison)
    (folder / f"{run.started_at.replace(':', '')}.json").write_bytes(saved)
    (folder / "latest.json").write_bytes(saved)
    charts = {
        "cpu.svg": plot.cpu_chart(run),
        "peers.svg": plot.peers_chart(run),
        "fleet.svg": plot.fleet_chart(run),
        **curves.charts(run),
    }
    for former in folder.glob(f"{curves.PREFIX}*.svg"):
        former.unlink()
    for name, svg in charts.items():
        (folder / name).unlink(missing_ok=True)
        if svg is not None:
            (folder / name).write_text(svg, "utf-8")
    page = folder / "report.md"
    changes = [] if comparison is None else [table_of_changes(comparison)]
    page.write_text(markdown(run, [*changes, *tables_of(run)], [name for name, svg in charts.items() if svg]), "utf-8")
    return page


def markdown(run: Run, tables: list[Table], charts: list[str]) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in run.machine.items())
    plan = ", ".join(f"{name} {value}" for name, value in run.plan.items())
    blocks = [
        "# Benchmark",
        f"{run.started_at}, {run.took_s:.0f} s. {machine}. Plan: {plan}.",
        f"{HOW_TO_READ} {pace_of(run)}",
        *(f"> {note}" for note in run.notes),
        *(f"![{name.removesuffix('.svg')}]({name})" for name in charts),
        *map(_table, tables),
    ]
    return "\n\n".join(blocks) + "\n"


def pace_of(run: Run) -> str:
    return f"Here that work took {run.slowdown:.2f} × as long as there."


def _table(table: Table) -> str:
    lines = [f"## {table.title}", ""]
    if table.warnings:
        first, *others = table.warnings
        lines += [f"> {first}", ">", *(f"> - {one}" for one in others), ""]
    if table.about:
        lines += [table.about, ""]
    if table.rows:
        lines.append(_row(table.header))
        lines.append("|" + "".join("---|" if i in (0, *table.words) else "---:|" for i in range(len(table.header))))
    return "\n".join([*lines, *map(_row, table.rows)]).rstrip()


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
