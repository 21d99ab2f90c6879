"""What is remembered of a node that left: its quarantine, its drain, and the slots that were believed."""

from lingua_scheduler.store.connection import Argument, RedisAway, RedisLine, Reply
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import is_past
from lingua_scheduler.store.unreadable import UnreadableKeys
from lingua_scheduler.telemetry import logs

_log = logs.get()

# Longer than any quarantine, and than a node takes to come back.
PAST_MS = 3_600_000


class Pasts:
    """A past is only a hint, and another server of a Cluster may have it.

    While that one is away nothing is known: nodes come and go all the same.
    """

    def __init__(self, line: RedisLine, keys: Keys, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._unreadable = unreadable

    async def read(self, node_id: str) -> str:
        """Empty when there is none, or it cannot be read."""
        past: str = await self._ask("GET", node_id) or ""
        if past and not is_past(past):
            self._unreadable.met("past", self._keys.past(node_id))
            return ""
        return past

    async def write(self, node_id: str, past: str) -> None:
        await self._ask("SET", node_id, past, "PX", PAST_MS)

    async def forget(self, node_id: str) -> None:
        await self._ask("DEL", node_id)

    async def _ask(self, command: str, node_id: str, *arguments: Argument) -> Reply:
        try:
            return await self._line.call(command, self._keys.past(node_id), *arguments)
        except RedisAway:
            _log.warning("node.past_unknown", node_id=node_id, command=command)
            return None
