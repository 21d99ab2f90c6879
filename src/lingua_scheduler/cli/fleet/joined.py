"""`lingua nodes joined`, `lingua nodes approve` and `lingua nodes ban`: which nodes may work, asked of a scheduler."""

import asyncio
from urllib.parse import quote

import click
import msgspec
from rich.table import Table

from lingua_scheduler.cli.credentials import shown_to
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import asked, url_option
from lingua_scheduler.cli.wording import clock, now_ms, plain, table_console
from lingua_scheduler.domain.nodes.nodes import NODE_ID
from lingua_scheduler.protocol.http_enrolment import BanAnswer, JoinedNode, JoinedNodes
from lingua_sdk.http import get, post


@click.command()
@url_option
@click.option("--label", default="", metavar="NAME=VALUE", help="Only nodes with this label.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def joined(url: str, label: str, as_json: bool) -> None:
    """List the credentials of nodes.

    Those that wait for approval come first. The key of an administrator is needed.

    \b
    lingua nodes joined
    lingua nodes joined --label region=eu
    lingua nodes joined --json | jq '.nodes[] | select(.is_approved | not)'
    """
    token, path = shown_to(url), "/v1/enrolments"
    if label:
        if not all(label.partition("=")):
            fail(f"{label!r} is not NAME=VALUE", Exit.SETTINGS)
        path += f"?label={quote(label)}"
    said = asked(url, lambda: asyncio.run(get(url, path, token)))
    if as_json:
        click.echo(said)
        return
    found = msgspec.json.decode(said, type=JoinedNodes).nodes
    if not found and label:
        click.echo(f"no node with a credential has the label {plain(label)}")
        return
    if not found:
        click.echo("no node has a credential; let one join with: lingua keys create --kind enrol")
        return
    table = Table("node", "state", "labels", "slots", "tenant", "since", box=None, pad_edge=False, header_style="dim")
    for one in found:
        table.add_row(*_row(one))
    table_console().print(table)


@click.command()
@click.argument("node_id", metavar="NODE")
@url_option
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def approve(node_id: str, url: str, as_json: bool) -> None:
    """Let a node work that has joined and waits for approval.

    The key of an administrator is needed.

    \b
    lingua nodes approve gpu-7
    """
    said = _changed(url, node_id, "approve")
    if as_json:
        click.echo(said)
        return
    one = msgspec.json.decode(said, type=JoinedNode)
    click.echo(f"{plain(one.node_id)} is approved; it connects by itself")


@click.command()
@click.argument("node_id", metavar="NODE")
@url_option
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def ban(node_id: str, url: str, as_json: bool) -> None:
    """End the credentials of a node at once.

    Its connection is closed and its jobs are retried on other nodes. The key of an administrator is needed.

    \b
    lingua nodes ban gpu-7
    """
    said = _changed(url, node_id, "ban")
    if as_json:
        click.echo(said)
        return
    banned = msgspec.json.decode(said, type=BanAnswer)
    click.echo(f"{plain(banned.node_id)} is banned")
    for key_id in banned.enrolled_with:
        hint = f"its owner may still have the enrolment key; to end that too: lingua keys revoke {plain(key_id)}"
        click.echo(hint, err=True)


def _changed(url: str, node_id: str, verb: str) -> bytes:
    if not NODE_ID.fullmatch(node_id):
        fail(f"{node_id!r} cannot be a node id; lingua nodes joined lists them", Exit.SETTINGS)
    token = shown_to(url)
    return asked(url, lambda: asyncio.run(post(url, f"/v1/nodes/{node_id}/{verb}", b"", token)))


def _row(one: JoinedNode) -> tuple[str, ...]:
    labels = " ".join(f"{name}={value}" for name, value in sorted(one.labels.items()))
    return (
        plain(one.node_id) or "the first that comes",
        ("live" if one.is_approved else "pending") + (", ephemeral" if one.is_ephemeral else ""),
        plain(labels) or "-",
        str(one.max_slots or "-"),
        plain(one.tenant) + (", private" if one.is_private else ""),
        clock(one.created_ms, now_ms()) if one.created_ms else "-",
    )
