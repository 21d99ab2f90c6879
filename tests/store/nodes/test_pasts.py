"""What is remembered of a node that left is only a hint."""

from typing import Any, cast

from lingua_scheduler.domain.nodes.nodes import (
    DrainOutcome,
    RegisterOutcome,
    RemoveOutcome,
)
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.store.connection import Argument, RedisAway, RedisLine, Waiter
from lingua_scheduler.store.nodes.nodes import Nodes
from lingua_scheduler.store.nodes.pasts import Pasts
from lingua_scheduler.store.store import Store
from tests.support.fleet import HERE, entry, join

ELSEWHERE = Owner("i-elsewhere", "c9")
TEXT = "en:zh:text"


class Deaf:
    """A line on which what is remembered of nodes that left cannot be asked for: its server is away."""

    def __init__(self, line: RedisLine) -> None:
        self._line = line
        self.is_away = True

    def call(self, *command: Argument) -> Waiter:
        if self.is_away and str(command[1]).endswith(":past"):
            raise RedisAway("the server of another slot is away")
        return self._line.call(*command)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._line, name)


async def test_nodes_come_and_go_while_nobody_can_be_asked_about_their_past(store: Store) -> None:
    pasts = Pasts(cast("RedisLine", Deaf(store.line)), store.keys, store.unreadable)
    nodes = Nodes(store.keys, store.scripts, store.placements, pasts, store.unreadable)
    believed = entry("n1", max_jobs=50)._replace(believed_slots=8)
    for _ in range(2):
        assert (await nodes.register(0, HERE, believed)).outcome is RegisterOutcome.REGISTERED
        assert (await nodes.restore(0, HERE, believed, believed.pools, "1")).outcome is RegisterOutcome.REGISTERED
        assert (await nodes.remove(0, HERE, "n1", frozenset()))[0] is RemoveOutcome.REMOVED


async def test_a_drain_that_could_not_be_forgotten_does_not_come_back_after_the_node_was_resumed(store: Store) -> None:
    """Only what a node was when it left last counts."""
    line = Deaf(store.line)
    pasts = Pasts(cast("RedisLine", line), store.keys, store.unreadable)
    nodes = Nodes(store.keys, store.scripts, store.placements, pasts, store.unreadable)
    node = entry("n1")._replace(boot_id="boot-1")
    await join(store, node)
    line.is_away = False
    await nodes.drain("n1")
    await nodes.remove(0, HERE, "n1", node.pools)
    line.is_away = True
    await nodes.register(0, HERE, node)
    line.is_away = False
    await nodes.drain("n1", resume=True)
    await nodes.remove(0, HERE, "n1", node.pools)
    await nodes.register(0, HERE, node)
    assert await nodes.drain("n1", resume=True) == (DrainOutcome.KEPT, 0)
