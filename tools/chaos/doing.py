"""Faults, done to the world as the plan says."""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.chaos import world
from tools.chaos.events import Happened, Incident
from tools.chaos.plan import FAMILIES, Fault, pattern_of
from tools.chaos.servers import Servers, Unanswered
from tools.chaos.speakers import Speaker
from tools.chaos.world import Child

STOP_WITHIN_S = 12.0
# It loads its libraries first, and closes its sockets at the end, on a machine that may be busy.
ATTACKER_STARTS_S = 10.0
PREFIX = "lingua:v1"


class Instance(NamedTuple):
    child: Child
    port: int


class Doer:
    def __init__(
        self,
        folder: Path,
        redis: Servers,
        instances: Sequence[Instance],
        nodes: Sequence[Child],
        speakers: Sequence[Speaker],
        seed: int,
        tell: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._redis = redis
        self._instances = instances
        self._nodes = nodes
        self._speakers = speakers
        self._dice = random.Random(f"targets {seed}")
        self._tell = tell
        self._children = [*nodes, *(instance.child for instance in instances)]
        # Whom a fault has just now, so that nobody else starts it.
        self._in_hand: set[str] = set()
        self.happened: list[Happened] = []
        self.failures: list[str] = []
        self.crashes: list[Incident] = []

    async def carry_out(self, plan: Sequence[Fault], began_s: float) -> None:
        async with asyncio.TaskGroup() as tasks:
            for fault in plan:
                await asyncio.sleep(max(0.0, began_s + fault.at_s - time.monotonic()))
                tasks.create_task(self._do(fault))

    async def _do(self, fault: Fault) -> None:
        self._tell(str(fault))
        began_s = time.monotonic()
        kind, _, verb = fault.what.partition(".")
        try:
            match kind:
                case "instance":
                    await self._to_child(self._instances[fault.target].child, verb, fault.lasts_s)
                case "node":
                    await self._to_child(self._nodes[fault.target], verb, fault.lasts_s)
                case "client":
                    self._cut(fault.size)
                case "redis":
                    await self._to_redis(fault, verb)
                case "flood":
                    await self._flood(fault)
        except Exception as error:
            self.failures.append(f"{fault}: {type(error).__name__}: {error}")
        finally:
            self.happened.append(Happened(fault.what, fault.name, f"#{fault.target}", began_s, time.monotonic()))

    async def keep_alive(self) -> None:
        """Start again what ended by itself, as a supervisor would; that it did is a fault of its own."""
        while True:
            await asyncio.sleep(1.0)
            for child in self._children:
                if child.starts and not child.is_running and child.name not in self._in_hand:
                    last = child.log.read_text("utf-8", "replace").splitlines()[-1:]
                    self.crashes.append(Incident(child.full_name, time.monotonic(), "".join(last)[-300:]))
                    await child.start()

    async def _to_child(self, child: Child, verb: str, lasts_s: float) -> None:
        if child.name in self._in_hand:
            return
        self._in_hand.add(child.name)
        try:
            await self._harm(child, verb, lasts_s)
        finally:
            self._in_hand.discard(child.name)

    async def _harm(self, child: Child, verb: str, lasts_s: float) -> None:
        match verb:
            case "freeze":
                child.signal(signal.SIGSTOP)
                await asyncio.sleep(lasts_s)
                child.signal(signal.SIGCONT)
            case "kill":
                await child.kill()
                await asyncio.sleep(lasts_s)
                await child.start()
            case "stop":
                await child.stop(STOP_WITHIN_S)
                await asyncio.sleep(lasts_s)
                await child.start()

    def _cut(self, percent: int) -> None:
        for speaker in self._speakers:
            if self._dice.random() * 100 < percent:
                speaker.cut()

    async def _to_redis(self, fault: Fault, verb: str) -> None:
        number = fault.target
        match verb:
            case "kill" | "empty":
                self._redis.kill(number)
                await asyncio.sleep(fault.lasts_s)
                self._redis.launch(number, is_empty=verb == "empty")
            case "freeze":
                self._redis.signal(number, signal.SIGSTOP)
                await asyncio.sleep(fault.lasts_s)
                self._redis.signal(number, signal.SIGCONT)
            case "flush":
                await self._surely(number, "FLUSHALL")
            case "drop":
                family = next(family for family in FAMILIES if family.pattern == fault.family)
                with contextlib.suppress(*Unanswered):  # another fault may be on: then it is dropped in part
                    dropped = await self._redis.drop(pattern_of(family, PREFIX))
                    self._tell(f"           {dropped} keys dropped")
            case "oom":
                await self._config(fault, "maxmemory", "1", "0")
            case "noreplicas":
                await self._config(fault, "min-replicas-to-write", "1", "0")
            case "clock":
                self._redis.clock.jump(fault.size * 1000)
                await asyncio.sleep(fault.lasts_s)
                self._redis.clock.jump(-fault.size * 1000)

    async def _config(self, fault: Fault, name: str, during: str, after: str) -> None:
        await self._surely(fault.target, "CONFIG", "SET", name, during)
        await asyncio.sleep(fault.lasts_s)
        await self._surely(fault.target, "CONFIG", "SET", name, after)

    async def _surely(self, number: int, *words: str) -> None:
        """Another fault may keep it away just now."""
        for _ in range(30):
            try:
                await self._redis.command(number, *words)
                return
            except Unanswered:
                await asyncio.sleep(1.0)

    async def _flood(self, fault: Fault) -> None:
        attacker = world.flood(fault.what, self._folder, self._instances[fault.target].port, fault.lasts_s, fault.size)
        await attacker.start()
        await attacker.ended(fault.lasts_s + ATTACKER_STARTS_S)
        await attacker.stop(3.0)
        self._tell(f"           {(attacker.log.read_text().splitlines() or ['it did not end in time'])[-1]}")

    async def undo(self) -> None:
        """Whatever was cut short: nobody is frozen, dead or refused any more."""
        for number in range(len(self._redis)):
            await self._surely(number, "CONFIG", "SET", "maxmemory", "0")
            await self._surely(number, "CONFIG", "SET", "min-replicas-to-write", "0")
        for child in (*self._nodes, *(instance.child for instance in self._instances)):
            child.signal(signal.SIGCONT)
