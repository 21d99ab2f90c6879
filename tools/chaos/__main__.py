"""`make chaos`: people talk, and everything that can go wrong does; one outcome for everything that was said.

python -m tools.chaos --minutes 20 --seed 1 --sessions 300
"""

import asyncio
import random
import tempfile
from pathlib import Path

import click
from rich.console import Console

from tools.chaos import report
from tools.chaos.plan import DROP, KINDS, Cast, drawn
from tools.chaos.run import Order, Report, Run


@click.command()
@click.option("--minutes", default=20.0, show_default=True, help="How long people talk.")
@click.option("--seed", type=int, help="Draws the plan; the same seed gives the same faults. Default: a random one.")
@click.option("--sessions", default=300, show_default=True, help="Streaming sessions; gateways come on top.")
@click.option("--instances", default=3, show_default=True, help="Scheduler processes.")
@click.option("--node-processes", default=5, show_default=True, help="Processes of three nodes each.")
@click.option("--cluster", is_flag=True, help="A Redis Cluster of three masters instead of one server.")
@click.option("--redis-server", default="", help="Another redis-server or valkey-server than the shipped one.")
@click.option("--max-mb", default=400.0, show_default=True, help="Most memory an instance may take.")
@click.option("--pace", default=1.0, show_default=True, help="Pauses between sentences, times this.")
@click.option("--only", multiple=True, type=click.Choice(sorted({*KINDS, DROP})), help="Faults of this kind alone.")
@click.option("--set", "settings", multiple=True, help="A setting of the instances: sessions.grace_ms=5000.")
@click.option("--report", "report_path", type=click.Path(path_type=Path), help="Write the report as JSON to this file.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep logs and journals in this folder.")
@click.option("--plan", "plan_only", is_flag=True, help="Print the plan and end.")
def main(
    minutes: float,
    seed: int | None,
    sessions: int,
    instances: int,
    node_processes: int,
    cluster: bool,
    redis_server: str,
    max_mb: float,
    pace: float,
    only: tuple[str, ...],
    settings: tuple[str, ...],
    report_path: Path | None,
    keep: Path | None,
    plan_only: bool,
) -> None:
    """Exit codes: 0 every invariant held, 1 one did not, 2 bad options."""
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise click.BadParameter(
            f"{keep} is not empty: journals of another run would be judged too", param_hint="--keep"
        )
    console = Console()
    seed = random.randrange(1_000_000) if seed is None else seed
    order = Order(
        minutes, seed, sessions, instances, node_processes, cluster, redis_server, max_mb, pace, only, settings
    )
    console.print(f"seed {seed}", highlight=False)
    if plan_only:
        for fault in drawn(seed, minutes * 60, Cast(instances, node_processes, 3 if cluster else 1), only=only):
            click.echo(str(fault))
        return
    with tempfile.TemporaryDirectory(prefix="lingua-chaos-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = asyncio.run(_run(order, folder))
    report.show(found, console)
    if report_path is not None:
        report.write(found, report_path)
    raise SystemExit(0 if found.verdict.is_good else 1)


async def _run(order: Order, folder: Path) -> Report:
    return await Run(order, folder, lambda words: print(words, flush=True))()


if __name__ == "__main__":
    main()
