"""`lingua instances`"""

from pathlib import Path

import click
import msgspec
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.options import load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import short_span, table_console
from lingua_scheduler.protocol.http_instances import InstanceAbout, InstanceList
from lingua_scheduler.services.cluster import dead_letters
from lingua_scheduler.store.store import Store

STYLES = {"alive": "green", "stopped": "dim", "dead": "red"}


@click.command()
@redis_options
@click.option("--wide", is_flag=True, help="Also show host, process id, version, and letters being handled.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def instances(redis_url: str | None, data_dir: str | None, config: Path | None, wide: bool, as_json: bool) -> None:
    """Show every scheduler instance that shares this Redis.

    For each: whether it is alive, stopped or dead, and how many letters (messages from other instances) wait for it.

    \b
    lingua instances
    lingua instances --wide
    lingua instances --json | jq '.instances[] | select(.state == "dead")'
    """
    dead_ms = load_settings(config, {}, ()).settings.instances.dead_ms

    async def look(store: Store) -> InstanceList:
        return await dead_letters.list_instances(store, dead_ms)

    found = with_store(look, redis_url, data_dir, config)
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    if not found.instances:
        click.echo("no scheduler has used this Redis recently; start one with: lingua serve")
        return
    rows = [_row(about) for about in found.instances]
    columns = [name for name in rows[0] if wide or name not in ("host", "pid", "version", "pending")]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        # Names are copied into the next command, so they are never cut.
        table.add_column(name, no_wrap=name != "instance", overflow="fold")
    for row in rows:
        table.add_row(*(row[name] for name in columns))
    table_console(is_wide=wide).print(table)


def _row(about: InstanceAbout) -> dict[str, Text | str]:
    return {
        "instance": about.instance_id,
        "state": Text(about.state, style=STYLES[about.state]),
        "address": about.address,
        "host": about.host,
        "pid": str(about.pid),
        "version": about.version,
        "for": short_span(about.uptime_ms if about.state == "alive" else about.silent_ms),
        "inbox": str(about.inbox_letters),
        "pending": str(about.inbox_pending),
        "dead letters": Text(str(about.dead_letters), style="red" if about.dead_letters else ""),
    }
