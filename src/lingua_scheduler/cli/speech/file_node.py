"""`lingua node FILE`: loads the engines of a file, says what they serve, and serves it."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import click

from lingua_scheduler.cli.speech.own_engines import OwnEngine, named
from lingua_scheduler.cli.wording import stamp
from lingua_scheduler.sdk.node import Node
from lingua_scheduler.sdk.self_test import pairs_of
from lingua_scheduler.telemetry import logs, traces


def serve(file: Path, own: OwnEngine, node: Callable[[], Node]) -> None:
    asyncio.run(_serve(own, node()))


async def _serve(own: OwnEngine, worker: Node) -> None:
    if await _loaded(worker):
        able = own.abilities()
        click.echo(f"{stamp()} serving {named(pairs_of(able))}; {able.slots} at once", err=True)
        await serving(worker)


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


async def serving(worker: Node) -> None:
    logs.configure("info", "auto")
    tracing = traces.configure(traces.NODE, os.environ)
    if tracing is not None:
        tracing.install()
    try:
        await worker.serve()
    finally:
        if tracing is not None:
            await tracing.close()
