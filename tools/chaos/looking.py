"""Looks at Redis and at processes from outside while a run goes on, and for what is left when it is over."""

import asyncio
import contextlib
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from tools.chaos.events import Evidence, Ledger, Memory
from tools.chaos.floods import ATTACKER
from tools.chaos.servers import Servers, Unanswered
from tools.chaos.world import Child

PREFIX = "lingua:v1"
LOOK_EVERY_S = 1.0
# More shards than so few nodes ever need.
SHARDS = 3
# Leases linger for 30 s, sessions outlive their sockets by 30 s, a dead instance's mail is adopted after 6 s.
QUIET_WITHIN_S = 90.0
# What may stay when every peer has left: who wrote the data, who led, who is alive, and the audit log with its limit.
# None of it grows.
LASTING = re.compile(r"\{(meta|pools|instances|audit)\}:|\{shards\}:(load|room)$|\{s\d+\}:recent$")
MAIL = re.compile(r"\{instance:([^}]+)\}:(?:inbox|adopter)$")


class Watch:
    """Every second: does a node hold leases for more jobs than slots, and how large are the processes?"""

    def __init__(self, redis: Servers, children: Sequence[Child], seen: Evidence) -> None:
        self._redis = redis
        self._children = children
        self._seen = seen
        self.looks = 0

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError, *Unanswered):
                async with asyncio.timeout(3.0):
                    await self._look_at_leases()
            now_s = time.monotonic()
            for child in self._children:
                if (mb := child.memory_mb()) is not None:
                    self._seen.memory.append(Memory(child.full_name, now_s, mb))
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look_at_leases(self) -> None:
        for shard in range(SHARDS):
            jobs, limits = await leased_jobs(self._redis, shard)
            self.looks += bool(limits)
            for node, count in jobs.items():
                if node in limits and count > limits[node] and not node.startswith(ATTACKER):
                    self._seen.ledger.append(Ledger(time.monotonic(), node, count, limits[node]))


async def leased_jobs(redis: Servers, shard: int) -> tuple[Counter[str], dict[str, int]]:
    """Jobs with a lease by node, and slots by node, as Redis has them in one moment.

    A job may have two leases at one node for a while: one that is overdue, and the one it was adopted with because the
    node still runs it. It takes one slot.
    """
    base = f"{PREFIX}:{{s{shard}}}"
    script = "return {redis.call('ZRANGE', KEYS[1], 0, -1), redis.call('HGETALL', KEYS[2])}"
    for number in range(len(redis)):
        with contextlib.suppress(*Unanswered):  # of a Cluster one master answers
            leases, limits = await redis.command(number, "EVAL", script, 2, f"{base}:leases", f"{base}:limits")
            pairs = {(lease.partition("#")[0], lease.rpartition("#")[2]) for lease in leases}
            return Counter(node for _, node in pairs), {
                node: int(slots) for node, slots in zip(limits[::2], limits[1::2], strict=True)
            }
    return Counter(), {}


async def unrest(redis: Servers, alive: Collection[str]) -> list[str]:
    """What is there only while somebody talks or works, in words; empty when all is quiet. `alive`: the instances."""
    found: list[str] = []
    for number in range(len(redis)):
        for pattern in ("{s*}:leases", "{s*}:held", "{session:*}:parked"):
            found += await redis.keys(number, f"{PREFIX}:{pattern}")
        for session in await redis.keys(number, f"{PREFIX}:{{session:*}}"):
            owner = str(await redis.command(number, "HGET", session, "owner") or "").split(" ")[0]
            # The record of a session whose instance was killed expires; nobody is there to remove it.
            if owner in alive or await redis.command(number, "PTTL", session) == -1:
                found.append(f"{session} of {owner or 'nobody'}")
        for inbox in await redis.keys(number, f"{PREFIX}:{{instance:*}}:inbox"):
            if letters := await redis.command(number, "XLEN", inbox):
                found.append(f"{inbox}: {letters} letters")
        for dead in await redis.keys(number, f"{PREFIX}:{{instance:*}}:dead"):
            found.append(f"{dead}: {await redis.command(number, 'XLEN', dead)} dead letters")
    return found


async def quiet(redis: Servers, alive: Collection[str], tell: Callable[[str], None]) -> list[str]:
    """Wait until all is quiet; what still is not after a while is left behind."""
    give_up_at_s, told_s = time.monotonic() + QUIET_WITHIN_S, 0.0
    while True:
        try:
            found = await unrest(redis, alive)
        except Unanswered as error:
            found = [f"Redis does not answer: {error}"]
        if not found or time.monotonic() > give_up_at_s:
            return found
        if time.monotonic() > told_s + 10:
            told_s = time.monotonic()
            tell(f"waiting for quiet: {len(found)} left, such as {found[0]}")
        await asyncio.sleep(1.0)


async def findings(redis_url: str) -> list[str]:
    """What `lingua redis check` says, which is the product's own word for it."""
    words = ("-m", "lingua_scheduler", "redis", "check", "--json", "--redis-url", redis_url)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *words), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    if process.returncode == 0:
        return []
    try:
        found = json.loads(output)["findings"]
    except ValueError:
        found = []
    kinds = Counter(finding["kind"] for finding in found)
    first = {finding["kind"]: finding["words"] for finding in reversed(found)}
    told = [f"redis check: {times} of {kind}, such as: {first[kind]}" for kind, times in kinds.items()]
    return told or [f"redis check ended with {process.returncode}: {errors.decode()[-300:]}"]


async def lasting(redis: Servers) -> list[str]:
    """Keys without a lifetime when nobody is there any more, but for the few that may stay."""
    found: list[str] = []
    known = await _known_instances(redis)
    for number in range(len(redis)):
        for key in await redis.keys(number, f"{PREFIX}:*"):
            rest = key.removeprefix(f"{PREFIX}:")
            if LASTING.match(rest) or await redis.command(number, "PTTL", key) != -1:
                continue
            mail = MAIL.match(rest)
            # An instance that starts later clears away what a known one left, if it is empty.
            is_cleared_later = mail is not None and mail[1] in known
            if is_cleared_later and not (rest.endswith("inbox") and await redis.command(number, "XLEN", key)):
                continue
            found.append(f"{key} stays for ever")
    return found


async def _known_instances(redis: Servers) -> set[str]:
    for number in range(len(redis)):
        with contextlib.suppress(*Unanswered):  # of a Cluster one master answers
            return set(await redis.command(number, "HKEYS", f"{PREFIX}:{{instances}}:about"))
    return set()


def busy_share(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Of the time of all processors between two readings."""
    all_ticks = after[0] - before[0]
    return (after[1] - before[1]) / all_ticks if all_ticks else 0.0


def processor_ticks() -> tuple[int, int]:
    """All, and those not idle."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    except OSError:
        return 0, 0
    return sum(ticks[:8]), sum(ticks[:8]) - ticks[3] - ticks[4]
