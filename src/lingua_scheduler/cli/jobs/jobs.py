"""`lingua job`, `lingua explain` and `lingua cancel`"""

from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.jobs.tables import echo, job_table, lookup_in, pair_of, state_word
from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import age, counted, plain, table_console
from lingua_scheduler.domain.jobs.attempts import CancelOutcome
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.protocol.http_jobs import Explanation, JobCancelled, JobExplanation, JobView
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.cancelling import Cancellation
from lingua_scheduler.services.dispatch.cancelling import cancel as cancel_in
from lingua_scheduler.store.store import Store

VERDICT_STYLES = {"has_it": "cyan", "free": "green", "full": "yellow", "not_in_pool": "dim"}


@click.command()
@click.argument("job_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def job(job_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Show one job: its state, its node and its history.

    \b
    lingua job job-0-5f3a2b1c-1
    """

    async def look(store: Store) -> JobView | None:
        return await lookup_in(store, config).find(job_id)

    found = with_store(look, redis_url, data_dir, config)
    if found is None:
        _not_found(job_id)
    if as_json:
        echo(found)
        return
    rows: dict[str, str | Text] = {
        "job": found.job_id,
        "state": state_word(found.state),
        "pair": pair_of(found),
        "attempt": f"{found.attempt} on {found.node_id}" if found.node_id else "none",
        "session": f"{found.session_id}, utterance {found.utterance_index}",
        "owner": found.owner,
        "shard": str(found.shard),
        "reason": " - ".join(filter(None, (found.reason, found.detail))),
    }
    rows |= {name: f"{age(at_ms)} ago" for name, at_ms in sorted(found.times_ms.items(), key=lambda item: item[1])}
    grid = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        if value:
            grid.add_row(Text(name, style="dim"), value)
    table_console().print(grid)
    if found.history:
        table = job_table("state", "after", "attempt", "node", "reason")
        first_ms = found.history[0].at_ms
        for line in found.history:
            after = f"{line.at_ms - first_ms} ms"
            # Whether another attempt followed, the next line tells.
            state = Text("attempt failed") if line.state == JobState.RETRYING else state_word(line.state)
            table.add_row(state, after, str(line.attempt), line.node_id or "-", line.reason)
        table_console().print(Text(), table)
    click.echo(f"\nwhy: lingua explain {plain(job_id)}")


@click.command()
@click.argument("job_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def explain(job_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Explain why a job waited, failed or was retried.

    Lists each node that was considered, and why it was not chosen.

    \b
    lingua explain job-0-5f3a2b1c-1
    lingua explain job-0-5f3a2b1c-1 --json | jq -r .headline
    """

    async def look(store: Store) -> JobExplanation | None:
        pool_map = PoolMapCopy(store.pools)
        await pool_map.refresh()
        return await lookup_in(store, config, pool_map).explain(job_id)

    explained = with_store(look, redis_url, data_dir, config)
    if explained is None:
        _not_found(job_id)
    if as_json:
        echo(explained)
        return
    console = table_console()
    console.print(Text.assemble(f"{job_id} ", state_word(explained.state)))
    console.print(Text(explained.headline, style="bold"))
    is_unchanged = explained.then and explained.now and explained.then.candidates == explained.now.candidates
    if explained.then is not None and not is_unchanged:
        _print_candidates(console, f"{age(explained.then.looked_at_ms)} ago", explained.then, explained.headline)
    if explained.now is not None:
        _print_candidates(console, "now", explained.now, explained.headline)


@click.command()
@click.argument("job_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def cancel(job_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Cancel a job that is waiting or running.

    It works from any instance. The client gets a missing_result.

    \b
    lingua cancel job-0-5f3a2b1c-1
    """
    linger_ms = load_settings(config, {}, ()).settings.job.linger_ms

    async def work(store: Store) -> Cancellation:
        return await cancel_in(store, job_id, linger_ms)

    outcome, record, ended = with_store(work, redis_url, data_dir, config, notes=("jobs.cancel", job_id))
    if record is None or outcome is CancelOutcome.GONE:
        _not_found(job_id)
    if outcome is CancelOutcome.ENDED:
        fail(f"{job_id} has already ended ({ended}) and cannot be cancelled", Exit.SETTINGS)
    if as_json:
        echo(JobCancelled(job_id=job_id, was=record.state, attempt=record.attempt, node_id=record.node_id))
        return
    where = f"attempt {record.attempt} on {record.node_id}" if record.node_id else "waiting for its first node"
    click.echo(plain(f"{job_id} is cancelled; it was {record.state}, {where}"))


def _print_candidates(console: Console, when: str, explanation: Explanation, said: str) -> None:
    """With its headline, unless that was said."""
    shown, total = len(explanation.candidates), sum(explanation.counts.values())
    more = f", {shown} of them shown" if shown < total else ""
    headline = "" if said.startswith(explanation.headline) else f"{explanation.headline} "
    console.print(Text(f"\n{when}: {headline}({counted(total, 'node')} looked at{more})", style="dim"))
    if not explanation.candidates:
        return
    table = job_table("node", "verdict", "why")
    for one in explanation.candidates:
        style = VERDICT_STYLES.get(one.verdict, "red")
        table.add_row(one.node_id, Text(one.verdict.replace("_", " "), style=style), one.detail)
    console.print(table)


def _not_found(job_id: str) -> NoReturn:
    fail(f"there is no job {job_id}, or its record has expired; lingua jobs lists the latest", Exit.SETTINGS)
