"""`lingua redis`: check and repair the data in Redis, print its ACL, finish an upgrade."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.groups import Group
from lingua_scheduler.cli.listing import flowing
from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import plain, table_console
from lingua_scheduler.domain.maintenance.findings import Finding
from lingua_scheduler.domain.maintenance.versions import DATA_VERSION, VersionClaimOutcome, refusal
from lingua_scheduler.store import rights
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.maintenance.facts import ServerFacts, facts_of
from lingua_scheduler.store.scripts import read_library
from lingua_scheduler.store.store import Store


@click.group(cls=Group)
def redis() -> None:
    """Check, repair and upgrade the data in Redis.

    \b
    lingua redis check             find inconsistent data
    lingua redis check --repair    repair it while schedulers run
    lingua redis acl               print the permissions a scheduler needs
    lingua redis upgrade           run after the last instance was upgraded
    """


@redis.command()
@redis_options
@click.option("--repair", is_flag=True, help="Remove or rebuild inconsistent data; safe while schedulers run.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def check(redis_url: str | None, data_dir: str | None, config: Path | None, repair: bool, as_json: bool) -> None:
    """Find orphaned or inconsistent data in Redis.

    It finds nodes, leases, jobs, pools and letters that no living instance or node owns, and counts that are wrong. It
    looks twice, a few seconds apart, so that a change in progress is not reported. It also shows the server's version,
    persistence and memory.

    \b
    lingua redis check
    lingua redis check --repair --redis-url redis://db:6379/0
    lingua redis check --json | jq '.findings[].words'

    Dead letters of an instance that is gone are shown as notes, not as problems; see lingua dead-letters.

    Exit codes: 0 no problems, or all repaired, 1 problems found, 2 invalid settings, 3 Redis is unusable.
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

    notes = ("redis.repair", "") if repair else None
    about, found, left = with_store(look, redis_url, data_dir, config, writes=repair, notes=notes)
    if as_json:
        repaired = {"repaired": [_described(finding) for finding in found if finding not in left]} if repair else {}
        click.echo(json.dumps(about | {"findings": [_described(finding) for finding in left]} | repaired))
    else:
        _show(about, found, left, repair)
    raise SystemExit(Exit.FOUND if any(finding.is_repairable for finding in left) else 0)


@redis.command()
@click.option("--user", default="lingua", show_default=True, help="Name of the Redis user.")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings. [env: LINGUA_CONFIG]")
def acl(user: str, config: Path | None) -> None:
    """Print the command that creates a least-privilege Redis user.

    Replace PASSWORD in it, and run it on every server: masters, replicas, every member of a Cluster.

    \b
    lingua redis acl
    lingua redis acl --user translate
    """
    settings = load_settings(config, {}, ()).settings
    click.echo(rights.acl_line(read_library(), settings.redis.key_prefix, user))


@redis.command()
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def upgrade(redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Finish an upgrade, once every instance runs this release.

    During a rolling upgrade the data keeps the version of the older release, so that you can roll back. This command
    raises the data version: the previous release can no longer start, and the next release can.

    \b
    lingua redis upgrade
    """

    async def finish(store: Store) -> tuple[VersionClaimOutcome, str]:
        return await store.versions.claim(finish=True)

    outcome, stored = with_store(finish, redis_url, data_dir, config, notes=("redis.upgrade", str(DATA_VERSION)))
    if reason := refusal(outcome, stored):
        fail(reason, Exit.REDIS)
    if as_json:
        click.echo(json.dumps({"data_version": DATA_VERSION, "outcome": outcome.value}))
        return
    word = "is now" if outcome in (VersionClaimOutcome.RAISED, VersionClaimOutcome.WRITTEN) else "was already"
    click.echo(f"the data {word} at version {DATA_VERSION}")


def _described(finding: Finding) -> dict[str, object]:
    return {
        "kind": finding.kind.value,
        "key": finding.key,
        "words": finding.words,
        "repairable": finding.is_repairable,
    }


def _show(about: dict[str, Any], found: list[Finding], left: list[Finding], repair: bool) -> None:
    facts_shown = Table.grid(padding=(0, 3))
    for server in about["servers"]:
        facts = ServerFacts(**{name: value for name, value in server.items() if name != "promise"})
        where = f"port {facts.port}" if facts.port else "Unix socket"
        for name, value in (
            ("server", f"{facts.version}, {facts.topology}, {where}, {facts.round_trip_ms:.2f} ms a round trip"),
            ("keeps data", f"{facts.persistence}: {facts.promise}"),
            ("replicas", f"{facts.replicas}" + ("; a failover may lose the last writes" if facts.replicas else "")),
            ("memory", f"{facts.memory} of {facts.memory_limit}, when full: {facts.maxmemory_policy}"),
            ("scripts", f"{facts.scripts_loaded} of {facts.scripts} loaded; each is loaded when it is first called"),
        ):
            facts_shown.add_row(name, value)
    facts_shown.add_row("data", f"version {about['data_version'] or 'none yet'}; this release knows {DATA_VERSION}")
    console = table_console()
    console.print(facts_shown, Text())
    for finding in found:
        if not finding.is_repairable:
            mark = Text("note ")
        elif finding in left:
            mark = Text("found", style="red")
        else:
            mark = Text("fixed", style="green")
        for line in (*flowing(console, mark, (plain(finding.words),), 7), Text(f"       {plain(finding.key)}")):
            console.print(line)
    faults = [finding for finding in left if finding.is_repairable]
    if not any(finding.is_repairable for finding in found):
        click.echo("no problems found")
    elif faults and not repair:
        click.echo(f"\n{len(faults)} findings; lingua redis check --repair repairs what it can while schedulers run")
    sys.stdout.flush()
