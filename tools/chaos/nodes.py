"""A process of nodes: ours, which acknowledge and keep their results, and existing ones, which do neither.

python -m tools.chaos.nodes JOURNAL ADDRESS,ADDRESS… OURS EXISTING SEED
"""

import asyncio
import itertools
import random
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import aiohttp

from lingua_sdk.node import Abilities, JobOutput, Node
from lingua_sdk.protocol.node import JobAssign
from tests.support.field_mind import Mind
from tests.support.field_node import FieldNode
from tests.support.field_speech import Heard, hear
from tests.support.peers import Frame
from tools.chaos.events import Span
from tools.chaos.journals import Journal

LANGUAGES = ("en", "zh")
SLOTS = 4
# As `nodes.default_max_jobs` has it for nodes that name no number.
EXISTING_SLOTS = 4
TAKES_S = (0.1, 0.8)


def text_of(heard: Heard) -> str:
    return " ".join(str(Span(word.text, word.first, word.last, word.total)) for word in heard.words)


class Ear:
    """An engine that writes down when it begins and ends."""

    name = "chaos"

    def __init__(self, name: str, journal: Journal, dice: random.Random) -> None:
        self._node = name
        self._journal = journal
        self._dice = dice
        self._serial = itertools.count()

    async def translate(self, job: JobAssign, _: Callable[[str], None]) -> JobOutput:
        key = f"{self._node} {next(self._serial)}"
        about = {"job": job.job_id, "attempt": job.attempt_id, "connection": 0, "slots": SLOTS}
        self._journal.write("begin", self._node, key=key, **about)
        try:
            await asyncio.sleep(self._dice.uniform(*TAKES_S))
        finally:
            self._journal.write("end", self._node, key=key)
        text = text_of(hear(job.audio, job.audio_format))
        return JobOutput(text, text)


def our_node(name: str, addresses: Sequence[str], journal: Journal, dice: random.Random) -> Node:
    def note(event: str, detail: str) -> None:
        if event == "refused" and "all slots" in detail:
            journal.write("refused", name, why=detail)

    abilities = Abilities(LANGUAGES, LANGUAGES, LANGUAGES, slots=SLOTS)
    return Node(addresses, Ear(name, journal, dice), abilities, node_id=name, on_event=note)


class _ExactMind(Mind):
    """Says which slices of a word it heard."""

    def collect(self, job: Frame) -> Heard | None:
        heard = super().collect(job)
        if heard is None:
            return None
        words = [word._replace(text=str(Span(word.text, word.first, word.last, word.total))) for word in heard.words]
        return Heard(words, heard.duration_ms)


class ExistingNode(FieldNode):
    """Goes to the next instance when it reconnects, as a balancer would send it, and writes down what it is given.

    Whatever it computes for a socket that is gone nobody waits for: a connection counts for itself."""

    def __init__(self, name: str, addresses: Sequence[str], journal: Journal, dice: random.Random) -> None:
        self._ports = itertools.cycle([int(address.rsplit(":", 1)[1]) for address in addresses])
        self._name = name
        self._journal = journal
        super().__init__(0, lambda _: dice.uniform(0.02, 0.15), mind=_ExactMind())

    @property
    def port(self) -> int:
        return next(self._ports)

    @port.setter
    def port(self, _: int) -> None:
        pass

    def _take(self, socket: aiohttp.ClientWebSocketResponse, job: Frame) -> None:
        about = {"job": job["job_id"], "attempt": job["attempt_id"]}
        key = f"{self._name} {job['job_id']} {job['attempt_id']}"
        self._journal.write("begin", self._name, key=key, connection=self.connections, slots=EXISTING_SLOTS, **about)
        super()._take(socket, job)
        self.jobs.clear()
        self.heard.clear()

    async def _answer(self, socket: aiohttp.ClientWebSocketResponse, answers: list[Frame]) -> None:
        for answer in answers:
            self._journal.write("end", self._name, key=f"{self._name} {answer['job_id']} {answer['attempt_id']}")
        await super()._answer(socket, answers)
        self.answered.clear()
        self.said.clear()


async def main(journal_path: str, addresses: str, ours: str, existing: str, seed: str) -> None:
    journal, dice = Journal(Path(journal_path)), random.Random(seed)
    at = addresses.split(",")
    ours_here = [our_node(name, _turned(at, k), journal, dice) for k, name in enumerate(_names(ours))]
    for k, name in enumerate(_names(existing)):
        node = ExistingNode(name, _turned(at, k + 1), journal, dice)
        node._spawn(node._live())
    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    running = [asyncio.create_task(node.run()) for node in ours_here]
    await leaving.wait()
    await asyncio.gather(*(node.stop(5.0) for node in ours_here))
    await asyncio.gather(*running)


def _turned(addresses: list[str], by: int) -> list[str]:
    by %= len(addresses)
    return addresses[by:] + addresses[:by]


def _names(words: str) -> list[str]:
    return [word for word in words.split(",") if word]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
