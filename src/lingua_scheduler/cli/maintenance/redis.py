"""`lingua redis`: look at what is in Redis, put it right, and let the right user in."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import plain
from lingua_scheduler.domain.maintenance.findings import Finding
from lingua_scheduler.domain.maintenance.versions import DATA_VERSION, ClaimOutcome, refusal
from lingua_scheduler.store import rights
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.maintenance.facts import ServerFacts, facts_of
from lingua_scheduler.store.scripts import read_library
from lingua_scheduler.store.store import Store

FOUND_SOMETHING = 1


@click.group()
def redis() -> None:
    """Look after the Redis the schedulers use.

    \b
    lingua redis check             is anything wrong in there?
    lingua redis check --repair    put it right, while everybody works on
    lingua redis acl               the rights a scheduler needs
    lingua redis upgrade           after the last instance was upgraded
    """


@redis.command()
@redis_options
@click.option("--repair", is_flag=True, help="Remove or rebuild what is wrong; safe while schedulers run.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def check(redis_url: str | None, data_dir: str | None, config: Path | None, repair: bool, as_json: bool) -> None:
    """Find what nobody answers for any more: nodes, leases, jobs, pools and mail of the dead, and wrong counts.

    Looks twice, a few seconds apart, so that what is in the middle of a change is not taken for a fault. Also says
    which server this is, and what it promises about the data.

    \b
    lingua redis check
    lingua redis check --repair --redis-url redis://db:6379/0
    lingua redis check --json | jq '.findings[].words'

    Dead letters of an instance that is gone are for a person to read (lingua dead-letters); they are no fault.

    Exit codes: 0 nothing is wrong (any more), 1 something is, 2 bad settings, 3 Redis cannot be used.
    """
    console = Console(stderr=True)

    async def look(store: Store) -> tuple[dict[str, Any], list[Finding], list[Finding]]:
        with console.status("looking") as status:
            checkup = Checkup(store, on_step=status.update)
            about, stored = await asyncio.gather(facts_of(store), store.versions.read())
            if repair:
                found, left = await checkup.put_right()
            else:
                found = left = await checkup.look()
        servers = [facts._asdict() | {"promise": facts.promise} for facts in about]
        return {"data_version": stored, "servers": servers}, found, left

    about, found, left = with_store(look, redis_url, data_dir, config, writes=repair)
    if as_json:
        repaired = {"repaired": [_described(finding) for finding in found if finding not in left]} if repair else {}
        click.echo(json.dumps(about | {"findings": [_described(finding) for finding in left]} | repaired))
    else:
        _show(about, found, left, repair)
    raise SystemExit(FOUND_SOMETHING if any(finding.is_repairable for finding in left) else 0)


@redis.command()
@click.option("--user", default="lingua", show_default=True, help="Name of the user.")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings. [env: LINGUA_CONFIG]")
def acl(user: str, config: Path | None) -> None:
    """Print the command that makes a Redis user with the rights a scheduler needs, and no others.

    Put a password in place of PASSWORD, and run it on every server: masters, replicas, every member of a Cluster.

    \b
    lingua redis acl
    lingua redis acl --user translate
    """
    settings = load_settings(config, {}, ()).settings
    click.echo(rights.acl_line(read_library(), settings.redis.key_prefix, user))


@redis.command()
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def upgrade(redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Say that every instance runs this release: from now on the release before it cannot start any more.

    While instances are upgraded one after another the data keeps the version of the older release, so that you can
    go back. The release after this one refuses to start until this was said.

    \b
    lingua redis upgrade
    """

    async def finish(store: Store) -> tuple[ClaimOutcome, str]:
        return await store.versions.claim(finish=True)

    outcome, stored = with_store(finish, redis_url, data_dir, config)
    if reason := refusal(outcome, stored):
        fail(reason, Exit.REDIS)
    if as_json:
        click.echo(json.dumps({"data_version": DATA_VERSION, "outcome": outcome.value}))
        return
    word = "is now" if outcome in (ClaimOutcome.RAISED, ClaimOutcome.WRITTEN) else "was already"
    click.echo(f"the data {word} of version {DATA_VERSION}")


def _described(finding: Finding) -> dict[str, object]:
    return {
        "kind": finding.kind.value,
        "key": finding.key,
        "words": finding.words,
        "repairable": finding.is_repairable,
    }


def _show(about: dict[str, Any], found: list[Finding], left: list[Finding], repair: bool) -> None:
    for server in about["servers"]:
        facts = ServerFacts(**{name: value for name, value in server.items() if name != "promise"})
        where = f"port {facts.port}" if facts.port else "Unix socket"
        for name, value in (
            ("server", f"{facts.version}, {facts.topology}, {where}, {facts.round_trip_ms:.2f} ms a round trip"),
            ("keeps data", f"{facts.persistence}: {facts.promise}"),
            ("replicas", f"{facts.replicas}" + ("; a failover may lose the last writes" if facts.replicas else "")),
            ("memory", f"{facts.memory} of {facts.memory_limit}, when full: {facts.maxmemory_policy}"),
            ("scripts", f"{facts.scripts_loaded} of {facts.scripts} loaded"),
        ):
            click.echo(f"{name:12} {value}")
    click.echo(f"{'data':12} version {about['data_version'] or 'none yet'}; this release knows {DATA_VERSION}\n")
    for finding in found:
        if not finding.is_repairable:
            mark = "note "
        elif finding in left:
            mark = click.style("found", fg="red")
        else:
            mark = click.style("fixed", fg="green")
        click.echo(f"{mark}  {plain(finding.words)}\n       {plain(finding.key)}")
    faults = [finding for finding in left if finding.is_repairable]
    if not any(finding.is_repairable for finding in found):
        click.echo("nothing is wrong")
    elif faults and not repair:
        click.echo(
            f"\n{len(faults)} findings; lingua redis check --repair puts right what can be, while everybody works on"
        )
    sys.stdout.flush()
