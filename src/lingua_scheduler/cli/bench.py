"""`lingua bench`"""

import asyncio
import signal
from pathlib import Path

import click
import msgspec
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from lingua_scheduler.bench import figures, report, scenarios
from lingua_scheduler.bench.children import BenchFailed
from lingua_scheduler.bench.comparison import compare, differing_plans
from lingua_scheduler.bench.figures import Run
from lingua_scheduler.bench.plan import LARGEST_FLEET, QUICK, Plan
from lingua_scheduler.bench.tables import Table, table_of_changes, tables_of
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.embedded import EmbeddedError
from lingua_scheduler.store.store import StoreError

STYLES = {"better": "green", "reached": "green", "worse": "red", "not reached": "yellow"}


@click.command()
@click.option("--quick", is_flag=True, help="A look of two or three minutes: fewer jobs, three repeats.")
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
    instances  two instances: a session's nodes at its own, and at the other one
    watched  what a thousand questions a second about how things are do to the latency of jobs
    metrics  a job that is counted beside one that is not
    traces  a job that is traced beside one that is not
    peers   a job of ours beside one of BullMQ, dramatiq, taskiq, arq and Celery; “make bench-peers” installs them
    soak    half load for --minutes: memory stays flat, nothing fails; only when asked for

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
    run = _run(chosen, plan)
    changes = [] if before is None else [table_of_changes(compare(before, run))]
    try:
        page = report.write(run, out, changes)
    except OSError as error:
        fail(f"the results cannot be written: {error}; choose another folder with --out", Exit.SETTINGS)
    if as_json:
        click.echo(figures.encode(run))
        return
    doubts = differing_plans(before, run) if before is not None else []
    _show(run, [*tables_of(run, with_raw=False), *changes], doubts)
    click.echo(f"written: {page}")


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
    measuring = asyncio.current_task()
    assert measuring is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, measuring.cancel)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Drawn only between samples: a bar that moves by itself would cost CPU while we measure.
    with Progress(
        *columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task("starting", total=scenarios.total_steps(names, plan))

        tells_all = any(scenarios.SCENARIOS[name].is_long for name in names)

        def tell(step: str) -> None:
            if tells_all:
                progress.console.print(step, markup=False, highlight=False, soft_wrap=True)
            progress.update(bar, advance=1, description=step.partition(":")[0] if tells_all else step, refresh=True)

        return await scenarios.run(names, plan, tell)


def _show(run: Run, tables: list[Table], doubts: list[str]) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = 120
    console.print(f"{report.HOW_TO_READ} {report.pace_of(run)}", style="dim", markup=False, highlight=False)
    for table in tables:
        console.print()
        console.print(table.title, style="bold")
        if table.about:
            console.print(table.about, style="dim", markup=False, highlight=False)
        grid = RichTable(box=None, pad_edge=False, header_style="dim")
        for i, head in enumerate(table.header):
            grid.add_column(head, justify="left" if i == 0 or table.is_prose else "right", no_wrap=i == 0)
        for row in table.rows:
            grid.add_row(*row, style=STYLES.get(row[-1], ""))
        console.print(grid)
    console.print()
    for note in (*run.notes, *(f"The runs differ in {doubt}." for doubt in doubts)):
        console.print(f"! {note}", style="yellow", markup=False)
