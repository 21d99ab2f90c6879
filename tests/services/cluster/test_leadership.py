"""Several instances and one map: the leader builds it, the others read it, and anybody can do without a leader."""

import asyncio

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.pools.pools import Pools
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.fleet import POOL, entry, join
from tests.support.waiting import until


class Instance:
    """What an instance does about the map, without the rest of it."""

    def __init__(self, name: str, pools: Pools, everybody: list["Instance"], lease_ms: int = 60_000) -> None:
        self.leadership = Leadership(name, pools, lease_ms)
        self.map = PoolMapCopy(pools, self.leadership, self._say_changed, self._say_published)
        self._everybody = everybody
        everybody.append(self)

    def _say_changed(self) -> None:
        for other in self._everybody:
            if other is not self:
                other.map.changed_elsewhere()

    def _say_published(self, version: int) -> None:
        for other in self._everybody:
            if other is not self:
                other.map.published_elsewhere(version)


def builds(reason: str) -> float:
    return float(metrics.MAP_BUILDS.labels(reason)._value.get())


@pytest.fixture
async def three(store: Store) -> list[Instance]:
    everybody: list[Instance] = []
    for name in ("i-a", "i-b", "i-c"):
        instance = Instance(name, store.pools, everybody)
        await instance.leadership.stand()
    assert [instance.leadership.is_leading for instance in everybody] == [True, False, False]
    return everybody


async def test_followers_read_what_the_leader_built_and_build_nothing(store: Store, three: list[Instance]) -> None:
    await join(store, entry("n1"))
    before = builds("no_leader"), builds("miss")
    for instance in three:
        await instance.map.refresh()
    assert [instance.map.map.nodes for instance in three] == [{POOL: {0: 1}}] * 3
    assert [instance.map.version for instance in three] == [1, 1, 1]
    assert (builds("no_leader"), builds("miss")) == before


async def test_a_node_that_comes_to_a_follower_is_on_everybodys_map_soon(store: Store, three: list[Instance]) -> None:
    for instance in three:
        await instance.map.refresh()
    await join(store, entry("n1"))
    three[2].map.changed()
    for instance in 2 * three:  # each does its chores in its turn: told to the leader, built, read
        await instance.map.refresh_if_outdated()
    assert [instance.map.map.nodes for instance in three] == [{POOL: {0: 1}}] * 3


async def test_a_copy_that_is_up_to_date_is_not_read_again(store: Store, three: list[Instance]) -> None:
    await join(store, entry("n1"))
    for instance in three:
        await instance.map.refresh()
    copies = [instance.map.map for instance in three[1:]]
    for instance in three:
        await instance.map.refresh()
    assert [instance.map.map for instance in three[1:]] == copies


async def test_without_a_leader_an_instance_builds_its_own_map(store: Store) -> None:
    await join(store, entry("n1"))
    alone = Instance("i-alone", store.pools, [])
    before = builds("no_leader")
    await alone.map.refresh()
    assert POOL in alone.map.map
    assert builds("no_leader") == before + 1


async def test_a_pair_that_is_not_on_the_map_is_looked_for_in_the_shards(store: Store, three: list[Instance]) -> None:
    for instance in three:
        await instance.map.refresh()
    await join(store, entry("n1"))  # nobody told anybody
    await asyncio.gather(*(three[1].map.look_again() for _ in range(10)))
    assert POOL in three[1].map.map


async def test_the_old_leader_cannot_publish_and_learns_that_it_does_not_lead(store: Store) -> None:
    everybody: list[Instance] = []
    old, new = (Instance(name, store.pools, everybody) for name in ("i-old", "i-new"))
    await old.leadership.stand()
    await old.map.refresh()  # what it knows is published as version 1
    await store.line.call("DEL", store.keys.leader)  # its lease runs out while it is frozen
    await new.leadership.stand()
    assert new.leadership.is_leading
    await join(store, entry("n1"))
    assert old.leadership.is_leading  # as far as it knows
    await old.map.refresh()
    assert not old.leadership.is_leading
    assert (await store.pools.published()).version == 1


async def test_a_lease_that_is_not_renewed_runs_out(store: Store) -> None:
    everybody: list[Instance] = []
    old, new = (Instance(name, store.pools, everybody, lease_ms=30) for name in ("i-old", "i-new"))
    await old.leadership.stand()

    async def takes_over() -> bool:
        await new.leadership.stand()
        return new.leadership.is_leading

    await until(takes_over)
    assert new.leadership.leader == "i-new"


async def test_a_leader_that_stands_too_late_learns_that_another_leads(store: Store, three: list[Instance]) -> None:
    former, heir, third = three
    await former.leadership.stand()  # renewed
    assert former.leadership.is_leading
    await store.line.call("DEL", store.keys.leader)
    await heir.leadership.stand()
    with capture_logs() as logged:
        await former.leadership.stand()
        await former.leadership.stand()
        await third.leadership.stand()
        await heir.leadership.stand()
    assert [line["event"] for line in logged] == ["leader.lost"]
    assert [instance.leadership.is_leading for instance in three] == [False, True, False]
    assert [instance.leadership.leader for instance in three] == ["i-b"] * 3
    former.leadership.lost()
    await former.leadership.resign()
    await third.leadership.stand()
    assert third.leadership.leader == "i-b"


async def test_a_leader_resigns_though_redis_is_away(three: list[Instance], monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise RedisAway("gone at that moment")

    monkeypatch.setattr(three[0].leadership._pools, "resign", fail)
    await three[0].leadership.resign()
    assert not three[0].leadership.is_leading


async def test_what_the_old_leader_could_not_publish_is_told_to_the_one_who_leads(
    store: Store, three: list[Instance]
) -> None:
    former, heir, _ = three
    await former.map.refresh()
    await store.line.call("DEL", store.keys.leader)
    await heir.leadership.stand()
    await heir.map.refresh()
    await join(store, entry("n1"))
    former.map.changed()
    await former.map.refresh()  # it still believes that it leads
    assert not former.leadership.is_leading
    await heir.map.refresh_if_outdated()
    assert heir.map.map.nodes == {POOL: {0: 1}}


async def test_a_leader_that_stops_hands_over_at_once(store: Store, three: list[Instance]) -> None:
    await three[0].leadership.resign()
    await three[1].leadership.stand()
    assert three[1].leadership.is_leading


async def test_when_redis_forgot_everything_the_map_is_published_anew(store: Store, three: list[Instance]) -> None:
    for instance in three:
        await instance.map.refresh()
    await store.line.call("FLUSHALL")
    await join(store, entry("n1"))
    for instance in three:
        await instance.leadership.stand()
    for instance in three:
        await instance.map.refresh()
    assert [instance.map.map.nodes for instance in three] == [{POOL: {0: 1}}] * 3
