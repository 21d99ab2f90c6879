"""`lingua scaling`"""

import click
import msgspec
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import got, url_option
from lingua_scheduler.cli.wording import counted, now_ms, plain, short_span, table_console
from lingua_scheduler.domain.watching.scaling import Capacity, PairScaling, Scaling
from lingua_sdk.domain.languages import tag_of

_COLUMNS = ("pair", "wanted", "slots", "free", "busy", "draining", "waiting", "jobs/s", "s/job", "load")


@click.command()
@click.argument("pairs", metavar="[PAIR]...", nargs=-1)
@url_option
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def scaling(pairs: tuple[str, ...], url: str, as_json: bool) -> None:
    """Show how many slots the load calls for, and how many there are.

    The last line is about all pairs together, where each slot counts once: a node that serves several pairs is in each
    of their lines. With PAIRs it is about the nodes of these pairs alone. Autoscalers read the same from /v1/scaling.

    \b
    lingua scaling
    lingua scaling en:zh zh:en
    lingua scaling --json | jq .wanted_slots
    """
    body = got(url, "/v1/scaling" + (f"?pair={','.join(map(_pair, pairs))}" if pairs else ""))
    try:
        found = msgspec.json.decode(body, type=Scaling)
    except msgspec.DecodeError as error:
        fail(f"the server at {url} is not a scheduler of this release ({error})", Exit.SCHEDULER)
    if as_json:
        click.echo(body)
        return
    table = Table(*_COLUMNS, box=None, pad_edge=False, header_style="dim")
    for column in table.columns[1:]:
        column.justify = "right"
    for pair in found.pairs:
        table.add_row(*_row(pair))
    capacity = found.capacity
    table.add_row(
        *("together", str(found.wanted_slots)),
        *_slots(capacity, found.wanted_slots),
        *(str(found.waiting), f"{found.arrivals_per_s:g}", "", f"{found.load:.2f}"),
        style="bold",
    )
    console = table_console()
    console.print(table)
    for line in _notes(found):
        console.print(Text(line, style="dim"))


def _pair(text: str) -> str:
    src, _, tgt = text.replace("→", ":").partition(":")
    tags = (tag_of(src), tag_of(tgt))
    if not all(tags):
        fail(f"{text!r} is not a language pair; for example: lingua scaling en:zh", Exit.SETTINGS)
    return f"{tags[0]}:{tags[1]}"


def _row(pair: PairScaling) -> tuple[str | Text, ...]:
    return (
        plain(f"{pair.src}:{pair.tgt}"),
        str(pair.wanted_slots),
        *_slots(pair.capacity, pair.wanted_slots),
        str(pair.waiting),
        f"{pair.arrivals_per_s:g}",
        "-" if pair.node_s_per_job is None else f"{pair.node_s_per_job:.2f}",
        f"{pair.load:.2f}",
    )


def _slots(capacity: Capacity, wanted: int) -> tuple[str | Text, ...]:
    slots = Text(str(capacity.slots), style="red" if capacity.slots < wanted else "")
    return (slots, str(capacity.free), str(capacity.busy), str(capacity.draining))


def _notes(found: Scaling) -> list[str]:
    notes = [f"{counted(found.capacity.nodes, 'node')}"]
    if not found.is_settled:
        notes.append("measuring began a moment ago: no fewer slots are wanted than there are")
    if found.is_stale:
        notes.append(f"Redis is unavailable: this was known {short_span(now_ms() - found.at_ms)} ago")
    return notes
