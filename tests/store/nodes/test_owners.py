"""Owners in Redis: who holds a node."""

from lingua_scheduler.domain.nodes.nodes import (
    RegisterOutcome,
)
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.store.store import Store
from tests.support.fleet import entry, join

ELSEWHERE = Owner("i-elsewhere", "c9")
TEXT = "en:zh:text"


async def test_a_node_whose_owner_cannot_be_read_is_held_by_nobody(store: Store) -> None:
    await join(store, entry("n1", boot_id="a"))
    await store.line.call("HSET", store.keys.shard(0).owners, "n1", "garbage")
    assert await store.owners.holder("n1") is None
    assert store.unreadable.lately == ["owners"]
    assert (await join(store, entry("n1", boot_id="b"))).outcome is RegisterOutcome.REGISTERED
