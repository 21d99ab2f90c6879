"""Nodes as people look at them."""

from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.store.store import Store
from tests.support.fleet import entry, join
from tests.support.servers import RedisProcess

ELSEWHERE = Owner("i-elsewhere", "c9")
TEXT = "en:zh:text"


async def test_a_fleet_larger_than_the_line_may_have_waiting_can_be_looked_at(server: RedisProcess) -> None:
    store = Store(server.url, key_prefix="large:v1", max_pending=1_000)
    await store.open()
    for node in range(300):
        await join(store, entry(f"n{node}"), shard=node // 100)
    assert len(await store.node_views.all()) == 300
    assert len(await store.owners.owned_by({"i-here"})) == 300
    assert await store.owners.owned_by({"i-elsewhere"}) == []
    assert len(await store.placements.sample(50)) == 50
    await store.close()
