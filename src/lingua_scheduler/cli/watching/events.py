"""`lingua events`"""

import textwrap
from collections import deque
from collections.abc import Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import NamedTuple

import click
import msgspec
from rich.cells import cell_len
from rich.console import Console

from lingua_scheduler.cli.credentials import KeySource, shown_to
from lingua_scheduler.cli.options import Exit, fail, span_of
from lingua_scheduler.cli.scheduler_access import unreachable, url_option
from lingua_scheduler.cli.watching.pictures import SomeEvents, understood, watch
from lingua_scheduler.cli.watching.watching import begin, run, write_line
from lingua_scheduler.cli.wording import clock, now_ms, plain, table_console
from lingua_scheduler.domain.watching.picture import Event, Level
from lingua_scheduler.domain.watching.verdict import SEVERITY
from lingua_sdk.http import Refused, get
from lingua_sdk.trouble import Failures, reason_of, trouble_of
from lingua_sdk.watching import Connected, Interrupted, StreamMessage

KEPT = 500
COLOURS = {Level.CRITICAL: "red", Level.WARNING: "yellow", Level.NOTICE: None}


class Wanted(NamedTuple):
    """The filter of events."""

    kinds: tuple[str, ...] = ()
    level: Level = Level.NOTICE
    # Of those that are kept already: from when, and how many at most.
    since_ms: int = 0
    last: int | None = None

    def of(self, events: Iterable[Event]) -> list[Event]:
        return [event for event in events if self._takes(event)]

    def kept(self, events: Iterable[Event]) -> list[Event]:
        found = [event for event in self.of(events) if event.at_ms >= self.since_ms]
        return found if self.last is None else found[len(found) - self.last :] if self.last < len(found) else found

    def _takes(self, event: Event) -> bool:
        is_kind = not self.kinds or any(fnmatchcase(event.kind, kind) for kind in self.kinds)
        return is_kind and SEVERITY[event.level] <= SEVERITY[self.level]


def moment(_context: object, _option: object, text: str | None) -> int | None:
    """For click: `10m`, or a date and a time, as milliseconds since 1970."""
    if text is None:
        return None
    if (span_ms := span_of(text)) is not None:
        return now_ms() - span_ms
    try:
        return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is neither a duration such as 30s, 10m or 2h nor a time such as 2026-11-16T09:30"
        ) from None


@click.command()
@url_option
@click.option("--last", type=click.IntRange(0, KEPT), help="Start with this many past events.  [default: 10]")
@click.option(
    "--since", "since_ms", metavar="WHEN", callback=moment, help="Start with past events since then: 10m, 2h or a time."
)
@click.option(
    "--kind", "kinds", multiple=True, metavar="GLOB", help="Only events of this kind, such as 'node.*'; repeatable."
)
@click.option(
    "--level",
    type=click.Choice([level.value for level in Level]),
    default=Level.NOTICE.value,
    show_default=True,
    help="Only events of this level or above.",
)
@click.option("--once", is_flag=True, help="Show past events only, then exit.")
@click.option("--json", "as_json", is_flag=True, help="Output one JSON object per line.")
def events(
    url: str, last: int | None, since_ms: int | None, kinds: tuple[str, ...], level: str, once: bool, as_json: bool
) -> None:
    """Show changes as they happen, one per line, until Ctrl-C.

    Nodes that connect and disconnect, language pairs that lose or regain their nodes, instances, the leader, alarms and
    failed jobs. If the connection is lost, it reconnects and shows what it missed.

    \b
    lingua events
    lingua events --kind 'node.*' --kind 'pair.*'
    lingua events --level warning --since 1h
    lingua events --once --last 100    past events only, without waiting
    lingua events --json | jq -r '.subject'
    """
    wanted = Wanted(kinds, Level(level), since_ms or 0, 10 if last is None and since_ms is None else last)
    printer = Printer(wanted, as_json)
    run(url, _begin(url, printer) if once else _follow(url, printer), is_endless=not once)


class Printer:
    """Prints the selected events, each once, also if it is received twice."""

    def __init__(self, wanted: Wanted, as_json: bool) -> None:
        console = Console()
        self._wanted = wanted
        self._as_json = as_json
        self._is_terminal = console.is_terminal
        # As everywhere else: who sets COLUMNS wants that width, in a pipe too.
        self._width = table_console().width
        self._has_colour = console.is_terminal and not console.no_color and not console.is_dumb_terminal
        self._heard: deque[tuple[int, str, str, str]] = deque(maxlen=2 * KEPT)
        self._latest_ms = 0

    def begin(self, kept: list[Event]) -> None:
        self._fresh(kept)
        self._write(self._wanted.kept(kept))

    def hear(self, events: list[Event]) -> None:
        self._write(self._wanted.of(self._fresh(events)))

    def catch_up(self, kept: list[Event]) -> None:
        """After a reconnect, print the missed events; earlier ones, which another instance may send, are skipped."""
        self.hear([event for event in kept if event.at_ms >= self._latest_ms])

    def _fresh(self, events: list[Event]) -> list[Event]:
        fresh = []
        for event in events:
            name = (event.at_ms, event.kind, event.subject, event.text)
            if name not in self._heard:
                self._heard.append(name)
                self._latest_ms = max(self._latest_ms, event.at_ms)
                fresh.append(event)
        return fresh

    def _write(self, events: list[Event]) -> None:
        for event in events:
            write_line(msgspec.json.encode(event) if self._as_json else self._line(event).encode())

    def _line(self, event: Event) -> str:
        # A log file is read on other days.
        at = clock(event.at_ms, now_ms() if self._is_terminal else 0)
        words = f"{event.level:<8}  {plain(event.kind):<18}  {plain(event.text)}"
        if cell_len(at) + 2 + cell_len(words) > self._width:
            lines = textwrap.wrap(plain(event.text), max(20, self._width - 2), break_on_hyphens=False)
            words = "\n  ".join((f"{event.level:<8}  {plain(event.kind)}", *lines))
        colour = COLOURS[event.level] if self._has_colour else None
        return f"{at}  {click.style(words, fg=colour) if colour else words}"


async def _begin(url: str, printer: Printer) -> None:
    try:
        kept = await _kept(url)
    except Refused as error:
        fail(f"the scheduler at {url} did not return its events ({error})", Exit.SCHEDULER)
    except Failures as error:
        fail(unreachable(url, trouble_of(error)), Exit.SCHEDULER)
    printer.begin(kept)


async def _follow(url: str, printer: Printer) -> None:
    stream = watch(url, only_events=True, token=shown_to(url))
    async with aclosing(stream):
        await begin(stream, url)
        # What happens from now on waits in the stream.
        await _begin(url, printer)
        is_lost = False
        async for said in stream:
            match said:
                case Interrupted() if not is_lost:
                    is_lost = True
                    _tell(f"lost the connection to {url} ({said.reason}); reconnecting until Ctrl-C")
                case Connected():
                    is_lost = False
                    _tell(f"reconnected to {url}")
                    await _catch_up(url, printer)
                case StreamMessage():
                    told = understood(said)
                    if isinstance(told, SomeEvents):
                        printer.hear(told.events)


async def _catch_up(url: str, printer: Printer) -> None:
    try:
        kept = await _kept(url)
    except (Refused, *Failures) as error:
        _tell(f"events since then could not be fetched ({reason_of(error)})")
    else:
        printer.catch_up(kept)


async def _kept(url: str) -> list[Event]:
    """Oldest first."""
    told = understood(StreamMessage("events", await get(url, f"/v1/events?limit={KEPT}", KeySource(url))))
    return told.events[::-1] if isinstance(told, SomeEvents) else []


def _tell(words: str) -> None:
    click.echo(f"lingua: {words}", err=True)
