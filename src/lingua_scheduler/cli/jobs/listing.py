"""`lingua jobs`: the latest jobs, or the failure history"""

import re
import time
from pathlib import Path
from typing import Any

import click

from lingua_scheduler.cli.jobs.tables import echo, job_table, lookup_in, pair_of, state_word
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import age, table_console
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.watching.failures import FailedJob, FailureFilter
from lingua_scheduler.protocol.http_jobs import LIST_MAX, FailureList, JobList, JobView
from lingua_scheduler.store.jobs.records import JobFilter
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.languages import tag_of

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,7}) ?(s|min|m|h|d)", re.ASCII)


class Span(click.ParamType[int]):
    """A length of time, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _SPAN.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a length of time; write 90s, 30m, 2h or 7d", param, ctx)
        return int(found[1]) * _UNITS[found[2]]


class PairName(click.ParamType[str]):
    name = "src:tgt"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        src, colon, tgt = str(value).replace("→", ":").partition(":")
        if not (src and colon and tgt) or ":" in tgt:
            self.fail(f"{value!r} is not a language pair; write it as en:de", param, ctx)
        return f"{tag_of(src) or src}:{tag_of(tgt) or tgt}"


@click.command()
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
@click.option("--failed", is_flag=True, help="Show the failure history of the whole fleet, which outlives the jobs.")
@click.option(
    "--state",
    type=click.Choice([state.value for state in JobState], case_sensitive=False),
    metavar="STATE",
    help=f"Only jobs in this state: {', '.join(state.value.lower() for state in JobState)}.",
)
@click.option("--since", "since_s", type=Span(), help="Only jobs of this last time, such as 30m, 2h or 7d.")
@click.option("--node", "node_id", default="", help="Only jobs that this node has or had.")
@click.option("--session", default="", help="Only jobs of this session.")
@click.option("--pair", type=PairName(), default=None, help="Only jobs of this language pair, such as en:de.")
@click.option("--tenant", default="", help="With --failed: only jobs of this tenant, as clients named it (tenant_id).")
@click.option("--limit", type=click.IntRange(1, LIST_MAX), default=50, show_default=True, help="Maximum number shown.")
def jobs(
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    as_json: bool,
    failed: bool,
    state: str | None,
    since_s: int | None,
    node_id: str,
    session: str,
    pair: str | None,
    tenant: str,
    limit: int,
) -> None:
    """Show the latest jobs, newest first.

    \b
    lingua jobs
    lingua jobs --failed --since 2h
    lingua jobs --node node-1A2B3C4D
    lingua jobs --session s-1A2B3C4D5E6F7081 --json | jq '.jobs[].job_id'
    """
    if failed and state:
        raise click.UsageError("--failed shows failed jobs only; leave --state out")
    if tenant and not failed:
        raise click.UsageError("only the failure history knows tenants; add --failed")
    since_ms = 0 if since_s is None else int((time.time() - since_s) * 1000)
    chosen = node_id, session, pair or ""
    is_choosy = bool(state or since_s or tenant or any(chosen))
    if failed:
        wanted = FailureFilter(since_ms, *chosen, tenant_id=tenant)
        failures = with_store(lambda store: _failures(store, wanted, limit), redis_url, data_dir, config)
        _print_failures(failures, as_json, is_choosy)
        return

    async def look(store: Store) -> list[JobView]:
        asked = JobFilter((state or "").upper(), session, node_id, pair or "", since_ms)
        return await lookup_in(store, config).latest(asked, limit)

    _print_jobs(with_store(look, redis_url, data_dir, config), as_json, is_choosy)


async def _failures(store: Store, wanted: FailureFilter, limit: int) -> list[FailedJob]:
    return await store.failures.latest(wanted, limit)


def _print_jobs(found: list[JobView], as_json: bool, is_choosy: bool) -> None:
    if as_json:
        echo(JobList(jobs=found))
        return
    if not found:
        click.echo("no recent job matches; lingua jobs shows all" if is_choosy else "there are no recent jobs")
        return
    table = job_table("job", "state", "pair", "attempt", "node", "age", "session", "reason")
    for job in found:
        began_ms = min(job.times_ms.values(), default=0)
        table.add_row(
            job.job_id,
            state_word(job.state),
            pair_of(job),
            str(job.attempt),
            job.node_id or "-",
            age(began_ms),
            f"{job.session_id} {job.utterance_index}",
            job.reason,
        )
    table_console().print(table)


def _print_failures(found: list[FailedJob], as_json: bool, is_choosy: bool) -> None:
    if as_json:
        echo(FailureList(failures=found))
        return
    if not found:
        click.echo("no failed job matches; lingua jobs --failed shows all" if is_choosy else "no job has failed")
        return
    table = job_table("ago", "job", "pair", "node", "code", "session", "reason")
    for one in found:
        table.add_row(
            age(one.at_ms),
            one.job_id or "-",
            f"{one.src}→{one.tgt}",
            one.node_id or "-",
            one.code,
            f"{one.session_id} {one.utterance_index}" if one.session_id else "-",
            one.reason if one.count == 1 else f"{one.count} failures of this kind, too many to record one by one",
        )
    table_console().print(table)
    if any(one.job_id for one in found):
        click.echo("\nwhy: lingua explain JOB")
