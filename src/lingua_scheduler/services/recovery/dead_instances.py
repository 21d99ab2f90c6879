"""Cleans up after instances that died: their nodes, their jobs, and results they did not live to send."""

from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.nodes.sweeper import Sweeper


class DeadInstances:
    def __init__(self, presence: Presence, sweeper: Sweeper, endings: Endings) -> None:
        self._presence = presence
        self._sweeper = sweeper
        self._endings = endings
        self._dead_before: set[str] = set()

    async def look(self) -> None:
        """Idempotent: every live instance does the same."""
        dead = {found.instance_id for found in await self._presence.dead()} - {self._presence.instance}
        await self._sweeper.remove_orphans(dead)
        await self._sweeper.close_forsaken(dead)
        # Not instances that died or left just now: their last letters may still be in our inbox.
        await self._endings.recheck_held_by(dead & self._dead_before)
        self._dead_before = dead
