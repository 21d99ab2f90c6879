"""`lingua node`"""

import asyncio
import os
import signal

import click

from lingua_scheduler.cli.options import DEFAULT_ADDRESS, Exit, fail
from lingua_scheduler.domain.languages import is_code
from lingua_scheduler.engines.sim import LANGUAGES, SimEngine
from lingua_scheduler.sdk.address import BadAddress
from lingua_scheduler.sdk.node import Abilities, Node
from lingua_scheduler.telemetry import logs, traces


@click.command()
@click.option(
    "--url", default=DEFAULT_ADDRESS, show_default=True, help="The scheduler: ws:// or http://, with or without a path."
)
@click.option(
    "--engine",
    type=click.Choice(["sim"]),
    required=True,
    help="sim: measures the audio and makes up the rest; says so.",
)
@click.option(
    "--languages", default=",".join(LANGUAGES), show_default=True, help="Languages it claims, comma-separated."
)
@click.option("--slots", type=click.IntRange(1, 256), default=4, show_default=True, help="Jobs at once.")
@click.option("--id", "node_id", help="Keep this id over restarts.  [default: the scheduler gives one]")
@click.option(
    "--delay-ms", type=click.FloatRange(0, 60_000), default=120, show_default=True, help="How long sim works on a job."
)
def node(url: str, engine: str, languages: str, slots: int, node_id: str | None, delay_ms: float) -> None:
    """Run a node: it dials in, says which languages it serves, works, and reconnects by itself.

    \b
    lingua node --engine sim                           all simulated languages, 4 slots
    lingua node --engine sim --languages en,zh --slots 1
    lingua node --engine sim --url wss://scheduler.example

    SIGTERM or Ctrl-C lets running jobs finish, then leaves.
    """
    codes = [code.strip() for code in languages.split(",") if code.strip()]
    wrong = [code for code in codes if not is_code(code)]
    if wrong or not codes:
        named = f"{wrong[0]!r} is not a language code" if wrong else "no language is named"
        fail(f"{named}; try --languages en,zh", Exit.SETTINGS)
    try:
        worker = Node(
            url,
            SimEngine(base_ms=delay_ms),
            Abilities(recognises=codes, repairs=codes, speaks=codes, slots=slots),
            node_id=node_id,
            on_event=lambda event, detail: click.echo(f"node {event}: {detail}", err=True),
        )
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)
    if engine == "sim":
        click.echo("This node is simulated: it measures audio and makes up the words.", err=True)
    asyncio.run(_run(worker))


async def _run(worker: Node) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    running = asyncio.ensure_future(worker.run())
    stopping = asyncio.ensure_future(stopped.wait())
    logs.configure("info", "auto")
    tracing = traces.configure(traces.NODE, os.environ)
    if tracing is not None:
        tracing.install()
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await worker.stop()
        await running  # and whatever ended it is told
    finally:
        if tracing is not None:
            await tracing.close()
