"""Placements in Redis: the shard each node lives in, and how full each shard is."""

import asyncio
from collections.abc import Iterable, Mapping

from lingua_scheduler.domain.nodes.nodes import PlaceOutcome, RestoreOutcome
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import is_node, is_shard
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys


class Placements:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts
        self._unreadable = unreadable

    async def assign(self, node_id: str, shard_size: int, max_shards: int) -> tuple[PlaceOutcome, Place]:
        """The place the node has, or the lowest shard with room."""
        reply = await self._scripts.run(
            "placement_assign",
            placement=self._keys.placement,
            load=self._keys.load,
            room=self._keys.room,
            node=node_id,
            shard_size=shard_size,
            max_shards=max_shards,
        )
        return PlaceOutcome(reply[0]), Place(*map(int, reply[1:])) if len(reply) > 1 else Place()

    async def release(self, node_id: str, place: Place) -> None:
        """Give a place back, unless the node came back to it meanwhile."""
        await self._scripts.run(
            "placement_release",
            placement=self._keys.placement,
            load=self._keys.load,
            room=self._keys.room,
            node=node_id,
            shard=place.shard,
            serial=place.serial,
        )

    async def restore(
        self, node_id: str, place: Place, shard_size: int, max_shards: int
    ) -> tuple[RestoreOutcome, Place]:
        """Give a registered node that lost its place the one it is registered in; the place it has then."""
        reply = await self._scripts.run(
            "placement_restore",
            placement=self._keys.placement,
            load=self._keys.load,
            room=self._keys.room,
            node=node_id,
            shard=place.shard,
            serial=place.serial,
            shard_size=shard_size,
            max_shards=max_shards,
        )
        return RestoreOutcome(reply[0]), Place(*map(int, reply[1:]))

    async def recount(
        self, max_shards: int, shard_size: int | None = None, *, registered: Iterable[int] = (), repair: bool = True
    ) -> list[str]:
        """Compare the node count of each shard with the nodes placed in it: kind, shard, detail, kind … of all faults.

        Of the shards in which nodes are `registered`, those that were forgotten are known again.
        """
        found: list[str] = await self._scripts.run(
            "placement_audit",
            placement=self._keys.placement,
            load=self._keys.load,
            room=self._keys.room,
            most=max_shards,
            repair=int(repair),
            shard_size="" if shard_size is None else shard_size,
            registered=" ".join(map(str, registered)),
        )
        return found

    async def misplaced(self, places: Mapping[str, Place]) -> set[str]:
        """Those of the nodes whose place, or whose shard, is not known any more."""
        names, shards = list(places), sorted({place.shard for place in places.values()})
        if not names:
            return set()
        placed, loads = await asyncio.gather(
            self._line.call("HMGET", self._keys.placement, *names), self._line.call("ZMSCORE", self._keys.load, *shards)
        )
        unknown = {shard for shard, load in zip(shards, loads, strict=True) if load is None}
        return {
            name
            for name, place in zip(names, placed, strict=True)
            if place is None or Place.parse(place) is None or places[name].shard in unknown
        }

    async def find(self, node_id: str) -> Place | None:
        text = await self._line.call("HGET", self._keys.placement, node_id)
        if text is None:
            return None
        place = Place.parse(text)
        if place is None:
            self._unreadable.met("placement", node_id)
        return place

    async def all(self) -> dict[str, Place]:
        """Every node that has a place."""
        return dict(self._readable(await self._line.call("HGETALL", self._keys.placement)))

    async def sample(self, most: int) -> list[tuple[str, Place]]:
        """A handful of nodes chosen by chance; cheap however large the fleet is."""
        flat = await self._line.call("HRANDFIELD", self._keys.placement, most, "WITHVALUES")
        return self._readable(flat)

    def _readable(self, flat: list[str]) -> list[tuple[str, Place]]:
        """Those that can be read, of names and places in turn."""
        found = []
        for node_id, text in zip(flat[::2], flat[1::2], strict=True):
            place = Place.parse(text)
            if place is None or not is_node(node_id):
                self._unreadable.met("placement", node_id)
            else:
                found.append((node_id, place))
        return found

    async def shards(self) -> list[int]:
        """Every shard that was ever used."""
        named = await self._line.call("ZRANGE", self._keys.load, 0, -1)
        found = sorted(int(shard) for shard in named if is_shard(shard))
        self._unreadable.met("load", self._keys.load, len(named) - len(found))
        return found
