"""`lingua job`, `lingua jobs`, `lingua explain` and `lingua cancel`"""

import time
from pathlib import Path
from typing import NoReturn

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import plain, table_console
from lingua_scheduler.domain.jobs.attempts import CancelOutcome
from lingua_scheduler.domain.jobs.jobs import LIVE, JobState
from lingua_scheduler.domain.pools.pools import Admission
from lingua_scheduler.protocol.http_jobs import LIST_MAX, Explanation, JobCancelled, JobExplanation, JobList, JobView
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.cancelling import Cancellation
from lingua_scheduler.services.dispatch.cancelling import cancel as cancel_in
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.lookup import Lookup
from lingua_scheduler.store.store import Store

STYLES = {JobState.DONE: "green", JobState.FAILED: "red", JobState.CANCELLED: "yellow"} | dict.fromkeys(LIVE, "cyan")
VERDICT_STYLES = {"has_it": "cyan", "free": "green", "full": "yellow", "not_in_pool": "dim"}


@click.command()
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option(
    "--state", type=click.Choice([state.value for state in JobState], case_sensitive=False), help="Only in this state."
)
@click.option("--session", default="", help="Only of this session.")
@click.option("--limit", type=click.IntRange(1, LIST_MAX), default=50, show_default=True, help="How many at most.")
def jobs(
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    as_json: bool,
    state: str | None,
    session: str,
    limit: int,
) -> None:
    """Show the latest jobs, newest first.

    \b
    lingua jobs
    lingua jobs --state FAILED --limit 10
    lingua jobs --session s-1A2B3C4D5E6F7081 --json | jq '.jobs[].job_id'
    """

    async def look(store: Store) -> list[JobView]:
        return await _lookup(store, config).latest((state or "").upper(), session, limit)

    found = with_store(look, redis_url, data_dir, config)
    if as_json:
        _echo(JobList(jobs=found))
        return
    if not found:
        is_choosy = state or session
        click.echo("no recent job is like that; lingua jobs shows all" if is_choosy else "there were no jobs lately")
        return
    table = _table("job", "state", "pair", "attempt", "node", "age", "session", "reason")
    for job in found:
        began_ms = min(job.times_ms.values(), default=0)
        table.add_row(
            job.job_id,
            _state(job.state),
            _pair(job),
            str(job.attempt),
            job.node_id or "-",
            _age(began_ms),
            f"{job.session_id} {job.utterance_index}",
            job.reason,
        )
    table_console().print(table)


@click.command()
@click.argument("job_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def job(job_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Show one job: its state, where it is or was, and what happened to it.

    \b
    lingua job job-0-i-5f3a2b1c-1
    """

    async def look(store: Store) -> JobView | None:
        return await _lookup(store, config).find(job_id)

    found = with_store(look, redis_url, data_dir, config)
    if found is None:
        _not_found(job_id)
    if as_json:
        _echo(found)
        return
    rows: dict[str, str | Text] = {
        "job": found.job_id,
        "state": _state(found.state),
        "pair": _pair(found),
        "attempt": f"{found.attempt} on {found.node_id}" if found.node_id else "none",
        "session": f"{found.session_id}, utterance {found.utterance_index}",
        "owner": found.owner,
        "shard": str(found.shard),
        "reason": " - ".join(filter(None, (found.reason, found.detail))),
    }
    rows |= {name: f"{_age(at_ms)} ago" for name, at_ms in sorted(found.times_ms.items(), key=lambda item: item[1])}
    grid = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        if value:
            grid.add_row(Text(name, style="dim"), value)
    table_console().print(grid)
    if found.history:
        table = _table("state", "after", "attempt", "node", "reason")
        first_ms = found.history[0].at_ms
        for line in found.history:
            after = f"{line.at_ms - first_ms} ms"
            table.add_row(_state(line.state), after, str(line.attempt), line.node_id or "-", line.reason)
        table_console().print(Text(), table)
    click.echo(f"\nwhy: lingua explain {plain(job_id)}")


@click.command()
@click.argument("job_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def explain(job_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Say why a job waited, failed or was tried again: each node that was looked at, and why it was not taken.

    \b
    lingua explain job-0-i-5f3a2b1c-1
    lingua explain job-0-i-5f3a2b1c-1 --json | jq -r .headline
    """

    async def look(store: Store) -> JobExplanation | None:
        pool_map = PoolMapCopy(store.pools)
        await pool_map.refresh()
        return await _lookup(store, config, pool_map).explain(job_id)

    explained = with_store(look, redis_url, data_dir, config)
    if explained is None:
        _not_found(job_id)
    if as_json:
        _echo(explained)
        return
    console = table_console()
    console.print(Text.assemble(f"{job_id} ", _state(explained.state)))
    console.print(Text(explained.headline, style="bold"))
    is_unchanged = explained.then and explained.now and explained.then.candidates == explained.now.candidates
    if explained.then is not None and not is_unchanged:
        _print_candidates(console, f"{_age(explained.then.looked_at_ms)} ago", explained.then)
    if explained.now is not None:
        _print_candidates(console, "now", explained.now)


@click.command()
@click.argument("job_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def cancel(job_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Cancel a job that waits or runs, whichever scheduler has it; its listener hears that there is no result.

    \b
    lingua cancel job-0-i-5f3a2b1c-1
    """
    linger_ms = load_settings(config, {}, ()).settings.job.linger_ms

    async def work(store: Store) -> Cancellation:
        return await cancel_in(store, job_id, linger_ms)

    outcome, record, ended = with_store(work, redis_url, data_dir, config)
    if record is None or outcome is CancelOutcome.GONE:
        _not_found(job_id)
    if outcome is CancelOutcome.ENDED:
        fail(f"{job_id} has ended already: {ended}; there is nothing left to cancel", Exit.SETTINGS)
    if as_json:
        _echo(JobCancelled(job_id=job_id, was=record.state, attempt=record.attempt, node_id=record.node_id))
        return
    where = f"attempt {record.attempt} on {record.node_id}" if record.node_id else "it waited for its first node"
    click.echo(plain(f"{job_id} is cancelled; it was {record.state}, {where}"))


def _lookup(store: Store, config: Path | None, pool_map: PoolMapCopy | None = None) -> Lookup:
    admission = Admission(load_settings(config, {}, ()).settings.pools.admission)
    return Lookup(store, Explainer(store, pool_map or PoolMapCopy(store.pools), admission))


def _print_candidates(console: Console, when: str, explanation: Explanation) -> None:
    shown, total = len(explanation.candidates), sum(explanation.counts.values())
    more = f", {shown} of them shown" if shown < total else ""
    console.print(Text(f"\n{when}: {explanation.headline} ({total} nodes looked at{more})", style="dim"))
    if not explanation.candidates:
        return
    table = _table("node", "verdict", "why")
    for one in explanation.candidates:
        style = VERDICT_STYLES.get(one.verdict, "red")
        table.add_row(one.node_id, Text(one.verdict.replace("_", " "), style=style), one.detail)
    console.print(table)


def _not_found(job_id: str) -> NoReturn:
    fail(f"there is no job {job_id}, or it is forgotten by now; lingua jobs lists the latest", Exit.SETTINGS)


def _echo(answer: msgspec.Struct) -> None:
    click.echo(msgspec.json.encode(answer))


def _table(*columns: str) -> Table:
    """Ids are copied into the next command, so they are never cut; sentences give way."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, no_wrap=column not in ("reason", "session", "why"), overflow="fold")
    return table


def _state(state: str) -> Text:
    return Text(state, style=STYLES.get(JobState(state), "") if state in JobState.__members__ else "")


def _pair(job: JobView) -> str:
    return f"{job.src_lang}→{job.tgt_lang}"


def _age(at_ms: int) -> str:
    seconds = max(0, int(time.time() - at_ms / 1000))
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3_600} h"
