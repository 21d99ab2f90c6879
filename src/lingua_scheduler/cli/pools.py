"""`lingua pools`"""

import asyncio
import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.fleet import redis_options, with_store
from lingua_scheduler.store.store import Store


@click.command()
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def pools(redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Show every language pair: how many nodes serve it as speech and as text, and their free slots.

    \b
    lingua pools
    lingua pools --json | jq '.pairs["en:zh"]'
    lingua pools --redis-url redis://db:6379/0
    """
    found = with_store(read, redis_url, data_dir, config)
    if as_json:
        click.echo(json.dumps(found))
        return
    if not found["pairs"]:
        click.echo("no node serves any pair; start one with: lingua node --engine sim")
        return
    table = Table("pair", "speech", "text", "free", "slots", "shards", box=None, pad_edge=False, header_style="dim")
    for pair, about in found["pairs"].items():
        # A pair that one lost node would break deserves a look.
        lonely = "yellow" if about["speech"] == 1 else ""
        free = Text(str(about["free"]), style="red" if about["free"] == 0 else "")
        counts = (str(about["speech"]), str(about["text"]))
        table.add_row(Text(pair, style=lonely), *counts, free, str(about["slots"]), str(about["shards"]))
    Console().print(table)


async def read(store: Store) -> dict[str, Any]:
    pool_map, nodes = await asyncio.gather(store.pools.build_map(), store.nodes.view())
    pairs: dict[str, dict[str, int]] = {}
    for pool, shards in sorted(pool_map.nodes.items()):
        src, tgt, facet = pool.split(":")
        about = pairs.setdefault(f"{src}:{tgt}", {"speech": 0, "text": 0, "free": 0, "slots": 0, "shards": 0})
        about[facet] = sum(shards.values())
        about["shards"] = max(about["shards"], len(shards))
    for node in nodes:
        for pair in {pool.rsplit(":", 1)[0] for pool in node.pools}:
            if pair in pairs:
                pairs[pair]["free"] += node.free or 0
                pairs[pair]["slots"] += node.max_jobs
    return {"pairs": pairs}
