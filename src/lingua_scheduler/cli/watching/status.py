"""`lingua status`"""

import os

import click
import msgspec
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import addressed, got, node_command, url_option
from lingua_scheduler.cli.watching import sheet
from lingua_scheduler.cli.wording import NOTHING, PIPED_WIDTH, node_state, now_ms, plain, short_span, table_console
from lingua_scheduler.domain.watching.pairs import served_in_words
from lingua_scheduler.domain.watching.picture import Level, Picture
from lingua_scheduler.domain.watching.verdict import verdict

# Alarms may take this share of the screen; nodes that need a look get what is left.
ALARM_SHARE = 0.35


@click.command()
@url_option
@click.option("--nodes", "with_nodes", is_flag=True, help="Show every node.")
@click.option("--check", is_flag=True, help=f"Exit with code {Exit.CRITICAL} if an alarm is critical.")
@click.option("--json", "as_json", is_flag=True, help="Output the whole picture as JSON.")
def status(url: str, with_nodes: bool, check: bool, as_json: bool) -> None:
    """Show the health of the whole deployment on one screen.

    Alarms, traffic, language pairs with few or no nodes, nodes, instances and Redis. Any instance answers for all that
    share its Redis.

    \b
    lingua status
    lingua status --nodes                 all nodes, not only those with problems
    lingua status --check || send-alert   for scripts and cron
    lingua status --json | jq '.alarms[].text'
    lingua status --url https://translate.example.com

    lingua top shows the same live; lingua events shows changes as they happen.
    """
    body = got(url, "/v1/picture")
    try:
        picture = msgspec.json.decode(body, type=Picture)
    except msgspec.DecodeError as error:
        fail(f"the server at {url} is not a scheduler ({error})", Exit.SCHEDULER)
    picture = _addressed(picture, url)
    if as_json:
        click.echo(body)
    elif with_nodes:
        console = table_console()
        for line in (*sheet.verdict_lines(picture, console.width), Text()):
            console.print(line)
        if picture.nodes:
            console.print(node_table(picture, now_ms()))
        else:
            console.print(Text("No node is connected. Start one with: " + node_command(url)))
    else:
        console = table_console()
        # In a pipe nothing is left out.
        height = console.height if console.is_terminal or "LINES" in os.environ else PIPED_WIDTH
        for line in screen(picture, now_ms(), console.width, height, node_command(url)):
            console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
    if check and (picture.verdict or verdict(picture)).level is Level.CRITICAL:
        raise SystemExit(Exit.CRITICAL)


def _addressed(picture: Picture, url: str) -> Picture:
    """Commands that start a node name this scheduler."""
    alarms = [msgspec.structs.replace(alarm, text=addressed(alarm.text, url)) for alarm in picture.alarms]
    told = picture.verdict and msgspec.structs.replace(picture.verdict, text=addressed(picture.verdict.text, url))
    return msgspec.structs.replace(picture, alarms=alarms, verdict=told)


def screen(picture: Picture, at_ms: int, width: int, height: int, command: str) -> list[Text]:
    """Lines that fit, with one left for the prompt. `command` starts a node."""
    inner = width - sheet.LABEL_WIDTH
    head = [*sheet.verdict_lines(picture, width), Text()]
    alarms = sheet.alarm_lines(picture.alarms, at_ms, width, max(1, int(height * ALARM_SHARE)))
    if alarms:
        alarms.append(Text())
    traffic = sheet.labelled("traffic", sheet.traffic_lines(picture, inner))
    pairs = sheet.labelled("pairs", sheet.pair_lines(picture, inner))
    rest = [
        *(sheet.labelled("rooms", sheet.fitting(sheet.room_line(picture), inner)) if picture.rooms.rooms else ()),
        *sheet.labelled("instances", sheet.fitting(sheet.instance_line(picture), inner)),
        *sheet.labelled("redis", sheet.fitting(sheet.redis_line(picture), inner)),
        *sheet.labelled("asked", sheet.fitting(sheet.scheduler_line(picture, at_ms), inner)),
    ]
    nodes = sheet.fitting(sheet.node_line(picture, command), inner)
    left = height - 1 - sum(map(len, (head, alarms, traffic, pairs, nodes, rest)))
    nodes += sheet.ailing_lines(picture, at_ms, left)
    return [*head, *alarms, *traffic, *pairs, *sheet.labelled("nodes", nodes), *rest]


def node_table(picture: Picture, at_ms: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("node", "state", "taken", "seen", "cpu", "mem", "gpu", "instance", "pairs"):
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
