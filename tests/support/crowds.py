"""Many people and nodes on several instances: each goes on at the next one when its own is gone; all is counted."""

import asyncio
import base64
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp

from lingua_scheduler.store.store import Store
from lingua_sdk.client import Client
from lingua_sdk.node import Abilities, JobOutput, Node
from lingua_sdk.protocol.node import JobAssign
from lingua_sdk.protocol.session import MissingResult, TranslationResult
from tests.support.instances import Instance
from tests.support.peers import FakeNode, Frame, Socket, heartbeat, registration, result_of
from tests.support.waiting import until
from tests.support.worded_sound import recognised, spoken

LANGUAGES = ("en", "zh")
SLOTS = 4
COME_BACK_S = 0.2


# Which node, where it is connected, and what it was given to translate.
OnWords = Callable[[str, int | None, str], None]


class Said(NamedTuple):
    at_s: float
    took_s: float
    kind: str  # what came of it: translated, or why not
    is_right: bool


class _CountingClient(Client):
    """Counts what it hears although it has heard it before."""

    twice = 0

    def _is_news(self, index: int) -> bool:
        is_news = super()._is_news(index)
        self.twice += not is_news
        return is_news


class Person:
    """Keeps a few utterances under way until it has talked enough, then waits for all outcomes."""

    def __init__(self, name: str, addresses: Sequence[str], under_way: int) -> None:
        self.name = name
        self._client = _CountingClient(addresses, *LANGUAGES)
        self._room = asyncio.Semaphore(under_way)
        self._said_at: dict[int, float] = {}
        self.heard: dict[int, Said] = {}
        self.is_done = False

    @property
    def said(self) -> int:
        return len(self._said_at)

    @property
    def twice(self) -> int:
        return self._client.twice

    @property
    def times_resumed(self) -> int:
        return self._client.times_resumed

    @property
    def port(self) -> int | None:
        return urlsplit(self._client._line.addresses.url).port

    async def talk(self, enough: asyncio.Event, pause_s: float) -> None:
        async with self._client:
            listening = asyncio.create_task(self._listen())
            try:
                while not enough.is_set():
                    async with asyncio.timeout(60):
                        await self._room.acquire()
                    self._said_at[self.said] = time.monotonic()
                    await self._client.utterance(spoken(f"{self.name} {self.said - 1}"))
                    await asyncio.sleep(pause_s)
                await self._client.finish()
                await listening
                self.is_done = self._client.is_finished
            finally:
                listening.cancel()

    async def _listen(self) -> None:
        async for message in self._client.heard():
            if not isinstance(message, TranslationResult | MissingResult):
                continue
            index, now = message.utterance_index, time.monotonic()
            if isinstance(message, TranslationResult):
                kind, is_right = "translated", message.text_asr == f"{self.name} {index}"
            else:
                kind, is_right = message.reason, True
            self.heard[index] = Said(self._said_at[index], now - self._said_at[index], kind, is_right)
            self._room.release()


class Ear:
    """An engine that recognises `spoken` words, and tells who spoke them."""

    name = "ear"

    def __init__(self, delay_s: float, on_words: Callable[[str], None]) -> None:
        self._delay_s = delay_s
        self._on_words = on_words
        self.running = self.most_at_once = 0

    async def translate(self, job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        words = recognised(job.audio)
        self._on_words(words)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            await asyncio.sleep(self._delay_s)
        finally:
            self.running -= 1
        return JobOutput(words, words)


class OurNode(Node):
    """Remembers when it had to refuse a job because it was given more than it has slots."""

    def __init__(self, name: str, addresses: Sequence[str], delay_s: float, on_words: OnWords) -> None:
        self.ear = Ear(delay_s, lambda words: on_words(name, self.port, words))
        self.refused_at: list[float] = []
        self.times_away = 0
        super().__init__(
            addresses,
            self.ear,
            Abilities(LANGUAGES, LANGUAGES, LANGUAGES, slots=SLOTS),
            node_id=name,
            on_event=self._note,
        )

    @property
    def port(self) -> int | None:
        return urlsplit(self._addresses.url).port

    def _note(self, event: str, _: str) -> None:
        self.times_away += event == "away"
        if event == "refused":
            self.refused_at.append(time.monotonic())


class PlainNode:
    """As nodes in the field are: no acknowledgement, no memory of results; it comes back with its id."""

    def __init__(self, name: str, addresses: Sequence[str], delay_s: float, on_words: OnWords) -> None:
        self._name = name
        self._addresses = list(addresses)
        self._delay_s = delay_s
        self._on_words = on_words
        self.times_away = 0

    async def run(self) -> None:
        async with aiohttp.ClientSession() as http:
            while True:
                address = self._addresses[0]
                try:
                    await self._converse(http, address)
                except (aiohttp.ClientError, OSError):
                    self._addresses.append(self._addresses.pop(0))
                self.times_away += 1
                await asyncio.sleep(COME_BACK_S)

    async def _converse(self, http: aiohttp.ClientSession, address: str) -> None:
        socket = Socket(await http.ws_connect(f"ws://{address}/ws/node", max_msg_size=0))
        await socket.send(registration(LANGUAGES, node_id=self._name, max_concurrent_jobs=SLOTS))
        await socket.next("node_register_ack")
        node = FakeNode(socket, self._name, self._work)
        try:
            while not socket.socket.closed:
                await socket.send(heartbeat(self._name))
                await asyncio.wait((node._listener,), timeout=3.0)
        finally:
            await node.stop()

    async def _work(self, node: FakeNode, job: Frame) -> None:
        words = recognised(base64.b64decode(job["audio"]))
        self._on_words(self._name, urlsplit(f"ws://{self._addresses[0]}").port, words)
        await asyncio.sleep(self._delay_s)
        if not node.socket.socket.closed:
            await node.socket.send(result_of(job, self._name, text_asr=words, text_translated=words))


class Tally(NamedTuple):
    said: int
    lost: int  # no outcome at all
    twice: int
    wrong: int  # somebody else's words
    kinds: Counter[str]

    def __str__(self) -> str:
        return f"{self.said} utterances: lost {self.lost}, twice {self.twice}; {dict(self.kinds)}"


class Crowd:
    """Spread evenly: the first node and the first person begin at the first instance, and so on in turns."""

    def __init__(self, at: Sequence[Instance], *, nodes: int, people: int, delay_s: float, under_way: int = 2) -> None:
        self._enough = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.our_nodes = [
            OurNode(f"n{k}", _from(at, k), delay_s, self._translating) for k in range(nodes) if not _is_plain(k)
        ]
        self.plain_nodes = [
            PlainNode(f"n{k}", _from(at, k), delay_s, self._translating) for k in range(nodes) if _is_plain(k)
        ]
        self._talking: list[asyncio.Task[None]] = []
        self.people = [Person(f"p{k}", _from(at, k), under_way) for k in range(people)]
        self._by_name = {person.name: person for person in self.people}
        self.crossed = self.stayed = 0
        # When each node last got something to do.
        self.given_at_s: dict[str, float] = {}

    @property
    def outcomes(self) -> int:
        return sum(len(person.heard) for person in self.people)

    @property
    def nodes(self) -> "list[OurNode | PlainNode]":
        return [*self.our_nodes, *self.plain_nodes]

    def start_nodes(self) -> None:
        self._tasks += [asyncio.create_task(node.run()) for node in self.nodes]

    def start_talking(self, pause_s: float = 0.0) -> None:
        self._talking = [asyncio.create_task(person.talk(self._enough, pause_s)) for person in self.people]
        self._tasks += self._talking

    async def hear_out(self, within_s: float) -> Tally:
        """Nobody says anything more; what came of all they said."""
        self._enough.set()
        await asyncio.wait(self._talking, timeout=within_s)
        for task in self._talking:
            if task.done():
                task.result()
        return self.tally()

    def tally(self) -> Tally:
        heard = [said for person in self.people for said in person.heard.values()]
        said = sum(person.said for person in self.people)
        return Tally(
            said=said,
            lost=said - len(heard),
            twice=sum(person.twice for person in self.people),
            wrong=sum(not one.is_right for one in heard),
            kinds=Counter(one.kind for one in heard),
        )

    def took_s(self, since_s: float, until_s: float = float("inf")) -> list[float]:
        """Of the utterances said in this time that were translated."""
        heard = (said for person in self.people for said in person.heard.values())
        return [said.took_s for said in heard if since_s <= said.at_s < until_s and said.kind == "translated"]

    async def leave(self) -> None:
        self._enough.set()
        await asyncio.gather(*(node.stop(finish_within_s=0) for node in self.our_nodes))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _translating(self, node: str, port: int | None, words: str) -> None:
        self.given_at_s[node] = time.monotonic()
        if self._by_name[words.split()[0]].port == port:
            self.stayed += 1
        else:
            self.crossed += 1


@asynccontextmanager
async def crowd_on(at: Sequence[Instance], store: Store, **size: float) -> AsyncIterator[Crowd]:
    """With all its nodes registered; nobody talks yet."""
    crowd = Crowd(at, **size)  # type: ignore[arg-type]
    try:
        crowd.start_nodes()
        await until(lambda: are_ready(store, len(crowd.nodes)), 30, "every node ready")
        yield crowd
    finally:
        await crowd.leave()


async def are_ready(store: Store, count: int, elsewhere: str = "") -> bool:
    """So many nodes are, and none of them at this instance."""
    views = await store.node_views.all()
    owners = {view.owner.owner.instance for view in views}
    return [view.state for view in views] == ["ready"] * count and elsewhere not in owners


async def is_all_free(store: Store, count: int) -> bool:
    """Every slot of every node is free, and no lease is left in any shard."""
    views = await store.node_views.all()
    leases = [
        await store.line.call("ZCARD", store.keys.shard(shard).leases) for shard in await store.placements.shards()
    ]
    return [(view.held, view.free) for view in views] == [(0, SLOTS)] * count and not any(leases)


def _from(at: Sequence[Instance], first: int) -> list[str]:
    turned = first % len(at)
    return [instance.address for instance in (*at[turned:], *at[:turned])]


def _is_plain(number: int) -> bool:
    """Every third turn, so that each instance has nodes of both kinds."""
    return number // 3 % 3 == 2
