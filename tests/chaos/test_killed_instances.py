"""Instances killed or frozen with mail in hand: every letter has its effect, and has it once."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lingua_scheduler.services.cluster.mailroom import Posted
from lingua_scheduler.store.store import Store
from lingua_sdk.processes import die_with_parent
from tests.support.mail import EFFECTS, Office, effective, lost, office
from tests.support.servers import RedisProcess
from tests.support.waiting import until

LETTERS = 400
# Nobody who is only held up for a second is taken for dead, and a letter has the time it takes.
CALM = {"instances__dead_ms": 2_000, "inbox__retry_ms": 1_000, "inbox__handle_timeout_ms": 1_000}

# An instance that takes its time with each letter, far more than it takes to post it; what it does is seen in Redis, by
# whoever does it.
INSTANCE = f"""
import asyncio, sys
from lingua_scheduler.store.store import Store
from tests.support.mail import effective, office

async def main():
    store = Store(sys.argv[1], key_prefix="lingua:v1")
    await store.open()
    async with office(store, "victim", **{CALM}) as here:
        effective(here, store, delay_s=0.2)
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def victim(url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", INSTANCE, url), stdout=asyncio.subprocess.PIPE, preexec_fn=die_with_parent
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def effects(store: Store) -> dict[str, str]:
    """Letter → who had its effect: the first who wrote it."""
    found = await store.line.call("HGETALL", EFFECTS)
    return dict(zip(found[::2], found[1::2], strict=True))


async def post_all(here: Office) -> None:
    for number in range(LETTERS):
        # In twenty lanes, so that some letters wait behind others in the victim's hands.
        assert await here.mailroom.post("victim", lost(number, f"job-0-{number % 20}")) is Posted.SENT


async def test_the_mail_of_an_instance_killed_in_its_work_is_handled_by_another(
    server: RedisProcess, store: Store
) -> None:
    async with victim(server.url) as process, office(store, "heir", **CALM) as here:
        effective(here, store)
        await post_all(here)
        await until(lambda: _some(store))
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        await until(lambda: _all(store), within_s=30)
        done = await effects(store)
        assert set(done.values()) == {"victim", "heir"}
        assert set(done) == {str(number) for number in range(LETTERS)}
        await until(lambda: _is_empty(store))
        assert await here.mailroom.post("victim", lost(0)) is Posted.GONE


async def test_a_frozen_instance_wakes_to_find_its_mail_handled_and_is_alive_again(
    server: RedisProcess, store: Store
) -> None:
    async with victim(server.url) as process, office(store, "heir", **CALM) as here:
        effective(here, store)
        await post_all(here)
        await until(lambda: _some(store))
        os.kill(process.pid, signal.SIGSTOP)
        await until(lambda: _all(store), within_s=30)
        assert "heir" in (await effects(store)).values()
        while_frozen = await effects(store)
        os.kill(process.pid, signal.SIGCONT)
        await until(lambda: here.presence.is_alive("victim"))
        # What it had in its hands it may do again; that changes nothing.
        assert await here.mailroom.post("victim", lost(LETTERS)) is Posted.SENT
        await until(lambda: _all(store, LETTERS + 1))
        done = await effects(store)
        assert done.pop(str(LETTERS)) == "victim"
        assert done == while_frozen
        await until(lambda: _is_empty(store))


async def _some(store: Store) -> bool:
    return 20 < len(await effects(store)) < LETTERS


async def _all(store: Store, letters: int = LETTERS) -> bool:
    return len(await effects(store)) == letters


async def _is_empty(store: Store) -> bool:
    return tuple(await store.inboxes.depth("victim")) == (0, 0, 0)
