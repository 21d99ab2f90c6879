"""`lingua node FILE`: loads the engines of a file, says what they serve, and serves it."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import click

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import not_allowed
from lingua_scheduler.cli.speech.joining import NodePlace
from lingua_scheduler.cli.speech.own_engines import OwnEngine, named, tag
from lingua_scheduler.cli.speech.shortcomings import told, why_nothing, why_text_only
from lingua_scheduler.cli.wording import stamp
from lingua_scheduler.telemetry import logs, traces
from lingua_sdk.access import AccessDenied
from lingua_sdk.node import Node
from lingua_sdk.self_test import MAX_PAIRS, pairs_of


def serve(file: Path, own: OwnEngine, node: Callable[[], Node], place: NodePlace) -> None:
    """Until it is told to leave; ends with an exit code if it cannot load, or has nothing to serve."""
    asyncio.run(_serve(file, own, node(), place))


async def _serve(file: Path, own: OwnEngine, worker: Node, place: NodePlace) -> None:
    try:
        is_loaded = await _loaded(worker)
    except Exception:
        # The node has told of it.
        fail(f"{file.name}: its engines cannot be loaded", Exit.ENGINES)
    if is_loaded:
        for line in _served(file, own):
            click.echo(f"{stamp()} {line}", err=True)
        await serving(worker, place.url, place.advice)


def _served(file: Path, own: OwnEngine) -> list[str]:
    """What is served, in words."""
    try:
        able = own.abilities()
        pairs = pairs_of(able)
    except Exception as error:
        fail(f"{file.name}: {told(error)}", Exit.ENGINES)
    if not pairs:
        fail(f"{file.name} serves nothing: {why_nothing(own)}", Exit.ENGINES)
    spoken = set(map(tag, able.speaks))
    silent = [(source, target) for source, target in pairs if target not in spoken][:MAX_PAIRS]
    lines = [f"serving {named(pairs)}; {able.slots} at once"]
    return lines + [f"{named([pair])} is text only ({why_text_only(own, pair[1])})" for pair in silent]


async def _loaded(worker: Node) -> bool:
    """Whether it is, or the node was told to leave before."""
    loop = asyncio.get_running_loop()
    leaving = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leaving.set)
    loading, left = asyncio.create_task(worker.load()), asyncio.create_task(leaving.wait())
    try:
        await asyncio.wait((loading, left), return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
        return loading.done()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        loading.cancel()
        left.cancel()
        # An engine that loads in a thread obeys the second cancellation alone, which is that of the loop's end.
        await asyncio.sleep(0)


async def serving(worker: Node, url: str, advice: str = "") -> None:
    logs.configure("info", "auto")
    tracing = traces.configure(traces.NODE, os.environ)
    if tracing is not None:
        tracing.install()
    try:
        await worker.serve()
    except AccessDenied as error:
        if advice:
            fail(f"the scheduler at {url} refused ({error.code}: {error.detail}); {advice}", Exit.NOT_ALLOWED)
        not_allowed(url, error)
    finally:
        if tracing is not None:
            await tracing.close()
