"""`python -m bench`: what a job, a chunk of speech, a heartbeat and a node cost. `make bench` runs it."""

import asyncio
import signal
from pathlib import Path

import click
import msgspec
import uvloop
from rich.console import Console

from bench import figures, report, scenarios
from bench.children import BenchFailed
from bench.figures import Run
from bench.plan import LARGEST_FLEET, QUICK, Plan
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.servers.embedded import EmbeddedError
from lingua_scheduler.store.store import StoreError

STOPPING = "Stopping: ending the schedulers and servers this run started …"
INTERRUPTED = 130
_SCENARIOS = "\n".join(f"    {name:<11} {scenario.title}" for name, scenario in scenarios.SCENARIOS.items())


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"\b\nScenarios:\n{_SCENARIOS}",
)
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
@click.option("--sessions", type=click.IntRange(1, 20_000), help="Clients at once.  [default: 64; 2000 speakers]")
@click.option("--in-flight", type=click.IntRange(1, 64), help="Utterances each of them has under way.  [default: 1]")
@click.option("--nodes", type=click.IntRange(1, 1000), help="Nodes, with and without job_ack each.  [default: 8]")
@click.option("--workers", type=click.IntRange(1, 64), help="Processes of the scheduler, in “life”.  [default: 1]")
@click.option("--rate", type=click.FloatRange(1), help="Utterances a second.  [default: as fast as results come]")
@click.option("--minutes", type=click.FloatRange(0.05, 10_000), help="How long a soak lasts.  [default: 30]")
@click.option(
    "--compare",
    "baseline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A saved run (JSON): show what changed beyond noise.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bench/results"),
    show_default=True,
    help="Where the run is saved.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the run as JSON instead of tables.")
def main(
    quick: bool,
    full: bool,
    names: tuple[str, ...],
    baseline: Path | None,
    out: Path,
    as_json: bool,
    **numbers: float | None,
) -> None:
    """Measure what a job costs: CPU time of the scheduler and of Redis, jobs a second, latency, memory.

    Other programs disturb jobs/s and latency most and CPU per job least; a note says when they did. To compare two
    releases use make bench-beside. Ctrl-C ends everything and leaves nothing behind.
    """
    try:
        before = figures.read(baseline) if baseline is not None else None
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    run = _run(
        [name for name in scenarios.SCENARIOS if name in (names or scenarios.USUAL)], _plan(quick, full, numbers)
    )
    written = report.write(run, out)
    if as_json:
        click.echo(report.encode(run), nl=False)
        return
    console = Console(highlight=False)
    report.show(run, console)
    if before is not None:
        report.show_changes(before, run, console)
    click.echo(f"written: {written}")


def _plan(quick: bool, full: bool, numbers: dict[str, float | None]) -> Plan:
    plan = QUICK if quick else Plan()
    numbers |= {"speakers": numbers["sessions"], "rounds": numbers["repeats"]}
    plan = msgspec.structs.replace(plan, **{name: value for name, value in numbers.items() if value is not None})
    return msgspec.structs.replace(plan, fleets=(*plan.fleets, LARGEST_FLEET)) if full else plan


def _run(names: list[str], plan: Plan) -> Run:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_measure(names, plan))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise SystemExit(INTERRUPTED) from None
    except (BenchFailed, EmbeddedError, StoreError, RedisAway) as error:
        raise click.ClickException(f"the benchmark stopped: {error}") from None


async def _measure(names: list[str], plan: Plan) -> Run:
    """Until it is done or told to stop. A second Ctrl-C must not cancel the tidying up."""
    measuring, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert measuring is not None

    def stop_measuring() -> None:
        for number in signal.SIGINT, signal.SIGTERM:
            loop.add_signal_handler(number, lambda: None)
        measuring.cancel()
        click.echo(STOPPING, err=True)

    for number in signal.SIGINT, signal.SIGTERM:
        loop.add_signal_handler(number, stop_measuring)
    return await scenarios.run(names, plan, lambda step: click.echo(step, err=True))


if __name__ == "__main__":
    main()
