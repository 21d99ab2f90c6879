"""Affinity keys in Redis: a node is remembered for a while, and what is no node is none."""

import pytest

from lingua_scheduler.store.store import Store


async def test_a_key_remembers_the_node_that_was_bound_last(store: Store) -> None:
    await store.affinity.bind("anna", "n1", 0, 60_000)
    await store.affinity.bind("anna", "n2", 7, 60_000)
    assert await store.affinity.read("anna") == ("n2", 7)
    assert await store.affinity.read("bert") is None


async def test_a_binding_has_its_time(store: Store) -> None:
    await store.affinity.bind("anna", "n1", 0, 60_000)
    assert 0 < await store.line.call("PTTL", store.keys.affinity("anna")) <= 60_000


@pytest.mark.parametrize("garbage", ["", "n1", "x n1", "0 ", "0 not a node", "-1 n1"])
async def test_a_value_that_names_no_node_is_skipped_and_counted(store: Store, garbage: str) -> None:
    await store.line.call("SET", store.keys.affinity("anna"), garbage)
    assert await store.affinity.read("anna") is None
    assert store.unreadable.lately == ["affinity"]
