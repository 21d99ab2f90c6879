"""`lingua nodes` and `lingua node-info`"""

import json
import time
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import STATE_STYLES, table_console
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.store.nodes.nodes import NodeView
from lingua_scheduler.store.store import Store

# Leased, but not yet known to have begun.
RESERVED = (JobState.RESERVED, JobState.DISPATCHED)


@click.command()
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def nodes(redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Show every node: its state, its slots, its pairs, and for how long it counts as alive.

    \b
    lingua nodes
    lingua nodes --json | jq '.nodes[] | select(.state != "ready")'
    """
    views = with_store(_views, redis_url, data_dir, config)
    if as_json:
        click.echo(json.dumps({"nodes": [described(view) for view in views]}))
        return
    if not views:
        click.echo("no nodes yet; start one with: lingua node --engine sim")
        return
    table = Table("node", "state", "taken", "shard", "alive for", "pairs", box=None, pad_edge=False, header_style="dim")
    for view in views:
        about = described(view)
        table.add_row(
            view.node_id,
            shown_state(about),
            f"{view.held}/{view.max_jobs}",
            str(view.shard),
            f"{about['alive_for_ms'] / 1000:.0f} s",
            _pairs_in_words(about),
        )
    table_console().print(table)


@click.command("node-info")
@click.argument("node_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def node_info(node_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Show all that is known of one node, and the leases it holds.

    \b
    lingua node-info node-1A2B3C4D
    """

    async def look(store: Store) -> dict[str, Any] | None:
        place = await store.nodes.place_of(node_id)
        view = None if place is None else await store.nodes.view_one(node_id, place.shard)
        if view is None:
            return None
        leases = await store.nodes.leases(node_id, view.shard)
        reserved = sum(lease.state in RESERVED for lease in leases)
        return described(view) | {
            "reserved": reserved,
            "running": len(leases) - reserved,
            "leases": [
                {"lease": lease.attempt.lease, "state": lease.state, "deadline_ms": lease.deadline_ms}
                for lease in leases
            ],
        }

    about = with_store(look, redis_url, data_dir, config)
    if about is None:
        fail(f"there is no node {node_id}; lingua nodes lists them", Exit.SETTINGS)
    if as_json:
        click.echo(json.dumps(about))
        return
    table = Table.grid(padding=(0, 2))
    for name, value in about.items():
        table.add_row(Text(name, style="dim"), _shown(name, value))
    table_console().print(table)


def _shown(name: str, value: Any) -> str:
    if name == "leases":
        return "\n".join(f"{lease['lease']}  {lease['state']}" for lease in value) or "none"
    if name == "languages":
        pairs = value.get("nmt")
        spelled = "any" if pairs is None else " ".join(":".join(pair) for pair in pairs)
        lists = [f"{kind} {' '.join(value.get(kind, ()))}" for kind in ("asr", "semantic", "tts")]
        return "\n".join([*lists, f"nmt {spelled}"])
    if name == "quarantined_for_ms":
        return "no" if value is None else f"{value / 1000:.0f} s" if value else "its next job is a probe"
    if name == "unavailable_for_ms":
        return "\n".join(f"{service} for {ms / 1000:.0f} s" for service, ms in value.items()) or "none"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return str(value)


def _pairs_in_words(about: dict[str, Any]) -> str:
    if about["wide_pairs"]:
        return f"any of {about['wide_pairs']}"
    pairs = about["pairs"]
    return " ".join(pairs[:6]) + (f" +{len(pairs) - 6}" if len(pairs) > 6 else "")


def shown_state(node: dict[str, Any]) -> Text:
    """Whether a node gets work, and if not, why and for how long."""
    remaining_ms = node.get("quarantined_for_ms")
    if remaining_ms is not None:
        return Text(f"quarantined {remaining_ms / 1000:.0f} s" if remaining_ms else "on probation", style="red")
    state = Text(node["state"], style=STATE_STYLES.get(node["state"], ""))
    if unavailable := node.get("unavailable_for_ms"):
        state.append(f" without {' '.join(unavailable)}", style="yellow")
    return state


async def _views(store: Store) -> list[NodeView]:
    return await store.nodes.view()


def described(view: NodeView) -> dict[str, Any]:
    said = msgspec.json.decode(view.profile)
    epoch, instance, link, features = view.owner.split(" ")
    now_ms = int(time.time() * 1000)
    return {
        "node_id": view.node_id,
        "state": view.state,
        "shard": view.shard,
        "max_jobs": view.max_jobs,
        "held": view.held,
        "free": view.free,
        "alive_for_ms": max(0, view.alive_until_ms - now_ms),
        "quarantined_for_ms": view.quarantined_for_ms(now_ms),
        "unavailable_for_ms": view.unavailable_for_ms(now_ms),
        "pairs": view.pairs,
        "wide_pairs": view.wide_pairs,
        "languages": dict(zip(("asr", "semantic", "tts", "nmt"), said.get("languages") or (), strict=False)),
        "services": said.get("services", []),
        "version": said.get("version", ""),
        "platform": said.get("platform", ""),
        "instance": instance,
        "connection": link,
        "epoch": int(epoch),
        "acknowledges": Features.parse(features).acknowledges,
    }
