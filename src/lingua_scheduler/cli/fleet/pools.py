"""`lingua pools`"""

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import LEVEL_STYLES, counted, now_ms, plain, table_console
from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_scheduler.domain.pools.pools import Admission
from lingua_scheduler.domain.watching.pairs import can_write, name_of
from lingua_scheduler.domain.watching.picture import PairLook, WideLook
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.watching.fleet import Member, Members, fleet_of, read_members, served_pair
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.languages import tag_of

# Nodes of one pair that are named; --json has all.
_Sums = dict[str, dict[str, Any]]
MOST_NAMED = 20


@click.command()
@click.argument("src", required=False)
@click.argument("tgt", required=False)
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def pools(
    src: str | None, tgt: str | None, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool
) -> None:
    """Show every language pair with its nodes and free slots.

    Nodes are counted by what they return: speech, or text only. The last line describes the pool map that the
    instances use: its version, its age and the leader. With SRC and TGT it shows only that pair: the nodes that serve
    it, or what is missing. Nodes that serve more than 256 pairs are summarised by their languages; name a pair to see
    whether they serve it.

    \b
    lingua pools
    lingua pools en fr             also EN FR, en:fr, en-US fr-CA
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
    if not found["pairs"] and not found["wide"] and not found["private"]:
        click.echo("no node serves any language pair; start a node with: lingua node --engine sim")
        return
    table = Table("pair", "speech", "text", "free", "slots", "shards", box=None, pad_edge=False, header_style="dim")
    for pair, about in found["pairs"].items():
        style = LEVEL_STYLES[about["level"]] if about["level"] else ""
        free = Text(str(about["free"]), style="red" if about["free"] == 0 else "")
        counts = (str(about["speech"]), str(about["text"]))
        table.add_row(Text(pair, style=style), *counts, free, str(about["slots"]), str(about["shards"]))
    console = table_console()
    if found["pairs"]:
        console.print(table)
    for wide in found["wide"]:
        console.print(_wide_in_words(wide))
    for tenant, own in found["private"].items():
        named = " ".join(own["pairs"]) or "no pair"
        console.print(Text(plain(f"private to {tenant}: {named}")))
        for wide in own["wide"]:
            console.print(Text(plain(f"private to {tenant}: ")).append_text(_wide_in_words(wide)))
    console.print(Text(_about_the_map(found["map"]), style="dim"))


def _show_pair(
    src: str, tgt: str | None, redis_url: str | None, data_dir: str | None, config: Path | None, *, as_json: bool
) -> None:
    if tgt is None:
        src, _, tgt = src.replace("→", ":").partition(":")
    src, tgt = (tag_of(text) or fail(_no_pair(text), Exit.SETTINGS) for text in (src, tgt))
    admission = Admission(load_settings(config, {}, ()).settings.pools.admission)
    found = with_store(lambda store: read_pair(store, src, tgt, admission), redis_url, data_dir, config)
    if as_json:
        click.echo(json.dumps(found))
        return
    for facet, nodes in found["nodes"].items():
        more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
        served = f"{counted(len(nodes), 'node')}: {', '.join(nodes[:MOST_NAMED])}{more}"
        words = plain(f"{found['src']} → {found['tgt']} as {facet}: {served if nodes else found['missing'][facet]}")
        table_console().print(Text(words))
    for tenant, nodes in found["private"].items():
        table_console().print(Text(plain(f"private to {tenant}: {', '.join(nodes[:MOST_NAMED])}")))


def _no_pair(text: str) -> str:
    met = f"; {text!r} is none" if text else ""
    return f"a pair needs two language codes, for example: lingua pools en fr{met}"


async def read_pair(store: Store, src: str, tgt: str, admission: Admission) -> dict[str, Any]:
    """The nodes that serve it, or why none does."""
    explainer = Explainer(store, PoolMapCopy(store.pools), admission)
    members = await read_members(store, now_ms(), {})
    public = {name: member for name, member in members.items() if not member.private_to}
    src, tgt = served_pair(public, src, tgt)
    nodes = {
        facet.value: sorted(name for name, member in public.items() if member.serves(src, tgt, facet))
        for facet in Facet
    }
    private: dict[str, list[str]] = {}
    for name, member in sorted(members.items()):
        if member.private_to and member.serves(src, tgt, Facet.TEXT):
            private.setdefault(member.private_to, []).append(name)
    missing = {
        facet.value: await explainer.missing(str(Pool(src, tgt, facet))) for facet in Facet if not nodes[facet.value]
    }
    return {"src": src, "tgt": tgt, "nodes": nodes, "missing": missing, "private": private}


def _pair(pair: PairLook) -> dict[str, Any]:
    """Slots are those of all who can at least write it."""
    return {
        "speech": pair.nodes,
        "text": pair.text_nodes,
        "free": 0,
        "slots": 0,
        "shards": 0,
        "level": pair.level,
    }


def _wide(wide: WideLook) -> dict[str, Any]:
    return {
        "name": wide.name,
        "sources": wide.sources,
        "text_targets": wide.text,
        "speech_targets": wide.speech,
        "translations": wide.translations,
        "pairs": 0,
        "nodes": wide.text_nodes,
        "free": 0,
        "slots": 0,
        "shards": 0,
        "level": wide.level,
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
        return "no pool map is published; every instance builds its own"
    leader = f"led by {about['leader']}" if about["leader"] else "no leader"
    return f"map version {about['version']} by {about['generated_by']}, {about['age_ms'] / 1000:.0f} s old; {leader}"


async def read(store: Store) -> dict[str, Any]:
    members, published, leader = await asyncio.gather(
        read_members(store, now_ms(), {}), store.pools.published(), store.pools.leader()
    )
    pairs, wide = await _sums(members)
    tenants = sorted({member.private_to for member in members.values()} - {""})
    private = {tenant: await _sums(members, tenant) for tenant in tenants}
    age_ms = max(0, now_ms() - published.generated_at_ms) if published.version else None
    return {
        "pairs": pairs,
        "wide": list(wide.values()),
        "private": {tenant: {"pairs": own, "wide": list(some.values())} for tenant, (own, some) in private.items()},
        "map": {
            "version": published.version,
            "generated_by": published.generated_by,
            "generated_at_ms": published.generated_at_ms,
            "age_ms": age_ms,
            "leader": leader.instance if leader else None,
        },
    }


async def _sums(members: Members, private_to: str = "") -> tuple[_Sums, _Sums]:
    """Pairs and wide pools of public nodes, or of those that are private to a tenant."""
    fleet = await fleet_of(members, private_to=private_to)
    pairs = {name_of(pair): _pair(pair) for pair in fleet.pairs if pair.text_nodes}
    wide = {look.name: _wide(look) for look in fleet.wide if look.text_nodes}
    shards: dict[str, set[int]] = {}
    for member in members.values():
        if member.private_to != private_to or not can_write(member.look):
            continue
        for name in _sums_of(member, pairs):
            about = pairs[name] if name in pairs else wide[name]
            about["free"] += member.look.free or 0
            about["slots"] += member.look.max_jobs
            shards.setdefault(name, set()).add(member.look.shard)
        if member.said.reach is not None:
            wide[member.look.wide]["pairs"] = member.wide_pairs
    for name, about in (*pairs.items(), *wide.items()):
        about["shards"] = len(shards[name])
    return pairs, wide


def _sums_of(member: Member, pairs: Iterable[str]) -> Iterator[str]:
    """The pairs, and the wide pool, in which the slots of a node count."""
    if member.said.reach is None:
        yield from member.said.text
        return
    yield member.look.wide
    for name in pairs:
        src, _, tgt = name.partition(":")
        if member.said.reach.serves(src, tgt, Facet.TEXT):
            yield name
