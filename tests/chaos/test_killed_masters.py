"""A master of a Redis Cluster killed while people talk: service comes back with it, no slot is sold twice or lost."""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lingua_scheduler.store.servers.local_cluster import LocalServer
from lingua_scheduler.store.store import Store
from tests.support.clusters import Cluster
from tests.support.crowds import Crowd, crowd_on, is_all_free
from tests.support.instances import instances
from tests.support.servers import binaries
from tests.support.waiting import lateness, until

NODES, PEOPLE = 9, 30
# Three shards, on as many masters as chance has it.
SHARD_SIZE = 3
# It takes a second or two; without the repair it took minutes.
HEAL_S = 15.0
# Heartbeats have told by then what every node really runs.
REPAIRED_S = 4.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    started = Cluster(str(binaries()["valkey"]), replicas=3, node_timeout_ms=1_000)
    yield started
    started.stop()


@pytest.fixture
async def store(cluster: Cluster) -> AsyncIterator[Store]:
    opened = Store(cluster.url, key_prefix="lingua:v1")
    await opened.open()
    yield opened
    await opened.close()


def next_of(cluster: Cluster, key: str) -> tuple[LocalServer, LocalServer]:
    """The master of a key, and its replica."""
    master = cluster.owner_of(key)
    replicas = (s for s in cluster.alive if s.info("replication").get("master_port") == str(master.port))
    return master, next(replicas)


def works_everywhere(crowd: Crowd, shards: dict[str, int], since_s: float) -> bool:
    """Some node of every shard was given something to do."""
    return {shard for node, shard in shards.items() if crowd.given_at_s[node] > since_s} == set(shards.values())


@pytest.mark.slow
async def test_a_killed_master_costs_as_long_as_the_failover_takes(
    cluster: Cluster, store: Store, tmp_path: Path
) -> None:
    assert [len(cluster.masters), len(cluster.servers)] == [3, 6]
    async with (
        instances(tmp_path, cluster.url, 2, pools__shard_size=SHARD_SIZE) as both,
        crowd_on(both, store, nodes=NODES, people=PEOPLE, delay_s=0.1, under_way=1) as crowd,
    ):
        crowd.start_talking()
        await until(lambda: crowd.outcomes > 300, 60, "people talking")
        shards = {view.node_id: view.shard for view in await store.node_views.all()}
        assert set(shards.values()) == {0, 1, 2}
        master, heir = next_of(cluster, store.keys.shard(0).free)
        master.kill()
        killed_s = time.monotonic()
        await until(lambda: heir.info("replication")["role"] == "master" and cluster.is_ok(), 30, "another master")
        failed_over_s = time.monotonic()
        async with lateness() as late:
            await until(lambda: works_everywhere(crowd, shards, failed_over_s), 20, "work for every shard")
        back_s = time.monotonic()
        wanted = crowd.outcomes + 300
        await until(
            lambda: crowd.outcomes > wanted and time.monotonic() > back_s + REPAIRED_S + 2, 60, "people talking on"
        )
        tally = await crowd.hear_out(60)
        refused = [at_s for node in crowd.our_nodes for at_s in node.refused_at]
        print(
            f"\na master of 3+3 killed: replica leads after {failed_over_s - killed_s:.1f} s, service on every shard "
            f"{back_s - failed_over_s:.1f} s later; {tally}\n"
            f"refused by a full node: {len(refused)}, of those after the repair: "
            f"{sum(at_s > back_s + REPAIRED_S for at_s in refused)}"
        )
        assert (tally.lost, tally.twice, tally.wrong) == (0, 0, 0)
        # What a busy machine adds to each step of it is not the scheduler's.
        assert back_s - failed_over_s < HEAL_S + 10 * late.most_s
        assert not [at_s for at_s in refused if at_s > back_s + REPAIRED_S]
        assert sum(person.times_resumed for person in crowd.people) == 0
        await until(lambda: is_all_free(store, NODES), 60, "no lease for ever")
