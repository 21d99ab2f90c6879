"""Offers a slot that became free to a job that waits."""

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.links import NodeLinks


class FreedSlots:
    def __init__(self, links: NodeLinks, waiting: WaitingRoom) -> None:
        self._links = links
        self._waiting = waiting

    def freed(self, attempt: Attempt) -> None:
        """Wake a job that waits for a slot of this node. Slots of nodes elsewhere are announced from there."""
        link = self._links.find(attempt.node_id)
        if link is not None:
            self._waiting.slot_freed(link.node_id, link.serves)
