"""A slot that became free is offered to jobs that wait here."""

from collections.abc import Collection
from typing import Any, cast

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.services.dispatch.freed_slots import FreedSlots
from lingua_scheduler.store.store import Store
from tests.support.connected import connected_to, registered
from tests.support.fleet import POOL


class Queue:
    def __init__(self) -> None:
        self.offered: list[tuple[str, bool]] = []

    def slot_freed(self, node_id: str, pools: Collection[str]) -> None:
        self.offered.append((node_id, POOL in pools))


async def test_a_slot_of_a_node_that_is_connected_here_is_offered_and_no_other(store: Store) -> None:
    connected, queue = connected_to(store), Queue()
    await registered(connected)
    slots = FreedSlots(connected.links, cast("Any", queue))
    slots.freed(Attempt("job-0-1", 1, "elsewhere", 0))
    assert queue.offered == []
    slots.freed(Attempt("job-0-2", 1, "n1", 0))
    assert queue.offered == [("n1", True)]
