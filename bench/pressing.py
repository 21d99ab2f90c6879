"""The pressing process: nodes that take a while for a job, and clients that ask for more than they can do."""

import asyncio
import random
import sys
import time
from collections import Counter

import msgspec

from bench import peers
from bench.askers import Asker
from bench.audio import speech
from bench.connecting import introduce, join, keep_beating
from bench.obeying import LoadFailed, obey
from bench.orders import Fleet, Pressed, Pressure, Said
from bench.peers import Node, Talker

AUDIO_BYTES = 640
PACE_S = 0.001
# Jobs do not all take the same time, or all slots would be free at once.
SPREAD = 0.2
ANSWER_WITHIN_S = 30.0
NO_ANSWER = "no answer"


class BusyNode(Node):
    def __init__(self, number: int, fleet: Fleet, crowd: "Crowd") -> None:
        super().__init__(f"bench-{number}", fleet.slots, False, crowd)
        self._dice = random.Random(number)
        self._job_s = fleet.job_ms / 1000
        self._busy = 0
        self._loop = asyncio.get_running_loop()

    def take(self, about: bytes) -> None:
        self._busy += 1
        if self._busy > self._slots:
            self._fail(f"a node with {self._slots} slots got {self._busy} jobs at once")
        self._loop.call_later(self._job_s * self._dice.uniform(1 - SPREAD, 1 + SPREAD), self._done, about)

    def _done(self, about: bytes) -> None:
        self._busy -= 1
        if self.is_open:
            self.finish(about)


class Crowd:
    """All askers and nodes; the judge of how it goes."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._nodes: list[BusyNode] = []
        self._askers: list[Asker] = []
        self.failure = ""
        self._trouble = asyncio.Event()
        self._quiet = asyncio.Event()
        self.errors: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        self._began_ns = time.perf_counter_ns()
        self._said: list[Said] = []
        self._asked = 0
        self._goes_on = False
        self.errors.clear()

    async def connect(self) -> None:
        fleet = self._fleet
        audio = speech(AUDIO_BYTES, "pcm16")
        self._nodes = [BusyNode(number, fleet, self) for number in range(fleet.nodes)]
        await join(self._nodes, fleet.port)
        for node in self._nodes:
            node.answer_with(audio)
        keep_beating(self._nodes)
        self._askers = [Asker(self) for _ in range(fleet.talkers)]
        await introduce(self._askers, fleet.port)
        for asker in self._askers:
            asker.prepare(audio, "pcm16", peers.PLAIN_LANGUAGES)

    async def carry_out(self, pressure: Pressure) -> Pressed:
        self._begin()
        cpu_s = time.process_time()
        due_s = 0.0
        for rate, seconds in pressure.phases:
            if rate:
                await self._ask_at(rate, due_s, due_s + seconds)
            else:
                await self._keep_asking(pressure.in_flight, seconds)
            due_s += seconds
        cpu_s = time.process_time() - cpu_s
        await self._hear_the_rest()
        if self.failure:
            raise LoadFailed(self.failure)
        return Pressed(said=self._said, cpu_s=cpu_s, errors=dict(self.errors))

    def done(self, asker: Talker, due_ns: int) -> None:
        self.refused(asker, due_ns, "")

    def refused(self, asker: Talker, due_ns: int, why: str) -> None:
        self._said.append(Said(_s(due_ns - self._began_ns), _s(time.perf_counter_ns() - self._began_ns), why))
        if self._goes_on:
            self._asked += 1
            asker.talk()
        elif len(self._said) == self._asked:
            self._quiet.set()

    def told(self, code: str) -> None:
        self.errors[code] += 1

    def failed(self, reason: str) -> None:
        self.failure = self.failure or reason
        self._trouble.set()
        self._quiet.set()

    async def _ask_at(self, rate: float, begin_s: float, end_s: float) -> None:
        """On time or not: what is asked late was due when it was due."""
        wanted, asked = round((end_s - begin_s) * rate), 0
        while asked < wanted and not self.failure:
            now_s = _s(time.perf_counter_ns() - self._began_ns)
            for number in range(asked, min(wanted, int((now_s - begin_s) * rate) + 1)):
                due_ns = self._began_ns + int((begin_s + number / rate) * 1e9)
                self._askers[self._asked % len(self._askers)].talk(due_ns)
                self._asked += 1
                asked += 1
            await asyncio.sleep(PACE_S)

    async def _keep_asking(self, in_flight: int, seconds: float) -> None:
        self._goes_on = True
        for number in range(in_flight):
            self._askers[number % len(self._askers)].talk()
        self._asked += in_flight
        try:
            async with asyncio.timeout(seconds):
                await self._trouble.wait()
        except TimeoutError:
            self._goes_on = False

    async def _hear_the_rest(self) -> None:
        self._quiet.clear()
        if len(self._said) == self._asked or self.failure:
            return
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._quiet.wait()
        except TimeoutError:
            now_s = _s(time.perf_counter_ns() - self._began_ns)
            for asker in self._askers:
                self._said += [Said(_s(due_ns - self._began_ns), now_s, NO_ANSWER) for due_ns in asker.give_up()]


def _s(ns: int) -> float:
    return round(ns / 1e9, 4)


def main() -> None:
    obey(Crowd(msgspec.json.decode(sys.argv[1], type=Fleet)), Pressure)


if __name__ == "__main__":
    main()
