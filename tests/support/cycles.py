"""A scheduler that says after SIGUSR1 what a collector would find: `python -m tests.support.cycles URL SETTINGS`.

The settings are JSON, with names as `scheduler_on` takes them."""

import asyncio
import gc
import json
import signal
import sys
from collections import Counter
from typing import Any

import uvloop

from lingua_scheduler.telemetry import logs
from tests.support.schedulers import scheduler_on


def say(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def tell_cycles() -> None:
    """What only a collector frees, by type; then it is freed."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    found = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.garbage)
    gc.set_debug(0)
    gc.garbage.clear()
    gc.collect()
    say(cycles=found)


async def main(url: str, **settings: Any) -> None:
    logs.configure("error", "json", 100)
    async with scheduler_on(url, **settings) as (scheduler, _):
        gc.disable()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell_cycles)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        say(port=scheduler.port)
        await ended.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], **json.loads(sys.argv[2])))
