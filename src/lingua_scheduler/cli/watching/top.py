"""`lingua top`"""

import asyncio
import os
import signal
from contextlib import aclosing

import click
import msgspec
from rich.live import Live
from rich.text import Text

from lingua_scheduler.cli.credentials import shown_to
from lingua_scheduler.cli.scheduler_access import node_command, url_option
from lingua_scheduler.cli.watching.frames import SORTS, View, frame, next_sort
from lingua_scheduler.cli.watching.keys import keys
from lingua_scheduler.cli.watching.pictures import watch
from lingua_scheduler.cli.watching.watching import Stream, begin, run, write_line
from lingua_scheduler.cli.wording import PIPED_WIDTH, PlainConsole, now_ms, table_console
from lingua_scheduler.domain.watching.following import Seen
from lingua_sdk.watching import Connected, Interrupted

# Curves are drawn as wide as the screen, and a pipe has no width.
PIPED_COLUMNS = 200


@click.command()
@url_option
@click.option("--sort", type=click.Choice(list(SORTS)), default="load", show_default=True, help="Order of the nodes.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.1, 60),
    default=1.0,
    show_default=True,
    help="Seconds between screen updates.",
)
@click.option("--once", is_flag=True, help="Print one frame (with --json: one picture), then exit.")
@click.option("--json", "as_json", is_flag=True, help="Output one JSON object per line: a picture, then each change.")
def top(url: str, sort: str, interval_s: float, once: bool, as_json: bool) -> None:
    """Watch a scheduler live: traffic, alarms, nodes, pairs.

    Keys: q quits, s changes the order of the nodes, p pauses. Without a terminal it prints one frame and exits. If the
    connection is lost, it says so and reconnects.

    \b
    lingua top
    lingua top --sort seen             longest-silent nodes first
    lingua top --once                  print one frame
    lingua top --json | jq -c '.now // .picture.now'
    lingua top --url wss://translate.example.com
    """
    if as_json:
        run(url, _write(url, once))
    else:
        run(url, _show(url, sort, interval_s, once))


async def _write(url: str, once: bool) -> None:
    stream = watch(url, token=shown_to(url))
    async with aclosing(stream):
        await begin(stream, url)
        async for said in stream:
            if isinstance(said, Interrupted):
                click.echo(f"lingua: lost the scheduler ({said.reason}); trying again", err=True)
            elif not isinstance(said, Connected):
                # Decoded and encoded again, so that each object is one line.
                write_line(msgspec.json.encode({"type": said.event} | msgspec.json.decode(said.body)))
                if once:
                    return


async def _show(url: str, sort: str, interval_s: float, once: bool) -> None:
    console = table_console()
    view = View(sort=sort, command=node_command(url))
    stream = watch(url, seen := Seen(), token=shown_to(url))
    async with aclosing(stream):
        while seen.picture is None:
            await begin(stream, url)
        if once or not console.is_terminal or console.is_dumb_terminal:
            # In a pipe nothing is left out.
            width, height = console.size if console.is_terminal else (PIPED_COLUMNS, PIPED_WIDTH)
            for line in frame(seen, view, now_ms(), width, height - 1):
                console.print(line, no_wrap=True, crop=True)
            return
        await Screen(console, seen, view).follow(stream, interval_s)


class Screen:
    """The live view: drawn at every interval, and immediately on a key press or a change of the terminal's size."""

    def __init__(self, console: PlainConsole, seen: Seen, view: View) -> None:
        self._console = console
        self._seen = seen
        self._view = view
        self._held: tuple[Seen, int] | None = None
        self._touched = asyncio.Event()
        self._is_over = False
        self._is_suspended = False

    async def follow(self, stream: Stream, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._touched.set)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        following = asyncio.create_task(self._hear(stream))
        try:
            while not self._is_over and not following.done():
                await self._draw_until_left(following, interval_s)
                if self._is_suspended:
                    self._is_suspended = False
                    os.kill(os.getpid(), signal.SIGSTOP)
        finally:
            following.cancel()
            await asyncio.wait((following,))
        if not following.cancelled():
            following.result()

    async def _draw_until_left(self, following: asyncio.Task[None], interval_s: float) -> None:
        with (
            keys(self.press) as has_keys,
            Live(console=self._console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
        ):
            self._view = self._view._replace(has_keys=has_keys)
            while not (self._is_over or self._is_suspended or following.done()):
                self._touched.clear()
                live.update(self._drawn(), refresh=True)
                try:
                    await asyncio.wait_for(self._touched.wait(), interval_s)
                except TimeoutError:
                    continue

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets its screen back first."""
        self._is_suspended = True
        self._touched.set()

    def press(self, key: str) -> None:
        match key.lower():
            case "q":
                self._is_over = True
            case "s":
                self._view = self._view._replace(sort=next_sort(self._view.sort))
            case "p" | " ":
                self._held = None if self._held else (self._seen.frozen(), now_ms())
                self._view = self._view._replace(is_paused=self._held is not None)
        self._touched.set()

    async def _hear(self, stream: Stream) -> None:
        async for said in stream:
            note = ""
            if isinstance(said, Interrupted):
                note = f"lost the scheduler ({said.reason}); trying again, this is what was seen last"
            if not isinstance(said, Connected):
                self._view = self._view._replace(note=note)

    def _drawn(self) -> Text:
        seen, at_ms = self._held or (self._seen, now_ms())
        width, height = self._console.size
        *lines, foot = frame(seen, self._view, at_ms, width, height)
        lines += [Text()] * (height - 1 - len(lines))
        drawn = Text("\n").join([*lines, foot])
        drawn.no_wrap = True
        return drawn
