"""Mail while a Redis server dies or hands over: readers follow to wherever the inbox is."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from lingua_scheduler.services.cluster.mailroom import Posted
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.servers.local_cluster import LocalServer, in_step
from lingua_scheduler.store.store import Store
from tests.support.clusters import Cluster, Sentinels
from tests.support.mail import Office, lost, office
from tests.support.servers import binaries
from tests.support.waiting import until

FAILOVER_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    started = Cluster(str(binaries()["valkey"]), replicas=3, node_timeout_ms=1_000)
    yield started
    started.stop()


@pytest.fixture
def sentinels() -> Iterator[Sentinels]:
    started = Sentinels(str(binaries()["valkey"]))
    yield started
    started.stop()


@asynccontextmanager
async def two_offices(url: str) -> AsyncIterator[tuple[Office, Office, Store]]:
    store = Store(url, key_prefix="lingua:v1")
    await store.open()
    async with office(store, "a") as here, office(store, "b") as there:
        yield here, there, store
    await store.close()


async def insist(here: Office, number: int) -> None:
    """Until it is sent; during a failover a letter may be refused, or sent twice."""

    async def is_sent() -> bool:
        try:
            return await here.mailroom.post("b", lost(number)) is Posted.SENT
        except RedisAway:
            return False

    await until(is_sent, within_s=FAILOVER_S)


async def letters_survive(
    here: Office, there: Office, fail_over: Callable[[], None], is_over: Callable[[], bool]
) -> None:
    for number in range(20):
        await insist(here, number)
    await until(lambda: len(there.heard) >= 20)
    fail_over()
    for number in range(20, 40):
        await insist(here, number)
    await until(is_over, within_s=FAILOVER_S)
    for number in range(40, 60):
        await insist(here, number)
    # What was posted after the failover is there; what was posted during it may have been lost with the old master.
    await until(lambda: set(range(40, 60)) <= set(there.numbers), within_s=FAILOVER_S)


def master_and_replica(cluster: Cluster, key: str) -> tuple[LocalServer, LocalServer]:
    master = cluster.owner_of(key)
    return master, next(
        server
        for server in cluster.servers
        if server.is_running and server.info("replication").get("master_port") == str(master.port)
    )


async def test_mail_goes_on_after_the_master_of_an_inbox_is_killed(cluster: Cluster) -> None:
    async with two_offices(cluster.url) as (here, there, store):
        master, heir = master_and_replica(cluster, store.keys.inbox("b"))
        await letters_survive(
            here, there, master.kill, lambda: heir.info("replication")["role"] == "master" and store.is_ready
        )
    master.launch()
    await until(lambda: in_step(master) and cluster.is_ok(), within_s=FAILOVER_S)


async def test_mail_goes_on_when_a_master_hands_its_slots_over(cluster: Cluster) -> None:
    async with two_offices(cluster.url) as (here, there, store):
        _, heir = master_and_replica(cluster, store.keys.inbox("b"))
        await letters_survive(
            here,
            there,
            lambda: heir.command("CLUSTER", "FAILOVER"),
            lambda: heir.info("replication")["role"] == "master",
        )
        # Nothing is lost when nobody died.
        await until(lambda: set(range(60)) <= set(there.numbers))


async def test_mail_goes_on_behind_sentinels_when_the_master_is_killed(sentinels: Sentinels) -> None:
    async with two_offices(sentinels.url) as (here, there, store):
        master, heir = sentinels.pair()
        await letters_survive(
            here, there, master.kill, lambda: heir.info("replication")["role"] == "master" and store.is_ready
        )
