"""Nodes that use HTTP: who speaks, polls and callbacks, and what becomes of messages that cannot be delivered."""

import asyncio
from typing import Any, cast

import pytest

from lingua_scheduler.domain.guards.addresses import AddressBook, Caller
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.protocol.http import NodeBeat, NodeRegistration
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.nodes.http import messages
from lingua_scheduler.services.nodes.http import nodes as module
from lingua_scheduler.services.nodes.http.messages import Stranger, TooFast
from lingua_scheduler.services.nodes.http.nodes import TOO_MANY, HttpNode, HttpNodes
from lingua_scheduler.services.nodes.toll import Toll
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import JobAssign, JobCancel
from lingua_sdk.protocol.shapes import JobPipeline
from tests.support.connected import connected_to, registered
from tests.support.fleet import entry, join
from tests.support.schedulers import settings_with

# As plain values: a limit that changes is noticed.
READ_AGAIN_S = 15

CALLER = Caller("10.0.0.1", "m1")
DOOR = "http://93.184.216.34/jobs"


def assign(job_id: str) -> JobAssign:
    pipeline = JobPipeline(use_asr=True, use_nmt=True, use_tts=True, use_semantic=True, use_tone=False)
    about: dict[str, Any] = {"session_id": "s-1", "utterance_index": 0, "src_lang": "en", "tgt_lang": "zh"}
    audio: dict[str, Any] = {"audio": b"", "audio_format": "pcm16", "sample_rate": 16_000}
    partial: dict[str, Any] = {"enable_streaming_asr": False, "partial_update_interval_ms": 0}
    ids: dict[str, Any] = {"trace_id": "t", "turn_id": "u"}
    return JobAssign(job_id=job_id, attempt_id=1, pipeline=pipeline, **about, **audio, **partial, **ids)


class Site:
    def __init__(self, store: Store, max_sockets: int = 2, **settings: Any) -> None:
        self.now_s = 100.0
        self.carried: list[tuple[str, Any]] = []
        self.carries = True
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.unsent: list[Attempt] = []
        self.is_away = False
        self.addresses = AddressBook([], [], max_sockets, 100, 1.0)
        self.connected = connected_to(store)
        self.nodes = HttpNodes(
            self.connected,
            cast("Endings", self),
            self.carry,
            Destinations(),
            self.addresses,
            settings_with(nodes__callback_timeout_ms=1_000, **settings),
            lambda: self.now_s,
        )

    async def carry(self, url: str, message: Any) -> bool:
        self.carried.append((url, message))
        await self.may_end.wait()
        return self.carries

    async def end_unsent(self, attempt: Attempt) -> None:
        self.unsent.append(attempt)
        if self.is_away:
            raise RedisAway("nobody there")

    async def register(self, node_id: str = "h1", caller: Caller = CALLER, **more: Any) -> HttpNode:
        node = await self.ask(node_id, caller, **more)
        assert isinstance(node, HttpNode)
        return node

    async def ask(self, node_id: str = "h1", caller: Caller = CALLER, **more: Any) -> HttpNode | Refusal:
        said: dict[str, Any] = {"semantic_langs": ["en", "zh"], "tts_langs": ["zh"], "boot_id": "b1"} | more
        return await self.nodes.register(NodeRegistration(node_id=node_id, **said), caller)

    async def poll(self, node: HttpNode, wait_s: float = 0.0, is_connected: bool = True) -> Any:
        return await self.nodes.poll(node, wait_s, lambda: is_connected)


@pytest.fixture
def site(store: Store) -> Site:
    return Site(store)


# Who speaks


async def test_a_node_is_known_by_its_boot_id_or_by_where_it_came_from(site: Site) -> None:
    node = await site.register()
    assert len(site.nodes) == 1
    stranger = Caller("10.0.0.9", "m9")
    assert site.nodes.find("h1", "b1", stranger) is node
    assert site.nodes.find("h1", None, CALLER) is node
    assert site.nodes.find("h1", "b2", CALLER) is Stranger.ELSEWHERE
    assert site.nodes.find("h1", None, stranger) is Stranger.ELSEWHERE
    assert site.nodes.find("h2", None, CALLER) is Stranger.UNKNOWN
    # Of a long one only the beginning is kept.
    long = await site.register("h3", boot_id="b" * 70)
    assert site.nodes.find("h3", "b" * 70, CALLER) is long
    await registered(site.connected, node_id="ws1")
    assert site.nodes.find("ws1", None, CALLER) is Stranger.ELSEWHERE
    assert await site.nodes.elsewhere("h1", None) == ""


# Registering


@pytest.mark.parametrize(
    ("link", "boot_id", "found"),
    [
        ("h1", "b1", "i-there"),
        ("h1", None, "i-there"),
        ("h1", "b2", Stranger.ELSEWHERE),
        ("c1", "b1", Stranger.ELSEWHERE),
        ("c1", None, Stranger.ELSEWHERE),
    ],
)
async def test_what_cannot_be_of_a_node_is_not_sent_to_its_instance(
    store: Store, site: Site, link: str, boot_id: str | None, found: str | Stranger
) -> None:
    """It has a socket there (`c1`), or is another process."""
    await join(store, entry("n1", boot_id="b1"), Owner("i-there", link))
    assert await site.nodes.elsewhere("n1", boot_id) == found
    assert await site.nodes.elsewhere("n2", boot_id) == ""
    await site.register("h1")
    assert await site.nodes.elsewhere("h1", boot_id) == ""


async def test_an_address_has_places_and_a_node_that_comes_again_needs_no_new_one(site: Site) -> None:
    for name in ("h1", "h2"):
        await site.register(name)
    assert await site.ask("h3") == Refusal(ErrorCode.NODE_UNAVAILABLE, TOO_MANY)
    assert len(site.nodes) == 2
    again = await site.register("h2")
    again.box.close(CloseCode.TRY_LATER, "")
    assert len(site.nodes) == 1
    await site.register("h3")


@pytest.mark.parametrize("wrong", [{"callback_url": "ftp://x"}, {"callback_url": "http://127.0.0.1/"}])
async def test_one_that_is_refused_takes_no_place(site: Site, wrong: dict[str, Any]) -> None:
    for _ in range(5):
        refusal = await site.ask(**wrong)
        assert isinstance(refusal, Refusal)
        assert refusal.code is ErrorCode.INVALID_MESSAGE
    await site.register()


async def test_nobody_is_registered_while_the_scheduler_stops(site: Site) -> None:
    site.nodes.is_open = False
    refusal = await site.ask()
    assert isinstance(refusal, Refusal)
    assert (refusal.code, "stopping" in refusal.message) == (ErrorCode.NODE_UNAVAILABLE, True)


async def test_a_process_that_registers_again_keeps_what_it_has_not_fetched(site: Site) -> None:
    first = await site.register()
    assert first.box.post(assign("job-1"))
    again = await site.register()
    assert again is not first
    assert again.box.take() == [assign("job-1")]
    assert first.box.close_code is CloseCode.SUPERSEDED
    assert site.nodes.find("h1", "b1", CALLER) is again
    assert again.box.post(assign("job-2"))
    # Another process, once this one has not called for too long.
    site.now_s += again.box.interval_s + 1
    other = await site.register(boot_id="b2")
    assert other.box.take() == []


async def test_how_often_it_must_call_follows_from_how_long_it_counts_as_alive(site: Site) -> None:
    node = await site.register()
    assert site.nodes.interval_ms(node.link) == node.link.alive_ms // 3
    assert node.box.interval_s == site.nodes.interval_ms(node.link) / 1000


# Heartbeats


async def test_a_heartbeat_shows_life_and_may_change_the_callback(site: Site) -> None:
    node = await site.register()
    site.now_s += 5
    assert await site.nodes.heartbeat(node, NodeBeat(node_id="h1")) is None
    assert (node.box.silent_s(), node.beaten_at) == (0.0, 105.0)
    assert await site.nodes.heartbeat(node, NodeBeat(node_id="h1", callback_url=DOOR)) is None
    node.box.post(assign("job-1"))
    await site.nodes.close()
    assert [url for url, _ in site.carried] == [DOOR]
    # Absent: it stays; empty: mail waits again.
    await site.nodes.heartbeat(node, NodeBeat(node_id="h1"))
    assert node.box.forward is not None
    await site.nodes.heartbeat(node, NodeBeat(node_id="h1", callback_url=""))
    assert node.box.forward is None
    node.box.post(assign("job-2"))
    assert len(node.box) == 1
    # What waited is carried as soon as there is an address again.
    await site.nodes.heartbeat(node, NodeBeat(node_id="h1", callback_url=DOOR))
    assert len(node.box) == 0
    await site.nodes.close()
    assert [message.job_id for _, message in site.carried] == ["job-1", "job-2"]


async def test_a_heartbeat_may_change_how_often_it_calls(site: Site) -> None:
    node = await site.register(heartbeat_interval_ms=5_000)
    assert node.box.interval_s == 5.0
    assert await site.nodes.heartbeat(node, NodeBeat(node_id="h1", heartbeat_interval_ms=8_000)) is None
    assert node.box.interval_s == site.nodes.interval_ms(node.link) / 1000 == 8.0


async def test_a_heartbeat_that_makes_no_sense_is_refused_and_shows_no_life(site: Site) -> None:
    node = await site.register()
    site.now_s += 5
    refusal = await site.nodes.heartbeat(node, NodeBeat(node_id="h1", callback_url="ftp://x"))
    assert isinstance(refusal, Refusal)
    assert node.box.silent_s() == 5.0


async def test_a_heartbeat_of_one_that_was_replaced_is_told_so(store: Store, site: Site) -> None:
    node = await site.register()
    await site.register()
    assert await site.nodes.heartbeat(node, NodeBeat(node_id="h1")) is Stranger.ELSEWHERE


# Polls


async def test_a_poll_takes_what_waits_and_shows_life(site: Site) -> None:
    node = await site.register()
    node.box.post(assign("job-1"))
    site.now_s += 1
    assert [one.job_id for one in await site.poll(node, 20.0)] == ["job-1"]
    assert node.box.silent_s() == 0.0
    assert await site.poll(node) == []


async def test_a_poll_waits_until_something_comes(site: Site) -> None:
    node = await site.register()
    polling = asyncio.create_task(site.poll(node, 20.0))
    await asyncio.sleep(0.01)
    assert not polling.done()
    node.box.post(assign("job-1"))
    assert [one.job_id for one in await polling] == ["job-1"]


async def test_an_earlier_poll_and_one_whose_caller_left_take_nothing(site: Site) -> None:
    node = await site.register()
    earlier = asyncio.create_task(site.poll(node, 20.0))
    await asyncio.sleep(0.01)
    later = asyncio.create_task(site.poll(node, 20.0))
    assert await earlier == []
    later.cancel()
    node.box.post(assign("job-1"))
    assert await site.poll(node, 20.0, is_connected=False) == []
    assert len(node.box) == 1


@pytest.mark.parametrize(
    ("code", "why"), [(CloseCode.SUPERSEDED, Stranger.ELSEWHERE), (CloseCode.TRY_LATER, Stranger.UNKNOWN)]
)
async def test_a_poll_of_a_closed_box_tells_why(site: Site, code: CloseCode, why: Stranger) -> None:
    node = await site.register()
    node.box.close(code, "")
    assert await site.poll(node, 20.0) is why


async def test_redis_hears_of_some_polls_only(site: Site) -> None:
    node = await site.register()
    half_s = node.box.interval_s / 2
    site.now_s += half_s - 0.1
    await site.poll(node)
    assert node.beaten_at == 100.0
    site.now_s += 0.1
    await site.poll(node)
    assert node.beaten_at == 100.0 + half_s


# Leaving


async def test_one_that_is_silent_for_too_long_is_removed_with_its_place(site: Site) -> None:
    node = await site.register()
    site.now_s += node.link.alive_ms / 1000
    await site.nodes.sweep()
    assert node.box.is_open
    site.now_s += 0.1
    await site.nodes.sweep()
    assert (node.box.close_code, len(site.nodes)) == (CloseCode.TRY_LATER, 0)
    await site.nodes.close()
    assert site.connected.links.find("h1") is None
    for name in ("h2", "h3"):
        await site.register(name)


# Callbacks


async def test_what_waited_is_carried_to_the_address_and_counted_until_it_arrived(site: Site) -> None:
    node = await site.register(callback_url=DOOR)
    site.may_end.clear()
    node.box.post(assign("job-1"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [(url, message.job_id) for url, message in site.carried] == [(DOOR, "job-1")]
    assert (len(node.box), node.box._bytes > 0) == (0, True)
    site.may_end.set()
    await site.nodes.close()
    assert (node.box._bytes, site.unsent) == (0, [])


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_job_that_could_not_be_carried_ends_as_unsent(site: Site, is_away: bool) -> None:
    site.carries, site.is_away = False, is_away
    node = await site.register(callback_url=DOOR)
    node.box.post(assign("job-1"))
    await site.nodes.close()
    assert site.unsent == [Attempt("job-1", 1, "h1", node.link.shard)]
    node.box.post(JobCancel(job_id="job-9"))
    await site.nodes.close()
    assert len(site.unsent) == 1


async def test_a_door_that_does_not_answer_in_time_counts_as_unsent(store: Store) -> None:
    site = Site(store)
    site.nodes._callback_timeout_s = 0.01  # the setting has a minimum that no test should wait for
    site.may_end.clear()
    node = await site.register(callback_url=DOOR)
    node.box.post(assign("job-1"))
    await site.nodes.close()
    assert [attempt.job_id for attempt in site.unsent] == ["job-1"]


@pytest.mark.parametrize(
    ("is_new", "may_read", "expected"),
    [(True, False, TooFast(READ_AGAIN_S)), (True, True, None), (False, False, None)],
)
async def test_long_lists_that_change_too_often_are_not_read(
    site: Site, monkeypatch: pytest.MonkeyPatch, is_new: bool, may_read: bool, expected: TooFast | None
) -> None:
    node = await site.register()
    monkeypatch.setattr(module, "is_new", lambda _languages: is_new)
    monkeypatch.setattr(type(node.link.pace), "may_read", lambda _pace, _languages: may_read)
    # Lists that stay the same are no change.
    assert await site.nodes.heartbeat(node, NodeBeat(node_id="h1", semantic_langs=["en", "zh"])) is None
    before = node.claim.languages
    assert await site.nodes.heartbeat(node, NodeBeat(node_id="h1", semantic_langs=["en", "fr"])) == expected
    assert (node.claim.languages == before) is (expected is not None)


@pytest.mark.parametrize(("health", "cpu"), [("ok", 0.0), ("failing", float("inf"))])
async def test_one_that_registers_and_is_not_well_counts_as_busy_from_the_start(
    site: Site, monkeypatch: pytest.MonkeyPatch, health: str, cpu: float
) -> None:
    beats: list[Any] = []
    take = site.connected.heartbeats.take

    async def watched(link: Any, message: Any) -> Any:
        beats.append((link.node_id, message.resource_usage.cpu_percent))
        return await take(link, message)

    monkeypatch.setattr(site.connected.heartbeats, "take", watched)
    node = await site.register(health=health)
    assert node.claim.is_healthy is (health == "ok")
    assert beats == ([] if health == "ok" else [("h1", cpu)])


@pytest.mark.parametrize(
    ("pairs", "code"), [(["en"], ErrorCode.INVALID_MESSAGE), (None, ErrorCode.INVALID_CAPABILITY_SCHEMA)]
)
async def test_languages_that_cannot_be_read_are_refused_at_the_start_and_later(
    site: Site, monkeypatch: pytest.MonkeyPatch, pairs: list[str] | None, code: ErrorCode
) -> None:
    node = await site.register()
    before = node.claim
    if pairs is None:
        monkeypatch.setattr(messages, "refusal_of", lambda _said: "too many pairs")
    refusal = await site.ask("h2", nmt_pairs=pairs)
    assert isinstance(refusal, Refusal)
    assert refusal.code is code
    assert len(site.nodes) == 1
    beat = NodeBeat(node_id="h1", semantic_langs=["fr"], nmt_pairs=cast("Any", pairs))
    refused = await site.nodes.heartbeat(node, beat)
    assert isinstance(refused, Refusal)
    assert refused.code is code
    assert node.claim == before


async def test_an_address_that_made_too_much_work_waits_before_it_registers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Refusal(ErrorCode.NODE_UNAVAILABLE, "later")

    async def wait(_toll: object) -> Refusal:
        return refusal

    monkeypatch.setattr(Toll, "wait", wait)
    assert await site.ask() == refusal
    assert len(site.nodes) == 0


async def test_one_that_the_registry_refuses_is_no_node(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = Refusal(ErrorCode.NODE_UNAVAILABLE, "too many nodes")

    async def register(*_: object) -> Refusal:
        return refusal

    monkeypatch.setattr(site.connected.registry, "register", register)
    assert await site.ask() == refusal
    assert len(site.nodes) == 0
