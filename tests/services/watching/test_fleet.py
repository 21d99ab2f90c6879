"""The fleet is read in one way: for the picture, for one who wants to see what was just written, for one node."""

import asyncio
import time

import msgspec
import pytest

from lingua_scheduler.domain.nodes.nodes import Machine, MachineLoad
from lingua_scheduler.domain.watching.picture import Level, Room
from lingua_scheduler.domain.watching.tallies import TalliedError, TallySums
from lingua_scheduler.services.watching import fleet as reading
from lingua_scheduler.services.watching.fleet import (
    FreshFleet,
    Members,
    fleet_of,
    last_errors,
    read_member,
    read_members,
    served_pair,
)
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.nodes.fleet_columns import digest_of, look_of
from lingua_scheduler.store.reading import StoredProfile
from lingua_scheduler.store.store import Store
from tests.support.fleet import entry, join, saying, wide_entry

MINUTE_MS = 60_000


async def test_one_node_alone_looks_as_it_does_in_the_fleet(store: Store) -> None:
    now_ms = int(time.time() * 1000)
    await join(store, saying(entry("n1"), '{"version": "7"}'))
    await join(store, wide_entry("w1"))
    await store.line.call("ZADD", store.keys.shard(0).sick, now_ms + MINUTE_MS, "n1 tts", now_ms + MINUTE_MS, "w1")
    members = await read_members(store, now_ms, {})
    for name, member in members.items():
        alone = await read_member(store, name)
        assert alone is not None
        assert (alone.row, alone.look) == (member.row, member.look)
    assert [member.look.level for member in members.values()] == [Level.WARNING, Level.CRITICAL]
    assert members["n1"].said.version == "7"
    assert await read_member(store, "n2") is None


async def test_the_last_error_of_a_quarantined_node_is_read(store: Store) -> None:
    now_ms = int(time.time() * 1000)
    for name in ("n1", "n2", "n3"):
        await join(store, entry(name))
    await store.line.call("ZADD", store.keys.shard(0).sick, now_ms + MINUTE_MS, "n1", now_ms + MINUTE_MS, "n2")
    for name in ("n1", "n3"):
        errors = [TalliedError(now_ms - age_ms, code, "job-1") for age_ms, code in ((5, "OOM"), (9, "NMT_TIMEOUT"))]
        await store.tallies.add(0, name, TallySums(failed=2), errors)
    members = await read_members(store, now_ms, {})
    (error,) = (await last_errors(store, members, now_ms)).items()
    assert error == ("n1", (await store.tallies.read(0, "n3", now_ms)).errors[0].reason)


async def test_pairs_and_nodes_are_judged(store: Store) -> None:
    for name in ("n1", "n2"):
        await join(store, entry(name, pools=frozenset({"en:zh:speech", "en:zh:text"})))
    await join(store, entry("n3", pools=frozenset({"en:fr:speech", "en:fr:text"})))
    found = await fleet_of(await read_members(store, 0, {}), asked=["xx:yy"])
    assert {f"{pair.src}:{pair.tgt}": (pair.room, pair.level) for pair in found.pairs} == {
        "en:zh": (Room.WIDE, None),
        "en:fr": (Room.WIDE, Level.NOTICE),
        "xx:yy": (Room.NONE, Level.CRITICAL),
    }


async def test_a_drained_node_serves_no_pair(store: Store) -> None:
    await join(store, entry("n1"))
    before = (await read_members(store, 0, {}))["n1"]
    await store.nodes.drain("n1")
    after = (await read_members(store, 0, {}))["n1"]
    assert (before.pairs, before.serves("en", "zh", "speech")) == (["en:zh"], True)
    assert (after.pairs, after.serves("en", "zh", "speech")) == ([], False)
    # What it would serve is still known.
    assert after.look.speech == ["en:zh"]


async def test_a_node_that_did_not_change_is_the_same_value(store: Store) -> None:
    await join(store, entry("n1"))
    known = await read_members(store, 0, {})
    assert (await read_members(store, 0, known))["n1"] is known["n1"]


class Slow:
    """Readings that end when they may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.may_end = asyncio.Event()
        self.is_away = False
        self._read = read_members
        monkeypatch.setattr(reading, "read_members", self.read)

    async def read(self, store: Store, now_ms: int, known: Members) -> Members:
        self.begun += 1
        found = await self._read(store, now_ms, known)
        await self.may_end.wait()
        if self.is_away:
            raise RedisAway("nobody there")
        return found


async def begun(slow: Slow, times: int) -> None:
    while slow.begun < times:
        await asyncio.sleep(0)


async def test_whoever_asks_sees_what_was_written_before_and_shares_the_reading(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fresh = Slow(monkeypatch), FreshFleet(store)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(fresh.read())
        await begun(slow, 1)
        await join(store, entry("n1"))
        others = [group.create_task(fresh.read()) for _ in range(20)]
        await asyncio.sleep(0)
        slow.may_end.set()
    assert first.result().nodes == []
    assert all([node.node_id for node in other.result().nodes] == ["n1"] for other in others)
    assert slow.begun == 2


async def test_a_reading_that_failed_is_not_taken_for_news(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fresh = Slow(monkeypatch), FreshFleet(store)
    slow.is_away = True
    first = asyncio.create_task(fresh.read())
    await begun(slow, 1)
    second = asyncio.create_task(fresh.read())
    slow.may_end.set()
    for asked in (first, second):
        with pytest.raises(RedisAway):
            await asked
    slow.is_away = False
    await join(store, entry("n1"))
    assert [node.node_id for node in (await fresh.read()).nodes] == ["n1"]


async def test_a_node_looks_as_it_says_and_as_redis_has_it(store: Store) -> None:
    machine = Machine(cores=8, memory_gb=32, gpu_gb=24)
    profile = StoredProfile(version="7", platform="linux", services=["a"], types=["asr"], machine=machine)
    said = saying(entry("n1", max_jobs=3), msgspec.json.encode(profile).decode())
    look_text = look_of(digest_of(said.pools, said.profile), said.alive_ms, MachineLoad(cpu=10, memory=20, gpu=30))
    await join(store, said._replace(look=look_text))
    now_ms = int(time.time() * 1000)
    look = (await read_members(store, now_ms, {}))["n1"].look
    assert (look.node_id, look.instance_id, look.state, look.shard) == ("n1", "i-here", "ready", 0)
    assert (look.max_jobs, look.held, look.free) == (3, 0, 3)
    assert (look.version, look.platform, look.services, look.types) == ("7", "linux", ["a"], ["asr"])
    assert (look.cpu, look.memory, look.gpu) == (10, 20, 30)
    assert (look.cores, look.memory_gb, look.gpu_gb) == (8, 32, 24)
    assert (look.speech, look.text, look.wide, look.wide_pairs) == (["en:zh"], [], "", 0)
    assert abs(look.seen_at_ms - now_ms) < MINUTE_MS
    assert look.alive_until_ms == look.seen_at_ms + said.alive_ms
    assert (look.quarantined_until_ms, look.unavailable, look.level) == (0, [], None)


async def test_a_wide_node_names_its_pool_and_counts_its_pairs(store: Store) -> None:
    await join(store, wide_entry("w1"))
    member = (await read_members(store, 0, {}))["w1"]
    assert member.look.wide == member.said.wide != ""
    assert member.look.wide_pairs == member.wide_pairs > 1_000
    assert member.pairs == []
    assert member.serves("en", "zh", "speech")
    assert not member.serves("en", "qq", "speech")
    await store.nodes.drain("w1")
    assert (await read_members(store, 0, {}))["w1"].wide_pairs == 0


async def test_a_quarantine_that_ran_out_is_probation(store: Store) -> None:
    await join(store, entry("n1"))
    await store.line.call("ZADD", store.keys.shard(0).sick, 10_000, "n1", 20_000, "n1 tts", 5_000, "n1 asr")
    for now_ms, state, left_ms, lacks in ((9_000, "quarantined", 1_000, 11_000), (10_000, "probation", 0, 10_000)):
        member = (await read_members(store, now_ms, {}))["n1"]
        assert (member.look.state, member.look.quarantined_until_ms) == (state, 10_000)
        assert member.quarantined_for_ms(now_ms) == left_ms
        assert member.look.unavailable == ["tts"]
        assert member.unavailable_for_ms(now_ms) == {"tts": lacks}
    await store.line.call("DEL", store.keys.shard(0).sick)
    assert (await read_members(store, 0, {}))["n1"].quarantined_for_ms(0) is None


async def test_speech_and_text_are_served_apart(store: Store) -> None:
    await join(store, entry("n1", pools=frozenset({"en:zh:text", "en:fr:speech", "en:fr:text"})))
    member = (await read_members(store, 0, {}))["n1"]
    assert (member.serves("en", "zh", "text"), member.serves("en", "zh", "speech")) == (True, False)
    assert (member.serves("en", "fr", "speech"), member.serves("fr", "en", "text")) == (True, False)
    assert member.pairs == ["en:fr", "en:zh"]


async def test_pairs_that_are_asked_for_or_wanted_are_shown_also_without_nodes(store: Store) -> None:
    await join(store, entry("n1"))
    found = await fleet_of(await read_members(store, 0, {}), asked=["xx:yy"], wanted=["en:zh", "de:fr"])
    assert {f"{pair.src}:{pair.tgt}": pair.nodes for pair in found.pairs} == {"en:zh": 1, "xx:yy": 0, "de:fr": 0}
    assert (list(found.members), [look.node_id for look in found.nodes], found.wide) == (["n1"], ["n1"], [])


async def test_a_pair_is_found_under_the_tags_of_the_nodes_also_of_wide_ones(store: Store) -> None:
    await join(store, entry("n1", pools=frozenset({"pt:de:text"})))
    await join(store, wide_entry("w1"))
    members = await read_members(store, 0, {})
    assert served_pair(members, "en", "zh") == ("en", "zh")
    assert served_pair(members, "en-US", "zh") == ("en", "zh")
    assert served_pair(members, "pt-BR", "de") == ("pt", "de")
    assert served_pair(members, "de", "pt-BR") == ("de", "pt-BR")
