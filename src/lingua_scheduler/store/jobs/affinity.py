"""Affinity keys: the node that served a caller's key last, for a while."""

from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import is_node, is_shard
from lingua_scheduler.store.unreadable import UnreadableKeys


class Affinity:
    def __init__(self, line: RedisLine, keys: Keys, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._unreadable = unreadable

    async def read(self, key: str, *, tenant: str = "") -> tuple[str, int] | None:
        """The node and its shard, or None when nothing is bound (any more)."""
        bound = await self._line.call("GET", self._keys.affinity(key, tenant))
        if bound is None:
            return None
        shard, _, node_id = bound.partition(" ")
        if not (is_shard(shard) and is_node(node_id)):
            self._unreadable.met("affinity", self._keys.affinity(key, tenant))
            return None
        return node_id, int(shard)

    async def bind(self, key: str, node_id: str, shard: int, ttl_ms: int, *, tenant: str = "") -> None:
        await self._line.call("SET", self._keys.affinity(key, tenant), f"{shard} {node_id}", "PX", ttl_ms)
