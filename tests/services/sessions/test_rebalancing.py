"""Peers are sent elsewhere only if they lose nothing by it: idle nodes that others can stand in for, quiet sessions."""

from time import monotonic
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.watching.figures import Figures
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.nodes.http.outbox import Mailbox
from lingua_scheduler.services.sessions.rebalancing import WHY, Rebalancer, is_quiet
from lingua_scheduler.setting_sections.instances import InstancesSettings
from tests.support.peers import FakeClient, FakeNode, Field, answer, field, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

# As plain values: a limit that changes is noticed.
FRESH_MS = 60_000

COME_BACK = 1012
QUICK = {"instances__rebalance_ms": 100, "watch__interval_ms": 100, "watch__watched_interval_ms": 100}
OFF = QUICK | {"instances__rebalance_ms": 0}


def left(nodes: list[FakeNode]) -> list[FakeNode]:
    return [node for node in nodes if node.socket.socket.closed]


async def test_idle_nodes_are_told_to_come_back_and_busy_ones_and_the_last_of_a_pair_stay(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, **QUICK) as (here, _),
        scheduler_on(server.url, **OFF),
        field(here.port) as peers,
    ):
        busy = await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: busy.jobs)
        idle = [await peers.node(answer) for _ in range(4)]
        alone = await peers.node(answer, languages=("fr", "de"))
        gone = await until(lambda: left(idle))
        assert [await node.socket.closed() for node in gone] == [COME_BACK] * len(gone)
        # Nobody comes back here, and one of six is more than its share no longer.
        await until(lambda: len(left(idle)) >= 3)
        assert left([busy, alone]) == []


async def test_without_another_instance_or_when_it_is_switched_off_all_stay(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **OFF) as (here, _), field(here.port) as peers:
        nodes = [await peers.node() for _ in range(4)]
        async with scheduler_on(server.url, **QUICK) as (there, _), field(there.port) as far:
            # The other one acts on its own peers alone.
            others = [await far.node() for _ in range(12)]
            await until(lambda: left(others))
            assert left(nodes) == []


async def test_a_session_moves_when_it_is_quiet_and_not_before(server: RedisProcess) -> None:
    async def opened(peers: Field, count: int) -> list[FakeClient]:
        return [await peers.client() for _ in range(count)]

    async with (
        scheduler_on(server.url, **QUICK) as (here, _),
        scheduler_on(server.url, **OFF),
        field(here.port) as peers,
    ):
        await peers.node(stay_silent)
        speaking = await peers.client()
        await speaking.utterance(0)
        gateway = await peers.client(platform="api-gateway")
        quiet = await opened(peers, 4)
        gone = await until(lambda: [one for one in quiet if one.socket.socket.closed])
        assert await gone[0].socket.closed() == COME_BACK
        await until(lambda: sum(one.socket.socket.closed for one in quiet) >= 3)
        assert not speaking.socket.socket.closed
        assert not gateway.socket.socket.closed


async def test_what_makes_a_session_quiet(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        client = await peers.client()
        sessions = scheduler._rebalancer._sessions
        (session,) = sessions.all
        assert is_quiet(session, -1.0, monotonic())
        assert not is_quiet(session, 60.0, monotonic())
        await client.chunk(b"\x10\x20" * 1600)
        await until(lambda: session.conversation.held_bytes)
        assert not is_quiet(session, -1.0, monotonic())


# By itself: what is looked at, and who is sent


class Peer:
    def __init__(self) -> None:
        self.closed: list[tuple[int, str]] = []

    def close(self, code: int, reason: str) -> None:
        self.closed.append((code, reason))


def link_of(*pools: str, takes_jobs: bool = True, sent: bool = False, peer: Any = None) -> Any:
    profile, peer = SimpleNamespace(takes_jobs=takes_jobs), Peer() if peer is None else peer
    return SimpleNamespace(
        pools=frozenset(pools), sent={"j": 1} if sent else {}, profile=profile, peer=Peer() if peer is None else peer
    )


class Scene:
    """An instance among others; balancers that want to move as many as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.instance = "a"
        self.figures: dict[str, Any] = {"a": self.told(), "b": self.told()}
        self.text: dict[str, bytes] = {}
        self.most_nodes, self.most_clients = 2, 0
        self.asked: list[tuple[int, list[int]]] = []
        self.counted: list[tuple[int, list[int]]] = []
        self.has_turn = True
        self.turns: list[tuple[str, int]] = []
        self.members: dict[str, int] = {}
        self.nodes: list[Any] = []
        self.sent_away: list[Any] = []
        self.refuses: list[Any] = []
        self.sessions: list[Any] = []
        me: Any = self
        connected: Any = SimpleNamespace(links=Links(self), departures=self)
        sessions: Any = SimpleNamespace(all=self.sessions)
        settings = InstancesSettings(rebalance_ms=1_000)
        self.rebalancer = Rebalancer(me, me, connected, sessions, settings, lambda: 1_000.0)
        monkeypatch.setattr(self.rebalancer, "_nodes", Wants(self, "most_nodes"))
        monkeypatch.setattr(self.rebalancer, "_clients", Wants(self, "most_clients"))

    def told(self, **more: Any) -> Figures:
        about: dict[str, Any] = {"life": "l", "at_ms": int(wall_ms()), "nodes": 1, "sessions": 2}
        return Figures(**(about | more))

    @property
    def living(self) -> list[Any]:
        return [SimpleNamespace(instance_id=name) for name in self.figures]

    async def shown(self) -> dict[str, Any]:
        encoded = {name: msgspec.json.encode(one) for name, one in self.figures.items() if one is not None}
        return encoded | self.text

    async def take_turn(self, instance: str, turn_ms: int) -> bool:
        self.turns.append((instance, turn_ms))
        return self.has_turn

    def members_of(self, pool: str) -> int:
        return self.members.get(pool, 2)

    async def send_elsewhere(self, link: Any, why: str) -> bool:
        assert why == WHY
        if link in self.refuses:
            return False
        self.sent_away.append(link)
        return True

    async def look(self) -> list[Any]:
        await self.rebalancer.look()
        return self.sent_away


class Links:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __len__(self) -> int:
        return len(self._scene.nodes)

    def all(self) -> list[Any]:
        return self._scene.nodes


class Wants:
    def __init__(self, scene: Scene, name: str) -> None:
        self._scene, self._name = scene, name

    def look(self, mine: int, others: list[int]) -> int:
        self._scene.asked.append((mine, others))
        most: int = getattr(self._scene, self._name)
        return most

    def sent(self, mine: int, others: list[int]) -> None:
        self._scene.counted.append((mine, others))


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


async def test_the_latest_nodes_are_sent_as_many_as_are_wanted(scene: Scene) -> None:
    scene.nodes = [link_of("p1"), link_of("p2"), link_of("p3")]
    with capture_logs() as logged:
        assert await scene.look() == [scene.nodes[2], scene.nodes[1]]
    assert [(one["event"], one["nodes"], one["sessions"]) for one in logged] == [("instance.rebalanced", 2, 0)]
    assert scene.turns == [("a", 1_000)]
    assert scene.asked == [(3, [1]), (0, [2])]
    assert scene.counted == [(3, [1])]


async def test_those_that_stay(scene: Scene) -> None:
    scene.members = {"last": 1, "two": 2}
    scene.nodes = [
        link_of("p1", takes_jobs=False),
        link_of("p2", sent=True),
        link_of("p3", peer=Mailbox(100)),
        link_of("p4", "last"),
    ]
    assert await scene.look() == []
    assert scene.counted == []


async def test_of_one_pool_a_part_is_sent_at_once(scene: Scene) -> None:
    scene.most_nodes = 9
    scene.nodes = [link_of("small"), link_of("small"), *(link_of("large") for _ in range(4))]
    scene.members = {"small": 19, "large": 20}
    await scene.look()
    assert [sorted(link.pools) for link in scene.sent_away] == [["large"], ["large"], ["small"]]


async def test_one_that_got_a_job_meanwhile_stays_and_the_next_is_sent(scene: Scene) -> None:
    scene.most_nodes = 1
    scene.nodes = [link_of("p1"), link_of("p2")]
    scene.refuses = [scene.nodes[1]]
    assert await scene.look() == [scene.nodes[0]]


@pytest.mark.parametrize("who_waits", ["a", "b"])
async def test_while_jobs_wait_no_node_is_sent(scene: Scene, who_waits: str) -> None:
    scene.figures[who_waits] = scene.told(jobs_waiting=1)
    scene.nodes = [link_of("p1")]
    assert await scene.look() == []
    assert scene.turns == []


async def test_without_its_turn_or_when_it_stops_nobody_is_sent(scene: Scene) -> None:
    scene.nodes = [link_of("p1")]
    scene.has_turn = False
    assert await scene.look() == []
    scene.has_turn, scene.rebalancer.is_open = True, False
    assert await scene.look() == []
    assert len(scene.turns) == 1


@pytest.mark.parametrize("what", ["old", "unknown", "unreadable", "alone", "not itself"])
async def test_without_the_figures_of_all_nobody_is_sent(scene: Scene, what: str) -> None:
    scene.nodes = [link_of("p1")]
    match what:
        case "old":
            scene.figures["b"] = scene.told(at_ms=int(wall_ms()) - FRESH_MS - 1)
        case "unknown":
            scene.figures["b"] = None
        case "unreadable":
            scene.text["b"] = b"{}"
        case "alone":
            del scene.figures["b"]
        case _:
            del scene.figures["a"]
    assert await scene.look() == []
    assert scene.asked == []


def session_of(peer: Any, spoke_at_s: float = 0.0) -> Any:
    conversation = SimpleNamespace(under_way=0, is_speaking=False, held_bytes=0)
    about = {"backlog": [], "awaited": 0, "is_gateway": False, "is_closed": False}
    return SimpleNamespace(peer=peer, conversation=conversation, spoke_at_s=spoke_at_s, **about)


async def test_clients_whose_sessions_are_all_quiet_are_told_to_come_back(scene: Scene) -> None:
    scene.most_nodes, scene.most_clients = 0, 2
    noisy, quiet, other = Peer(), Peer(), Peer()
    scene.sessions += [session_of(noisy), session_of(noisy, spoke_at_s=998.0), session_of(None)]
    scene.sessions += [session_of(quiet), session_of(quiet), session_of(other)]
    await scene.look()
    assert (noisy.closed, quiet.closed, other.closed) == ([], [(CloseCode.COME_BACK, WHY)], [])
    assert scene.asked == [(0, [1]), (5, [2])]
    assert scene.counted == [(5, [2])]


@pytest.mark.parametrize(
    ("what", "value"),
    [("under_way", 1), ("is_speaking", True), ("held_bytes", 1)],
)
def test_one_whose_conversation_goes_on_is_not_quiet(what: str, value: Any) -> None:
    session = session_of(None)
    assert is_quiet(session, 3.0, 3.1)
    assert not is_quiet(session, 3.0, 3.0)
    setattr(session.conversation, what, value)
    assert not is_quiet(session, 3.0, 3.1)


@pytest.mark.parametrize(
    ("what", "value"), [("backlog", [1]), ("awaited", 1), ("is_gateway", True), ("is_closed", True)]
)
def test_one_that_has_something_to_come_is_not_quiet(what: str, value: Any) -> None:
    session = session_of(None)
    setattr(session, what, value)
    assert not is_quiet(session, 3.0, 3.1)
