"""Holders of leases killed with SIGKILL between reserve and send: every slot comes back by itself."""

import asyncio
import os
import signal
import sys
from collections import Counter

import pytest

from lingua_scheduler.store.store import Store
from lingua_sdk.client import Client
from lingua_sdk.protocol.session import TranslationResult
from tests.support.fleet import entry, join
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

# Each takes a tenth of a second; HOLDERS=1000 for a longer look.
HOLDERS = int(os.environ.get("HOLDERS", "250"))
NODES, SLOTS = 20, 4
LEASE_MS = 1_500

# Forks one child after the other; each reserves a slot, says so, and is killed before it can do anything else.
HOLDER = f"""
import asyncio, os, signal, sys
from lingua_scheduler.store.store import Store
from tests.support.fleet import RULES, order

async def reserve(serial):
    store = Store(sys.argv[1], key_prefix="lingua:v1")
    await store.open()
    wanted = order(serial, run_ms={LEASE_MS})
    placed = await store.jobs.dispatch(0, wanted, RULES)
    os.write(1, (placed.outcome + "\\n").encode())
    await asyncio.Event().wait()

for serial in range({HOLDERS}):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        asyncio.run(reserve(serial))
    said = os.read(read, 100)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read), os.close(write)
    sys.stdout.write(said.decode())
    sys.stdout.flush()
"""


@pytest.mark.timeout(900)
async def test_killed_holders_leave_no_slot_taken(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (_, store):
        for i in range(NODES):
            await join(store, entry(f"n{i}", max_jobs=SLOTS, alive_ms=3_600_000))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDER, server.url, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        outcomes = Counter(said.decode().split())
        assert sum(outcomes.values()) == HOLDERS
        # Slots come back while holders still die, so most of them found one.
        assert outcomes["dispatched"] > HOLDERS / 10

        async def all_free() -> bool:
            return all((view.held, view.free) == (0, SLOTS) for view in await store.node_views.all())

        await until(all_free, within_s=LEASE_MS / 1000 + 30)
        assert await store.line.call("ZCARD", store.keys.shard(0).leases) == 0


RACER = """
import asyncio, sys
from lingua_scheduler.store.store import Store
from tests.support.fleet import RULES, order

async def main():
    store = Store(sys.argv[1], key_prefix="lingua:v1")
    await store.open()
    print("ready", flush=True)
    sys.stdin.readline()
    tries = (store.jobs.dispatch(0, order(f"{sys.argv[2]}-{i}"), RULES) for i in range(50))
    for placed in await asyncio.gather(*tries):
        print(placed.outcome)

asyncio.run(main())
"""


async def test_four_processes_of_fifty_callers_leave_three_winners_on_three_slots(
    server: RedisProcess, store: Store
) -> None:
    await join(store, entry("n1", max_jobs=3, alive_ms=3_600_000))
    pipe = asyncio.subprocess.PIPE
    racers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", RACER, server.url, str(number), stdin=pipe, stdout=pipe
        )
        for number in range(4)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert await racer.stdout.readline() == b"ready\n"
    answers = await asyncio.gather(*(racer.communicate(b"go\n") for racer in racers))
    outcomes = Counter(word for said, _ in answers for word in said.decode().split())
    assert outcomes == {"dispatched": 3, "full": 197}


async def test_a_node_killed_in_its_jobs_costs_no_slot(server: RedisProcess) -> None:
    """The reference node as a process, killed while it works; another one takes over."""
    async with scheduler_on(server.url) as (scheduler, store):
        address = f"ws://127.0.0.1:{scheduler.port}"
        arguments = ("-m", "lingua_scheduler", "node", "--engine", "sim", "--url", address, "--delay-ms", "60000")
        node = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, "--id", "victim", stderr=asyncio.subprocess.DEVNULL
        )
        await until(lambda: _views(store, "victim"))
        async with Client(address, "en", "zh") as client:
            await client.utterance(b"\x00\x01" * 1600)

            async def is_working() -> bool:
                return any(view.held for view in await store.node_views.all())

            await until(is_working)
            os.kill(node.pid, signal.SIGKILL)
            await node.wait()
            helper = await asyncio.create_subprocess_exec(
                sys.executable, *arguments[:-1], "10", "--id", "helper", stderr=asyncio.subprocess.DEVNULL
            )
            try:
                await client.finish()
                async with asyncio.timeout(90):
                    heard = [message async for message in client.heard()]
                assert [type(message) for message in heard] == [TranslationResult]
            finally:
                helper.terminate()
                await helper.wait()
        await until(lambda: _nothing_held(store))


async def _views(store: Store, node_id: str) -> bool:
    return any(view.node_id == node_id and view.state == "ready" for view in await store.node_views.all())


async def _nothing_held(store: Store) -> bool:
    keys = store.keys.shard(0)
    return bool(await store.line.call("ZCARD", keys.leases) == 0 and await store.line.call("ZCARD", keys.held) == 0)
