"""`lingua status`"""

import asyncio

import click
import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.options import DEFAULT_ADDRESS, Exit, fail
from lingua_scheduler.cli.watching import sheet
from lingua_scheduler.cli.wording import NOTHING, PlainConsole, node_state, now_ms, plain, short_span, table_console
from lingua_scheduler.domain.watching.pairs import served_in_words
from lingua_scheduler.domain.watching.picture import Level, Picture
from lingua_scheduler.domain.watching.verdict import verdict
from lingua_scheduler.sdk.address import BadAddress
from lingua_scheduler.sdk.watching import Failures, Refused, get, reason_of

# Alarms may take this share of the screen; nodes that need a look get what is left.
ALARM_SHARE = 0.35


@click.command()
@click.option(
    "--url", default=DEFAULT_ADDRESS, show_default=True, help="The scheduler: ws:// or http://, with or without a path."
)
@click.option("--nodes", "with_nodes", is_flag=True, help="Every node, in a table.")
@click.option("--check", is_flag=True, help=f"End with exit code {Exit.CRITICAL} when something is critical.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable: the whole picture.")
def status(url: str, with_nodes: bool, check: bool, as_json: bool) -> None:
    """Show on one screen whether people are being translated, and what needs a look.

    Alarms in words, traffic, language pairs that are thin or lost, nodes, instances, Redis. Any instance can be asked:
    it answers for all that share its Redis.

    \b
    lingua status
    lingua status --nodes                    every node, not only those that need a look
    lingua status --check || page-somebody   for scripts and cron
    lingua status --json | jq '.alarms[].text'
    lingua status --url https://translate.example.com

    lingua top shows the same live, lingua events what changes.
    """
    try:
        body = asyncio.run(get(url, "/v1/picture"))
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)
    except Refused as error:
        fail(f"the scheduler at {url} does not tell its status ({error})", Exit.SCHEDULER)
    except Failures as error:
        fail(f"no scheduler answers at {url} ({reason_of(error)}); start one with: lingua serve", Exit.SCHEDULER)
    try:
        picture = msgspec.json.decode(body, type=Picture)
    except msgspec.DecodeError as error:
        fail(f"what answers at {url} is no scheduler ({error})", Exit.SCHEDULER)
    if as_json:
        click.echo(body)
    elif with_nodes:
        table_console().print(Group(sheet.verdict_line(picture), Text(), node_table(picture, now_ms())))
    else:
        console = PlainConsole()
        for line in screen(picture, now_ms(), console.width, console.height):
            console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
    if check and verdict(picture).level is Level.CRITICAL:
        raise SystemExit(Exit.CRITICAL)


def screen(picture: Picture, at_ms: int, width: int, height: int) -> list[Text]:
    """Lines that fit, with one left for the prompt."""
    inner = width - sheet.LABEL_WIDTH
    head = [sheet.verdict_line(picture), Text()]
    alarms = sheet.alarm_lines(picture.alarms, at_ms, width, max(1, int(height * ALARM_SHARE)))
    if alarms:
        alarms.append(Text())
    traffic = sheet.labelled("traffic", sheet.traffic_lines(picture))
    pairs = sheet.labelled("pairs", sheet.pair_lines(picture, inner))
    rest = [
        *sheet.labelled("instances", [sheet.instance_line(picture)]),
        *sheet.labelled("redis", [sheet.redis_line(picture)]),
        *sheet.labelled("asked", [sheet.scheduler_line(picture, at_ms)]),
    ]
    nodes = [sheet.node_line(picture)]
    left = height - 1 - sum(map(len, (head, alarms, traffic, pairs, nodes, rest)))
    nodes += sheet.ailing_lines(picture, at_ms, left)
    return [*head, *alarms, *traffic, *pairs, *sheet.labelled("nodes", nodes), *rest]


def node_table(picture: Picture, at_ms: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("node", "state", "taken", "seen", "cpu", "mem", "gpu", "instance", "speaks"):
        table.add_column(column, no_wrap=True, overflow="fold" if column == "node" else "ellipsis")
    for node in picture.nodes:
        table.add_row(
            plain(node.node_id),
            node_state(node, at_ms),
            f"{node.held}/{node.max_jobs}",
            short_span(at_ms - node.seen_at_ms),
            *(NOTHING if share is None else f"{share:.0f}%" for share in (node.cpu, node.memory, node.gpu)),
            plain(node.instance_id),
            plain(served_in_words(node, 6)),
        )
    return table
