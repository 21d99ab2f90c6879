"""`lingua nodes` and `lingua node-info`"""

import json
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.fleet.joined import approve, ban, joined
from lingua_scheduler.cli.groups import Group
from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import age, node_state, now_ms, plain, short_span, table_console
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.pools.pools import Admission, why_unpooled
from lingua_scheduler.services.watching.fleet import Member, read_member, read_members
from lingua_scheduler.store.store import Store

# As people read them; --json has the names.
LABELS = {
    "node_id": "node",
    "max_jobs": "slots",
    "held": "taken",
    "alive_for_ms": "expires in",
    "quarantined_for_ms": "quarantined",
    "unavailable_for_ms": "lacks",
    "level": "verdict",
    "wide_pairs": "pairs, if very many",
    "private_to": "only for tenant",
    "acknowledges": "acknowledges jobs",
    "version": "version it announces",
    "reserved": "jobs sent to it",
    "running": "jobs it runs",
}
# On a terminal.
MOST_PAIRS = 6
ABSENT = {"level": "well", "free": "takes no work"}


@click.group(cls=Group, invoke_without_command=True)
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
@click.pass_context
def nodes(
    context: click.Context, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool
) -> None:
    """Show every node: state, slots, language pairs.

    "expires in" is the time until the node counts as gone unless it sends a heartbeat.

    \b
    lingua nodes
    lingua nodes --json | jq '.nodes[] | select(.state != "ready")'
    lingua nodes approve gpu-7
    """
    if context.invoked_subcommand is not None:
        return
    members = with_store(_members, redis_url, data_dir, config)
    if as_json:
        click.echo(json.dumps({"nodes": [described(member) for member in members]}))
        return
    if not members:
        click.echo("there are no nodes; start one with: lingua node --engine sim")
        return
    console = table_console()
    table = Table(
        "node", "state", "taken", "shard", "expires in", "pairs", box=None, pad_edge=False, header_style="dim"
    )
    for member in members:
        about = described(member)
        node = member.look
        table.add_row(
            node.node_id,
            node_state(node, now_ms()),
            f"{node.held}/{node.max_jobs}",
            str(node.shard),
            f"{about['alive_for_ms'] / 1000:.0f} s",
            _private_in_words(about) + _pairs_in_words(about, MOST_PAIRS if console.is_terminal else None),
        )
    console.print(table)


for _command in (joined, approve, ban):
    nodes.add_command(_command)


@click.command("node-info")
@click.argument("node_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def node_info(node_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Show one node: state, leases, last errors.

    Also how many of its attempts succeeded in the last hour, and how long they took.

    \b
    lingua node-info node-1A2B3C4D
    """

    admission = Admission(load_settings(config, {}, ()).settings.pools.admission)

    async def look(store: Store) -> dict[str, Any] | None:
        member = await read_member(store, node_id)
        if member is None:
            return None
        leases = await store.ledger.leases(node_id, member.row.shard)
        reserved = sum(lease.state == JobState.DISPATCHED for lease in leases)
        tally = await store.tallies.read(member.row.shard, node_id, now_ms())
        hint = _hint_about(member, admission)
        return {
            **described(member),
            **({} if hint is None else {"hint": hint}),
            "lately": msgspec.to_builtins(tally) | {"failed_percent": tally.failed_percent},
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
        table.add_row(Text(LABELS.get(name, name.replace("_", " ")), style="dim"), _shown(name, value))
    table_console().print(table)


def _hint_about(member: Member, admission: Admission) -> str | None:
    """Why it gets no jobs, though it is there; None if it serves a pair, or is not meant to."""
    if member.pairs or member.wide_pairs or not member.is_pooled:
        return None
    return why_unpooled(member.said.languages, admission, takes_text=member.said.takes_text)


def _shown(name: str, value: Any) -> str:
    if name == "lately":
        return _lately_in_words(value)
    if name == "leases":
        return "\n".join(f"{lease['lease']}  {lease['state']}" for lease in value) or "none"
    if name == "languages":
        pairs = value.get("nmt")
        spelled = "any" if pairs is None else " ".join(":".join(pair) for pair in pairs)
        lists = [f"{kind} {' '.join(value.get(kind, ()))}" for kind in ("asr", "semantic", "tts")]
        return "\n".join([*lists, f"nmt {spelled}"])
    if name == "quarantined_for_ms":
        return "no" if value is None else f"for {short_span(value)}" if value else "its next job is a probe"
    if name == "unavailable_for_ms":
        return "\n".join(f"{service} for {short_span(ms)}" for service, ms in value.items()) or "none"
    if name == "alive_for_ms":
        return f"{short_span(value)} without another heartbeat"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: ABSENT.get(name, "-"), True: "yes", False: "no"}[value]
    return str(value) or "-"


def _lately_in_words(lately: dict[str, Any]) -> str:
    """The last hour: how much failed, how long it took, and the last errors."""
    if not lately["done"] + lately["failed"]:
        return "no attempts in the last hour"
    lines = [f"{lately['done']} done, {lately['failed']} failed ({lately['failed_percent']} %) in the last hour"]
    if lately["mean_ms"] is not None:
        lines.append(f"mean {lately['mean_ms']} ms, slowest {lately['slowest_ms']} ms")
    if lately["real_time_factor"] is not None:
        lines.append(f"real-time factor {lately['real_time_factor']}")
    lines += [f"{age(error['at_ms'])} ago {error['reason']} {error['job_id']}" for error in lately["errors"]]
    return "\n".join(lines)


def _private_in_words(about: dict[str, Any]) -> str:
    return f"for {plain(about['private_to'])}: " if about["private_to"] else ""


def _pairs_in_words(about: dict[str, Any], most: int | None) -> str:
    """`most` is how many are named; None: all of them."""
    if about["wide_pairs"]:
        return f"any of {about['wide_pairs']}"
    pairs = about["pairs"]
    left_out = len(pairs) - len(pairs[:most])
    return " ".join(pairs[:most]) + (f" +{left_out}" if left_out else "")


async def _members(store: Store) -> list[Member]:
    return [member for _, member in sorted((await read_members(store, now_ms(), {})).items())]


def described(member: Member) -> dict[str, Any]:
    row, said = member.row, member.said
    at_ms = now_ms()
    asr, semantic, tts, translations = said.languages
    return {
        "node_id": row.node_id,
        "state": member.look.state,
        "private_to": member.private_to,
        "shard": row.shard,
        "max_jobs": row.max_jobs,
        "held": row.held,
        "free": row.free,
        "alive_for_ms": max(0, row.alive_until_ms - at_ms),
        "quarantined_for_ms": member.quarantined_for_ms(at_ms),
        "unavailable_for_ms": member.unavailable_for_ms(at_ms),
        "level": member.look.level,
        "pairs": member.pairs,
        "wide_pairs": member.wide_pairs,
        "languages": {
            "asr": sorted(asr),
            "semantic": sorted(semantic),
            "tts": sorted(tts),
            "nmt": None if translations is None else sorted(map(list, translations)),
        },
        "services": said.services,
        "version": said.version,
        "platform": said.platform,
        "instance": row.owner.owner.instance,
        "connection": row.owner.owner.link,
        "epoch": int(row.owner.epoch),
        "acknowledges": row.owner.features.acknowledges,
    }
