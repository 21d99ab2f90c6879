"""What is left of a run: JSON to compare with, a page to read, charts."""

from pathlib import Path

from lingua_scheduler.bench import curves, plot
from lingua_scheduler.bench.figures import Run, encode
from lingua_scheduler.bench.tables import Table, tables_of

HOW_TO_READ = (
    "Medians; ± is half the way from the lowest to the highest sample. CPU is user and system time, scaled to the"
    " undisturbed reference machine by fixed work that is timed alongside; “in scripts” is by Redis's own clock."
)


def write(run: Run, folder: Path, extra: list[Table]) -> Path:
    """Everything under `folder`; returns the page. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = encode(run)
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
    page.write_text(
        markdown(run, [*extra, *tables_of(run, with_raw=True)], [name for name, svg in charts.items() if svg]), "utf-8"
    )
    return page


def markdown(run: Run, tables: list[Table], charts: list[str]) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in run.machine.items())
    plan = ", ".join(f"{name} {value}" for name, value in run.plan.items())
    blocks = [
        "# Benchmark",
        f"{run.started_at}, {run.took_s:.0f} s. {machine}. Plan: {plan}.",
        f"{HOW_TO_READ} In ‹ › as it was measured. {pace_of(run)}",
        *(f"> {note}" for note in run.notes),
        *(f"![{name.removesuffix('.svg')}]({name})" for name in charts),
        *map(_table, tables),
    ]
    return "\n\n".join(blocks) + "\n"


def pace_of(run: Run) -> str:
    return f"Here that work took {run.slowdown:.2f} × as long as there."


def _table(table: Table) -> str:
    lines = [f"## {table.title}", ""]
    if table.about:
        lines += [table.about, ""]
    lines.append(_row(table.header))
    lines.append("|" + "---|" + ("---|" if table.is_prose else "---:|") * (len(table.header) - 1))
    lines += map(_row, table.rows)
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
