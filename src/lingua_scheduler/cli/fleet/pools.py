"""`lingua pools`"""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import counted, plain, table_console
from lingua_scheduler.domain.pools.languages import is_code
from lingua_scheduler.domain.pools.pools import Admission, Facet, pool_name
from lingua_scheduler.domain.pools.selection import WidePool
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.store.store import Store


@click.command()
@click.argument("src", required=False)
@click.argument("tgt", required=False)
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def pools(
    src: str | None, tgt: str | None, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool
) -> None:
    """Show every language pair: how many nodes serve it as speech and as text, and their free slots.

    The last line is about the map the instances work with: its version, its age, and who leads. With SRC and TGT, only
    that pair: who serves it, or what is missing. Nodes that serve more than 256 pairs each are summed up by their
    languages; ask for a pair to see whether they serve it.

    \b
    lingua pools
    lingua pools en fr
    lingua pools --json | jq '.pairs["en:zh"]'
    lingua pools --redis-url redis://db:6379/0
    """
    if src is not None:
        _show_pair(src, tgt, redis_url, data_dir, config, as_json=as_json)
        return
    found = with_store(read, redis_url, data_dir, config)
    if as_json:
        click.echo(json.dumps(found))
        return
    if not found["pairs"] and not found["wide"]:
        click.echo("no node serves any pair; start one with: lingua node --engine sim")
        return
    table = Table("pair", "speech", "text", "free", "slots", "shards", box=None, pad_edge=False, header_style="dim")
    for pair, about in found["pairs"].items():
        # A pair that one lost node would break deserves a look.
        lonely = "yellow" if about["speech"] == 1 else ""
        free = Text(str(about["free"]), style="red" if about["free"] == 0 else "")
        counts = (str(about["speech"]), str(about["text"]))
        table.add_row(Text(pair, style=lonely), *counts, free, str(about["slots"]), str(about["shards"]))
    console = table_console()
    if found["pairs"]:
        console.print(table)
    for wide in found["wide"]:
        console.print(_wide_in_words(wide))
    console.print(Text(_about_the_map(found["map"]), style="dim"))


def _show_pair(
    src: str, tgt: str | None, redis_url: str | None, data_dir: str | None, config: Path | None, *, as_json: bool
) -> None:
    if tgt is None or not (is_code(src) and is_code(tgt)):
        fail("a pair is two language codes, such as: lingua pools en fr", Exit.SETTINGS)
    admission = Admission(load_settings(config, {}, ()).settings.pools.admission)
    found = with_store(lambda store: read_pair(store, src, tgt, admission), redis_url, data_dir, config)
    if as_json:
        click.echo(json.dumps(found))
        return
    for facet, nodes in found["nodes"].items():
        served = f"{len(nodes)} nodes: {', '.join(nodes[:20])}{' …' if len(nodes) > 20 else ''}"
        click.echo(plain(f"{src} → {tgt} as {facet}: {served if nodes else found['missing'][facet]}"))


async def read_pair(store: Store, src: str, tgt: str, admission: Admission) -> dict[str, Any]:
    """Who serves it, and where nobody does, why."""
    explainer = Explainer(store, PoolMapCopy(store.pools), admission)
    names = {facet.value: pool_name(src, tgt, facet) for facet in Facet}
    views = await store.nodes.view()
    nodes = {facet: sorted(view.node_id for view in views if name in view.serves) for facet, name in names.items()}
    missing = {facet: await explainer.missing(name) for facet, name in names.items() if not nodes[facet]}
    return {"src": src, "tgt": tgt, "nodes": nodes, "missing": missing}


def _wide(name: str, wide: WidePool) -> dict[str, Any]:
    reach = wide.reach
    return {
        "name": name,
        "sources": sorted(reach.sources),
        "text_targets": sorted(reach.text),
        "speech_targets": sorted(reach.speech),
        "translations": reach.by_source,
        "pairs": reach.count(),
        "nodes": sum(wide.shards.values()),
        "free": 0,
        "slots": 0,
        "shards": len(wide.shards),
    }


def _wide_in_words(wide: dict[str, Any]) -> Text:
    sources, targets = len(wide["sources"]), len(wide["text_targets"])
    any_of = f"any of {sources} languages → any of {targets}"
    if wide["translations"] is not None:
        any_of = f"{wide['pairs']} pairs of {sources} languages → {targets}"
    spoken = "" if len(wide["speech_targets"]) == targets else f" ({len(wide['speech_targets'])} spoken)"
    text = Text(f"{any_of}{spoken}: {counted(wide['nodes'], 'node')}, ")
    text.append(f"{wide['free']}/{wide['slots']} free", style="" if wide["free"] else "red")
    return text


def _about_the_map(about: dict[str, Any]) -> str:
    if not about["version"]:
        return "no map is published; every instance builds its own"
    leader = f"led by {about['leader']}" if about["leader"] else "nobody leads"
    return f"map version {about['version']} by {about['generated_by']}, {about['age_ms'] / 1000:.0f} s old; {leader}"


async def read(store: Store) -> dict[str, Any]:
    pool_map, nodes, published, leader = await asyncio.gather(
        store.pools.build_map(), store.nodes.view(), store.pools.published(), store.pools.leader()
    )
    pairs: dict[str, dict[str, int]] = {}
    for pool in sorted(pool_map.nodes):
        src, tgt, _ = pool.split(":")
        about = pairs.setdefault(f"{src}:{tgt}", {"speech": 0, "text": 0, "free": 0, "slots": 0, "shards": 0})
        for facet in Facet:
            shards = pool_map.nodes_of(pool_name(src, tgt, facet))
            about[facet.value] = sum(shards.values())
            about["shards"] = max(about["shards"], len(shards))
    wide = {name: _wide(name, one) for name, one in pool_map.wide.items()}
    for node in nodes:
        served = node.pairs
        if node.reach is not None:
            served = [pair for pair in pairs if f"{pair}:{Facet.TEXT.value}" in node.serves]
        sums = [pairs[pair] for pair in served if pair in pairs] + [wide[pool] for pool in node.pools if pool in wide]
        for about in sums:
            about["free"] += node.free or 0
            about["slots"] += node.max_jobs
    age_ms = max(0, int(time.time() * 1000) - published.generated_at_ms) if published.version else None
    return {
        "pairs": pairs,
        "wide": list(wide.values()),
        "map": {
            "version": published.version,
            "generated_by": published.generated_by,
            "generated_at_ms": published.generated_at_ms,
            "age_ms": age_ms,
            "leader": leader.instance if leader else None,
        },
    }
