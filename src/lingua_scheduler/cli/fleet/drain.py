"""`lingua drain` and `lingua resume`"""

import asyncio
import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.domain.nodes.nodes import DrainOutcome
from lingua_scheduler.store.store import Store


@click.command()
@click.argument("node_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
@click.option("--wait", is_flag=True, help="Return when the node's last job has ended.")
@click.option(
    "--timeout", "timeout_s", type=float, default=600, show_default=True, help="With --wait: maximum seconds to wait."
)
def drain(
    node_id: str,
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    as_json: bool,
    wait: bool,
    timeout_s: float,
) -> None:
    """Stop sending jobs to a node; its running jobs finish.

    lingua resume, or a restart of the node, ends the draining.

    \b
    lingua drain node-1A2B3C4D --wait && ssh that-machine reboot
    """

    async def work(store: Store) -> tuple[DrainOutcome, int]:
        outcome, running = await store.nodes.drain(node_id)
        if wait and outcome in (DrainOutcome.DRAINED, DrainOutcome.KEPT):
            running = await _watch(store, node_id, running, timeout_s)
        return outcome, running

    outcome, running = with_store(work, redis_url, data_dir, config, writes=True, notes=("nodes.drain", node_id))
    if outcome is DrainOutcome.GONE:
        fail(f"there is no node {node_id}; lingua nodes lists them", Exit.SETTINGS)
    if wait and running:
        fail(f"{node_id} still runs {running} jobs after {timeout_s:g} s; it gets no new ones", Exit.SCHEDULER)
    if as_json:
        click.echo(json.dumps({"node_id": node_id, "outcome": outcome.value, "held": running}))
        return
    word = "was draining already" if outcome is DrainOutcome.KEPT else "is draining"
    left = f"{running} jobs are still running" if running else "nothing is running on it"
    click.echo(f"{node_id} {word}; {left}")


@click.command()
@click.argument("node_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def resume(node_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Send jobs to a drained node again.

    \b
    lingua resume node-1A2B3C4D
    """

    async def work(store: Store) -> DrainOutcome:
        return (await store.nodes.drain(node_id, resume=True))[0]

    outcome = with_store(work, redis_url, data_dir, config, writes=True, notes=("nodes.resume", node_id))
    if outcome is DrainOutcome.GONE:
        fail(f"there is no node {node_id}; lingua nodes lists them", Exit.SETTINGS)
    if as_json:
        click.echo(json.dumps({"node_id": node_id, "outcome": outcome.value}))
        return
    click.echo(f"{node_id} {'was not draining' if outcome is DrainOutcome.KEPT else 'takes work again'}")


async def _watch(store: Store, node_id: str, running: int, timeout_s: float) -> int:
    """Follow the number of running jobs down to none."""
    progress = Progress(
        TextColumn("draining"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} jobs ended"),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    deadline = asyncio.get_running_loop().time() + timeout_s
    with progress:
        bar = progress.add_task("", total=running)
        started_with = running
        while running and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.2)
            place = await store.placements.find(node_id)
            view = None if place is None else await store.node_views.one(node_id, place.shard)
            running = 0 if view is None else view.held
            progress.update(bar, completed=max(0, started_with - running))
    return running
