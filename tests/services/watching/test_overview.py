"""Answers about the fleet: this instance, nodes one by one, pairs with their nodes, and what is missing."""

import time
from typing import cast

import msgspec
import pytest

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.pools.pools import Languages
from lingua_scheduler.domain.watching.tallies import NodeTally, TalliedError
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.services.sessions.sessions import Sessions
from lingua_scheduler.services.watching import overview as module
from lingua_scheduler.services.watching.overview import Overview, lately_of
from lingua_scheduler.store.reading import StoredProfile
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.fleet import dispatch, entry, join, order, saying, wide_entry

BOTH = frozenset({"en:zh:speech", "en:zh:text"})
MINUTE_MS = 60_000


class FakeExplainer:
    async def missing(self, pool: str, _tenant: str) -> str:
        return f"nobody serves {pool}"


class Seconds:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def overview(store: Store, seconds: Seconds) -> Overview:
    return Overview(
        *("i1", "1.2", store),
        cast("NodeLinks", ["link"]),
        cast("Sessions", ["s1", "s2"]),
        cast("WaitingRoom", ["j1", "j2", "j3"]),
        cast("Explainer", FakeExplainer()),
        seconds,
    )


async def test_the_status_tells_of_this_instance_and_sums_the_slots(
    store: Store, overview: Overview, seconds: Seconds
) -> None:
    await join(store, entry("n2", max_jobs=3))
    await join(store, entry("n1"))
    await dispatch(store, order(1))
    seconds.now += 12.34
    before = (await overview.status()).jobs_ended
    metrics.JOBS.labels(JobState.FAILED.value).inc(2)
    status = await overview.status()
    assert (status.instance_id, status.version, status.uptime_seconds) == ("i1", "1.2", 12.3)
    assert (status.redis.version, status.redis.url, status.redis.ready) == (store.version, store.url, True)
    assert (status.sessions, status.nodes_connected, status.jobs_waiting) == (2, 1, 3)
    assert (status.slots.total, status.slots.taken) == (5, 1)
    assert [node.node_id for node in status.nodes] == ["n1", "n2"]
    assert status.workers == []
    grown = {state: count - before[state] for state, count in status.jobs_ended.items()}
    assert grown == {"DONE": 0, "NO_TEXT": 0, "FAILED": 2, "CANCELLED": 0}


async def test_a_node_is_told_with_all_that_is_known_of_it(store: Store, overview: Overview) -> None:
    languages = Languages(asr=frozenset({"en", "de"}), semantic=frozenset({"en"}), tts=frozenset({"zh", "fr"}))
    profile = StoredProfile(version="7", platform="linux", services=["a"], languages=languages)
    said = msgspec.json.encode(profile).decode()
    await join(store, saying(entry("n1", pools=BOTH, max_jobs=3, acknowledges=True), said))
    attempt, _ = await dispatch(store, order(1))
    sick_until_ms = int(time.time() * 1000) + MINUTE_MS
    await store.line.call("ZADD", store.keys.shard(0).sick, sick_until_ms, "n1 tts")
    found = await overview.node("n1")
    assert found is not None
    assert (found.node_id, found.state, found.shard, found.instance_id) == ("n1", "ready", 0, "i-here")
    assert (found.max_jobs, found.held, found.free, found.acknowledges) == (3, 1, 2, True)
    assert found.alive_until_ms > time.time() * 1000
    assert (found.version, found.platform, found.services) == ("7", "linux", ["a"])
    assert (found.quarantined_for_ms, found.level) == (None, "warning")
    assert list(found.unavailable_for_ms) == ["tts"]
    assert 0 < found.unavailable_for_ms["tts"] <= MINUTE_MS
    assert found.pairs == ["en:zh"]
    assert found.wide_pairs == 0
    lease = found.jobs[0]
    assert (lease.job_id, lease.attempt_id, lease.state) == (attempt.job_id, 1, "DISPATCHED")
    assert lease.deadline_ms > time.time() * 1000
    told = found.languages
    assert (told.asr, told.semantic, told.tts) == (["de", "en"], ["en"], ["fr", "zh"])
    assert told.translations is None
    assert (found.lately.done, found.lately.failed) == (0, 0)
    assert await overview.node("n9") is None


async def test_all_nodes_are_listed_by_name(store: Store, overview: Overview) -> None:
    for name in ("n2", "n1"):
        await join(store, entry(name))
    assert [node.node_id for node in await overview.nodes()] == ["n1", "n2"]


async def test_pairs_are_listed_with_their_nodes_as_speech_and_as_text(store: Store, overview: Overview) -> None:
    await join(store, entry("n1", pools=BOTH))
    await join(store, entry("n2", pools=frozenset({"en:zh:text", "xx:yy:text"})))
    await join(store, wide_entry("w1"))
    _, term = await store.pools.claim("i7", 60_000)
    await store.pools.publish(term, await store.pools.build_map())
    published = await store.pools.published()
    found = await overview.pools()
    assert found.pairs["en:zh"] == {"speech": 2, "text": 3}
    assert found.pairs["xx:yy"] == {"text": 1}
    (wide,) = found.wide
    assert (wide.nodes, wide.translations) == (1, None)
    assert (len(wide.sources), len(wide.text), len(wide.speech)) == (99, 99, 99)
    assert wide.name
    assert (found.leader, found.generated_by) == ("i7", published.generated_by)
    assert (found.version, found.generated_at_ms) == (published.version, published.generated_at_ms)


async def test_without_nodes_and_leader_there_are_no_pairs(store: Store, overview: Overview) -> None:
    await join(store, entry("n1", pools=BOTH))
    await join(store, wide_entry("w1"))
    for name in ("n1", "w1"):
        await store.nodes.drain(name)
    found = await overview.pools()
    assert (found.pairs, found.wide, found.leader) == ({}, [], None)


async def test_a_pair_is_told_with_its_nodes_and_slots(store: Store, overview: Overview) -> None:
    await join(store, entry("n2", pools=BOTH, max_jobs=3))
    await join(store, entry("n1", pools=frozenset({"en:zh:text"}), max_jobs=2))
    await join(store, entry("n3", pools=frozenset({"en:fr:speech"})))
    await dispatch(store, order(1))
    found = await overview.pool("en", "zh")
    assert (found.src, found.tgt, found.speech, found.text, found.missing) == ("en", "zh", 1, 2, {})
    assert (found.slots, found.free) == (5, 4)
    told = [(one.node_id, one.state, one.speech, one.max_jobs, one.held, one.free) for one in found.nodes]
    assert told == [("n1", "ready", False, 2, 0, 2), ("n2", "ready", True, 3, 1, 2)]


async def test_what_is_missing_for_a_pair_is_told_for_speech_and_text(store: Store, overview: Overview) -> None:
    await join(store, entry("n1", pools=frozenset({"en:zh:text"})))
    assert (await overview.pool("en", "zh")).missing == {"speech": "nobody serves en:zh:speech"}
    both = (await overview.pool("en", "fr")).missing
    assert both == {"speech": "nobody serves en:fr:speech", "text": "nobody serves en:fr:text"}


async def test_nodes_that_serve_a_pair_and_take_no_work_are_named_by_their_state(
    store: Store, overview: Overview
) -> None:
    await join(store, entry("n1", pools=BOTH))
    until_ms = int(time.time() * 1000) + MINUTE_MS
    await store.line.call("ZADD", store.keys.shard(0).sick, until_ms, "n1")
    found = await overview.pool("en", "zh")
    said = "no node takes work for en→zh: those that serve it are quarantined"
    assert found.missing == {"speech": said, "text": said}
    assert (found.speech, found.text) == (0, 0)


async def test_a_drained_node_does_not_count(store: Store, overview: Overview) -> None:
    await join(store, entry("n1", pools=BOTH))
    await store.nodes.drain("n1")
    found = await overview.pool("en", "zh")
    assert (found.speech, found.text, found.slots, found.free, found.nodes) == (0, 0, 0, 0, [])
    assert found.missing["text"] == "nobody serves en:zh:text"


async def test_of_very_many_nodes_of_a_pair_the_first_are_listed(
    store: Store, overview: Overview, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_MEMBERS", 1)
    for name in ("n1", "n2"):
        await join(store, entry(name, pools=BOTH))
    found = await overview.pool("en", "zh")
    assert (found.speech, [one.node_id for one in found.nodes]) == (2, ["n1"])


def test_lately_is_the_tally() -> None:
    error = TalliedError(7, "JOB_TIMEOUT", "job-1")
    told = lately_of(NodeTally(done=3, failed=1, mean_ms=10, slowest_ms=20, real_time_factor=0.5, errors=[error]))
    assert (told.done, told.failed, told.failed_percent) == (3, 1, 25.0)
    assert (told.mean_ms, told.slowest_ms, told.real_time_factor) == (10, 20, 0.5)
    assert [(one.at_ms, one.reason, one.job_id) for one in told.errors] == [(7, "JOB_TIMEOUT", "job-1")]
