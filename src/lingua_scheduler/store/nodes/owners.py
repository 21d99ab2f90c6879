"""Owners in Redis: which connection of which instance holds each node."""

import asyncio
from collections.abc import Collection
from typing import NamedTuple

from lingua_scheduler.domain.nodes.owners import Owner, Ownership
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.nodes.placements import Placements
from lingua_scheduler.store.reading import is_node
from lingua_scheduler.store.unreadable import UnreadableKeys


class Holder(NamedTuple):
    """The connection a node is registered with, and the process it named."""

    owner: Owner
    boot_id: str


class Owners:
    def __init__(self, line: RedisLine, keys: Keys, placements: Placements, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._placements = placements
        self._unreadable = unreadable

    async def holder(self, node_id: str) -> Holder | None:
        """Who has the node now. Only a hint: the registration itself compares again."""
        place = await self._placements.find(node_id)
        if place is None:
            return None
        keys = self._keys.shard(place.shard)
        owner, boot_id = await asyncio.gather(
            self._line.call("HGET", keys.owners, node_id), self._line.call("HGET", keys.node(node_id), "boot_id")
        )
        if owner is None:
            return None
        held = Ownership.parse(owner)
        if held is None:
            self._unreadable.met("owners", node_id)
            return None
        return Holder(held.owner, boot_id or "")

    async def owned_by(self, instances: Collection[str]) -> list[tuple[int, str, Owner]]:
        """Shard and id of every node whose socket one of these held, and the connection it was."""
        shards = await self._placements.shards()
        owners = await asyncio.gather(*(self._line.call("HGETALL", self._keys.shard(shard).owners) for shard in shards))
        found = []
        for shard, flat in zip(shards, owners, strict=True):
            for node_id, owner in zip(flat[::2], flat[1::2], strict=True):
                held = Ownership.parse(owner)
                if held is None:
                    self._unreadable.met("owners", node_id)
                elif held.owner.instance in instances:
                    found.append((shard, node_id, held.owner))
        return found

    async def known(self, shard: int) -> set[str]:
        """The nodes really registered in a shard."""
        return set(filter(is_node, await self._line.call("HKEYS", self._keys.shard(shard).owners)))
