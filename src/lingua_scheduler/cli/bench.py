"""`lingua bench`"""

import asyncio
import re
import signal
from pathlib import Path
from textwrap import fill
from typing import NoReturn

import click
import msgspec
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from lingua_scheduler.bench import figures, report, scenarios
from lingua_scheduler.bench.children import BenchFailed
from lingua_scheduler.bench.comparison import Comparison, Verdict, compare
from lingua_scheduler.bench.figures import Run
from lingua_scheduler.bench.plan import LARGEST_FLEET, QUICK, Plan
from lingua_scheduler.bench.tables import NOTHING, Table, table_of_changes, tables_of
from lingua_scheduler.bench.targets import Outcome
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.wording import PlainConsole
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.servers.embedded import EmbeddedError
from lingua_scheduler.store.store import StoreError

STYLES = {
    Verdict.BETTER.value: "green",
    Verdict.WORSE.value: "red",
    Verdict.UNCLEAR.value: "yellow",
    Outcome.REACHED.value: "green",
    Outcome.REACHED_SCALED.value: "green",
    Outcome.MISSED.value: "yellow",
    Outcome.MISSED_SCALED.value: "yellow",
    Outcome.UNCLEAR.value: "yellow",
}
STOPPING = "Stopping: ending the schedulers and servers this run started …"
WIDTH_OF_A_FILE = 120
# So much of the first column is never given up for numbers.
FIRST_COLUMN = 24
# Between two columns.
GAP = 2


@click.command()
@click.option("--quick", is_flag=True, help="A look of about a minute: fewer jobs, two repeats.")
@click.option("--full", is_flag=True, help=f"Also a fleet of {LARGEST_FLEET:,} nodes.")
@click.option(
    "--scenario",
    "names",
    multiple=True,
    type=click.Choice(list(scenarios.SCENARIOS)),
    help="Only this one; may be given several times.  [default: all but soak and peers]",
)
@click.option("--repeats", type=click.IntRange(1, 100), help="Samples of each figure.  [default: 5]")
@click.option("--jobs", type=click.IntRange(1, 10_000_000), help="Jobs of one sample.  [default: 10000]")
@click.option(
    "--sessions",
    type=click.IntRange(1, 20_000),
    help="Clients at once.  [default: 64; 2000 speakers, 10000 idle ones; with --quick 200 and 1000]",
)
@click.option("--in-flight", type=click.IntRange(1, 64), help="Utterances each of them has under way.  [default: 1]")
@click.option(
    "--nodes", type=click.IntRange(1, 1000), help="Nodes of either kind, with and without job_ack.  [default: 8]"
)
@click.option("--workers", type=click.IntRange(1, 64), help="Processes of the scheduler, in “life”.  [default: 1]")
@click.option(
    "--rate", type=click.FloatRange(1), help="Utterances a second.  [default: the next one when a result is there]"
)
@click.option("--minutes", type=click.FloatRange(0.05, 10_000), help="How long a soak lasts.  [default: 30]")
@click.option(
    "--compare",
    "baseline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A saved run (JSON): say what changed beyond noise.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bench/results"),
    show_default=True,
    help="Where results are written.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the run as JSON instead of tables.")
def bench(
    quick: bool,
    full: bool,
    names: tuple[str, ...],
    baseline: Path | None,
    out: Path,
    as_json: bool,
    **numbers: float | None,
) -> None:
    """Measure what a job costs: CPU time of the scheduler and of Redis, jobs a second, latency, memory.

    \b
    life    a real scheduler with its own Redis; nodes and clients in another process, over real sockets
    speakers  people who speak at real pace: CPU of a chunk, time from their last chunk to a node
    idle    sessions that are connected and silent: memory of each
    saturation  twice the work that nodes can do, then half: what is refused, when it is over
    redis   the limit beside it: the same scripts pipelined on a bare Redis
    echo    the limit beside it: a bare WebSocket echo server
    fleet   choosing among 10, 1 000, 10 000 nodes; heartbeats; memory of a node
    languages  50 nodes with 99 languages beside 50 with two: registration, heartbeat, memory, dashboard, dispatch
    instances  two instances: a session's nodes at its own, and at the other one
    watched  what a thousand questions a second about how things are do to the latency of jobs
    metrics  a job that is counted beside one that is not
    traces  a job that is traced beside one that is not
    peers   a job of ours beside one of BullMQ, dramatiq, taskiq, arq and Celery; “make bench-peers” installs them
    soak    half load for --minutes while sessions come and go: memory stays flat, nothing fails; only when asked for

    \b
    lingua bench --quick                                        a look at everything
    lingua bench --scenario life --rate 2000                    latency at a steady 2000 utterances a second
    lingua bench --scenario soak --minutes 30                   half an hour, a line a minute
    cp bench/results/latest.json before.json                    keep a baseline, change the code, then
    lingua bench --compare before.json                          see what changed beyond noise

    Other programs disturb jobs/s and latency most and CPU per job least; a note says when they did. Results are
    written as JSON, a page and charts. Ctrl-C ends everything and leaves nothing behind.
    """
    plan = _plan(quick, full, numbers)
    chosen = [name for name in scenarios.SCENARIOS if name in (names or scenarios.USUAL)]
    try:
        before = figures.read(baseline) if baseline is not None else None
    except (OSError, ValueError) as error:
        fail(f"{baseline} is no saved run: {error}; name a JSON file that lingua bench wrote", Exit.SETTINGS)
    try:
        report.try_folder(out)
    except OSError as error:
        _not_written(error)
    run = _run(chosen, plan)
    comparison = None if before is None else compare(before, run)
    try:
        written: Path | OSError = report.write(run, out, comparison)
    except OSError as error:
        # What took so long to measure is at least shown.
        written = error
    if as_json:
        click.echo(report.encode(run, comparison), nl=False)
    else:
        _show_all(run, comparison)
    if isinstance(written, OSError):
        _not_written(written)
    if not as_json:
        click.echo(f"written: {written}")


def _not_written(error: OSError) -> NoReturn:
    fail(f"the results cannot be written: {error}; choose another folder with --out", Exit.SETTINGS)


def _show_all(run: Run, comparison: Comparison | None) -> None:
    console = PlainConsole()
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    changes = [] if comparison is None else [table_of_changes(comparison)]
    show(run, [*tables_of(run), *changes], console)


def _plan(quick: bool, full: bool, numbers: dict[str, float | None]) -> Plan:
    plan = QUICK if quick else Plan()
    numbers |= {"speakers": numbers["sessions"], "silent": numbers["sessions"], "rounds": numbers["repeats"]}
    plan = msgspec.structs.replace(plan, **{name: value for name, value in numbers.items() if value is not None})
    return msgspec.structs.replace(plan, fleets=(*plan.fleets, LARGEST_FLEET)) if full else plan


def _run(names: list[str], plan: Plan) -> Run:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_measure(names, plan))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise SystemExit(Exit.INTERRUPTED) from None
    except (BenchFailed, EmbeddedError, StoreError, RedisAway) as error:
        fail(f"the benchmark stopped: {error}", Exit.SCHEDULER)


async def _measure(names: list[str], plan: Plan) -> Run:
    console = Console(stderr=True)
    _cancel_when_told(console)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Drawn only between samples: a bar that moves by itself would cost CPU while we measure.
    with Progress(
        *columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task("starting", total=scenarios.total_steps(names, plan))

        long = {name for name in names if scenarios.SCENARIOS[name].is_long}

        def tell(step: str) -> None:
            name = step.partition(":")[0]
            if name in long:
                progress.console.print(step, markup=False, highlight=False, soft_wrap=True)
            progress.update(bar, advance=1, description=name if name in long else step, refresh=True)

        return await scenarios.run(names, plan, tell)


def _cancel_when_told(console: Console) -> None:
    """Once: a second Ctrl-C would cancel the tidying up."""
    measuring = asyncio.current_task()
    assert measuring is not None
    loop = asyncio.get_running_loop()
    signals = signal.SIGINT, signal.SIGTERM

    def stop_measuring() -> None:
        for number in signals:
            loop.add_signal_handler(number, lambda: None)
        measuring.cancel()
        console.print(STOPPING, highlight=False, soft_wrap=True)

    for number in signals:
        loop.add_signal_handler(number, stop_measuring)


def show(run: Run, tables: list[Table], console: Console) -> None:
    console.print(f"{report.HOW_TO_READ} {report.pace_of(run)}", style="dim", markup=False, highlight=False)
    for table in tables:
        console.print()
        console.print(table.title, style="bold")
        for warning in table.warnings:
            console.print(f"! {warning}", style="yellow", markup=False, highlight=False)
        if table.about:
            console.print(table.about, style="dim", markup=False, highlight=False)
        for columns in _that_fit(table, console.width) if table.rows else ():
            console.print(_grid(table, columns))
    console.print()
    for note in run.notes:
        console.print(f"! {note}", style="yellow", markup=False)


def _that_fit(table: Table, width: int) -> list[list[int]]:
    """The columns in groups, each behind the first column, so that no number is broken or cut."""
    groups: list[list[int]] = [[]]
    first = min(FIRST_COLUMN, _width(table, 0))
    left = width - first
    for column in range(1, len(table.header)):
        needs = GAP + (0 if column in table.words else _width(table, column))
        if groups[-1] and needs > left:
            groups.append([])
            left = width - first
        groups[-1].append(column)
        left -= needs
    return groups


def _grid(table: Table, columns: list[int]) -> RichTable:
    grid = RichTable(box=None, pad_edge=False, header_style="dim")
    for column in (0, *columns):
        is_words = column in (0, *table.words)
        head = _whole_numbers(table.header[column])
        head = head if is_words else fill(head, _width(table, column))
        grid.add_column(head, justify="left" if is_words else "right", no_wrap=not is_words, overflow="fold")
    for row in table.rows:
        cells = [row[column] for column in columns]
        if any(cell != NOTHING for cell in cells):
            grid.add_row(row[0], *cells, style=STYLES.get(row[-1], ""))
    return grid


def _width(table: Table, column: int) -> int:
    """Of the longest cell, or of the longest word of its header."""
    return max(map(len, (*(row[column] for row in table.rows), *_whole_numbers(table.header[column]).split(" "))))


def _whole_numbers(text: str) -> str:
    """With spaces inside of numbers at which no line ends."""
    return re.sub(r"(?<=\d) (?=\d)", "\xa0", text)
