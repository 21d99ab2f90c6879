"""`lingua status`"""

import asyncio
import json
from typing import Any

import aiohttp
import click
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.options import DEFAULT_ADDRESS, Exit, fail
from lingua_scheduler.sdk.address import BadAddress, page_url

STATE_STYLES = {"ready": "green", "registering": "yellow", "degraded": "yellow", "draining": "cyan", "offline": "red"}


@click.command()
@click.option(
    "--url", default=DEFAULT_ADDRESS, show_default=True, help="The scheduler: ws:// or http://, with or without a path."
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def status(url: str, as_json: bool) -> None:
    """Show one scheduler at a glance: Redis, sessions, jobs, nodes and their slots.

    \b
    lingua status
    lingua status --json | jq .slots
    """
    try:
        found = asyncio.run(fetch(url))
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        fail(f"no scheduler answers at {url} ({error}); start one with: lingua serve", Exit.SCHEDULER)
    if "error" in found:
        fail(f"{found['error']}: {found['detail']}", Exit.SCHEDULER)
    if as_json:
        click.echo(json.dumps(found))
    else:
        Console().print(picture(found, url))


async def fetch(url: str) -> dict[str, Any]:
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout) as http, http.get(page_url(url, "/v1/status")) as response:
        found: dict[str, Any] = await response.json()
        return found


def picture(found: dict[str, Any], url: str) -> RenderableType:
    ended = found["jobs_ended"]
    slots = found["slots"]
    head = Table.grid(padding=(0, 2))
    head.add_row(
        "scheduler", f"{found['instance_id']}  version {found['version']}  up {_span(found['uptime_seconds'])}"
    )
    head.add_row("redis", f"{found['redis']['version']}  {found['redis']['url']}")
    head.add_row("sessions", str(found["sessions"]))
    done, silent, failed = ended["DONE"], ended["NO_TEXT"], ended["FAILED"]
    head.add_row("jobs", f"{done} done, {silent} without text, {failed} failed, {found['jobs_waiting']} waiting")
    head.add_row("slots", f"{slots['taken']} of {slots['total']} taken")
    if not found["nodes"]:
        return Group(head, Text(f"no nodes yet; start one with: lingua node --engine sim --url {url}", style="yellow"))
    nodes = Table("node", "state", "taken", "pairs", "services", box=None, pad_edge=False, header_style="dim")
    for node in found["nodes"]:
        nodes.add_row(
            node["node_id"],
            shown_state(node),
            f"{node['held']}/{node['max_jobs']}",
            _short(node["pairs"], 4),
            _short(node["services"], 2),
        )
    return Group(head, Text(), nodes)


def shown_state(node: dict[str, Any]) -> Text:
    """Whether a node gets work, and if not, why and for how long."""
    remaining_ms = node.get("quarantined_for_ms")
    if remaining_ms is not None:
        return Text(f"quarantined {remaining_ms / 1000:.0f} s" if remaining_ms else "on probation", style="red")
    state = Text(node["state"], style=STATE_STYLES.get(node["state"], ""))
    if unavailable := node.get("unavailable_for_ms"):
        state.append(f" without {' '.join(unavailable)}", style="yellow")
    return state


def _short(words: list[str], most: int) -> str:
    more = len(words) - most
    return " ".join(words[:most]) + (f" +{more}" if more > 0 else "")


def _span(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
