"""Whether a node still answers where it was connected, and closing its connection there, by signals."""

import asyncio
from typing import Any, cast

import pytest

from lingua_scheduler.domain.cluster.instances import Instance
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.protocol.signals import AskHolder, HolderSays, NodeVerb
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.nodes import holders as module
from lingua_scheduler.services.nodes.holders import Holders
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.store.cluster.signals import Signals
from lingua_scheduler.store.connection import RedisAway

# As plain values: a limit that changes is noticed.
EVICT_TRIES = 3
PING_WITHIN_S = 2.0

BEAT_MS = 1_000
THERE = Owner("i2", "c7")


class FakePeer:
    def __init__(self) -> None:
        self.is_answering = True
        self.asked_s: list[float] = []
        self.closed: list[tuple[int, str]] = []

    async def answers(self, within_s: float) -> bool:
        self.asked_s.append(within_s)
        return self.is_answering

    def close(self, code: int, reason: str) -> None:
        self.closed.append((code, reason))


class FakeLink:
    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.peer = FakePeer()


class Bench:
    """An instance that asks, and its surroundings: signals, presence, the nodes connected here."""

    def __init__(self) -> None:
        self.instance = "i1"
        self.now_s = 100.0
        self.sent: list[tuple[str, Any]] = []
        # By turns; the last stays.
        self.silent_ms: list[int | None] = [0]
        self.is_away = False
        self.answer: bool | None = None
        self.takes_s = 0.0
        self.link = FakeLink(THERE)
        self.evicted: list[object] = []
        me = cast("Any", self)
        self.holders = Holders(
            cast("NodeLinks", me), cast("Presence", me), cast("Signals", me), BEAT_MS, lambda: self.now_s
        )

    async def look(self) -> dict[str, Instance]:
        silent_ms = self.silent_ms.pop(0) if len(self.silent_ms) > 1 else self.silent_ms[0]
        found = Instance("i2", silent_ms or 0, "life")
        return {} if silent_ms is None else {"i2": found}

    async def is_alive(self, instance: str) -> bool:
        assert instance == "i2"
        return (await self.look()) != {}

    def publish(self, signal: Any, to: str = "") -> asyncio.Future[int]:
        if self.is_away:
            raise RedisAway("nobody there")
        self.sent.append((to, signal))
        if isinstance(signal, AskHolder) and self.answer is not None:
            self.holders.answered(HolderSays(signal.node_id, signal.link, self.answer))
        self.now_s += self.takes_s
        done = asyncio.get_running_loop().create_future()
        done.set_result(1)
        return done

    def find(self, node_id: str) -> FakeLink | None:
        return self.link if node_id == "n1" else None

    def send_away(self, link: object) -> None:
        self.evicted.append(link)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(module, "ANSWER_WITHIN_S", 0.01)
    monkeypatch.setattr(module, "EVICT_WITHIN_S", 0.01)
    return Bench()


@pytest.mark.parametrize("is_there", [True, False])
async def test_the_holder_is_asked_and_believed(bench: Bench, is_there: bool) -> None:
    bench.answer = is_there
    assert await bench.holders.is_there(THERE, "n1") is is_there
    assert bench.sent == [("i2", AskHolder("i1", "n1", "c7", NodeVerb.PING))]


@pytest.mark.parametrize("silent_ms", [2 * BEAT_MS + 1, None])
async def test_an_instance_that_is_silent_or_unknown_is_not_asked(bench: Bench, silent_ms: int | None) -> None:
    bench.silent_ms, bench.answer = [silent_ms], True
    assert not await bench.holders.is_there(THERE, "n1")
    assert bench.sent == []


@pytest.mark.parametrize(
    ("silent_ms", "takes_s", "is_there"),
    [
        # It has beaten while we waited, so it lives and did not hear us.
        (BEAT_MS + 500, 2.0, True),
        (2 * BEAT_MS, 2.0, False),
        # We waited less than a beat.
        (BEAT_MS - 1, 0.1, True),
        (BEAT_MS, 0.1, False),
    ],
)
async def test_without_an_answer_its_beats_decide(bench: Bench, silent_ms: int, takes_s: float, is_there: bool) -> None:
    bench.silent_ms, bench.takes_s = [2 * BEAT_MS, silent_ms], takes_s
    assert await bench.holders.is_there(THERE, "n1") is is_there
    # Nothing is left of the question: an answer that comes late is for nobody.
    bench.holders.answered(HolderSays("n1", "c7", True))


async def test_two_who_ask_about_one_connection_share_the_answer(bench: Bench) -> None:
    asking = [asyncio.create_task(bench.holders.is_there(THERE, "n1")) for _ in range(2)]
    while len(bench.sent) < 2:
        await asyncio.sleep(0)
    bench.holders.answered(HolderSays("n1", "another", True))
    bench.holders.answered(HolderSays("n1", "c7", False))
    bench.holders.answered(HolderSays("n1", "c7", True))
    assert await asyncio.gather(*asking) == [False, False]


async def test_an_eviction_is_repeated_until_it_is_confirmed(bench: Bench) -> None:
    await bench.holders.evict(THERE, "n1")
    assert bench.sent == [("i2", AskHolder("i1", "n1", "c7", NodeVerb.EVICT))] * EVICT_TRIES
    bench.sent.clear()
    bench.answer = False
    await bench.holders.evict(THERE, "n1")
    assert len(bench.sent) == 1


async def test_nobody_is_evicted_from_a_dead_instance(bench: Bench) -> None:
    bench.silent_ms = [None]
    await bench.holders.evict(THERE, "n1")
    assert bench.sent == []


async def test_the_former_connection_is_told_and_nobody_minds_if_redis_is_away(bench: Bench) -> None:
    bench.holders.superseded(THERE, "n1")
    assert bench.sent == [("i2", AskHolder("i1", "n1", "c7", NodeVerb.SUPERSEDE))]
    bench.is_away = True
    bench.holders.superseded(THERE, "n1")


# The one that is asked


async def asked(bench: Bench, verb: NodeVerb, node_id: str = "n1", link: str = "c7") -> bool:
    bench.holders.asked(AskHolder("i9", node_id, link, verb))
    while not bench.sent:
        await asyncio.sleep(0)
    ((to, said),) = bench.sent
    assert (to, said.node_id, said.link) == ("i9", node_id, link)
    is_there: bool = said.is_there
    return is_there


async def test_a_node_that_answers_is_there_and_stays(bench: Bench) -> None:
    assert await asked(bench, NodeVerb.PING)
    assert (bench.link.peer.asked_s, bench.link.peer.closed) == ([PING_WITHIN_S], [])


async def test_a_node_that_does_not_answer_is_closed(bench: Bench) -> None:
    bench.link.peer.is_answering = False
    assert not await asked(bench, NodeVerb.PING)
    assert bench.link.peer.closed == [(CloseCode.SUPERSEDED, "the node connected again")]


async def test_a_node_that_is_connected_elsewhere_is_closed_without_being_asked(bench: Bench) -> None:
    assert not await asked(bench, NodeVerb.SUPERSEDE)
    assert (bench.link.peer.asked_s, len(bench.link.peer.closed)) == ([], 1)


async def test_a_node_is_sent_away(bench: Bench) -> None:
    assert not await asked(bench, NodeVerb.EVICT)
    assert (bench.evicted, bench.link.peer.closed) == ([bench.link], [])


@pytest.mark.parametrize(("node_id", "link"), [("n2", "c7"), ("n1", "c8")])
async def test_another_node_or_another_connection_is_left_alone(bench: Bench, node_id: str, link: str) -> None:
    assert not await asked(bench, NodeVerb.EVICT, node_id, link)
    assert (bench.evicted, bench.link.peer.asked_s) == ([], [])


async def test_an_answer_that_cannot_be_sent_is_no_surprise(bench: Bench) -> None:
    bench.is_away = True
    bench.holders.asked(AskHolder("i9", "n1", "c7", NodeVerb.PING))
    while not bench.link.peer.asked_s:
        await asyncio.sleep(0)
    await bench.holders.close()
