"""`lingua instances`"""

from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.fleet import redis_options, with_store
from lingua_scheduler.cli.options import load_settings
from lingua_scheduler.protocol.http_instances import InstanceList
from lingua_scheduler.services import letters
from lingua_scheduler.store.store import Store


@click.command()
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def instances(redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Show every scheduler that shares this Redis, dead or alive, and the mail that waits for it.

    \b
    lingua instances
    lingua instances --json | jq '.instances[] | select(.state == "dead")'
    """
    dead_ms = load_settings(config, {}, ()).settings.instances.dead_ms

    async def look(store: Store) -> InstanceList:
        return await letters.list_instances(store, dead_ms)

    found = with_store(look, redis_url, data_dir, config)
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    if not found.instances:
        click.echo("no scheduler has used this Redis lately; start one with: lingua serve")
        return
    columns = ("instance", "state", "host", "pid", "version", "address", "up for", "inbox", "pending", "dead letters")
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for about in found.instances:
        table.add_row(
            about.instance_id,
            Text(about.state, style="green" if about.state == "alive" else "red"),
            about.host,
            str(about.pid),
            about.version,
            about.address,
            f"{about.uptime_ms / 1000:.0f} s" if about.state == "alive" else "",
            str(about.inbox_letters),
            str(about.inbox_pending),
            Text(str(about.dead_letters), style="red" if about.dead_letters else ""),
        )
    Console().print(table)
