"""A scheduler that says what a collector would find: `python -m tests.support.cycles REDIS_URL`, then SIGUSR1."""

import asyncio
import gc
import json
import signal
import sys
from collections import Counter

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


async def main(url: str) -> None:
    logs.configure("error", "json", 100)
    async with scheduler_on(url, sessions__grace_ms=100, sessions__hangover_manual_ms=20) as (scheduler, _):
        gc.disable()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell_cycles)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        say(port=scheduler.port)
        await ended.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1]))
