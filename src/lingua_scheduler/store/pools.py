"""The pool map: built from the shards, published by the leader, read by everybody else."""

import asyncio
import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.leadership import ClaimOutcome, PublishOutcome, ResignOutcome, Term
from lingua_scheduler.domain.selection import PoolMap
from lingua_scheduler.store.connection import Line
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

# A published map is a copy for all; this reads it back as it was built.
_MAP = msgspec.json.Decoder(dict[str, list[tuple[int, int]]])


class Published(NamedTuple):
    """What is known of the published map; version 0 when there is none."""

    version: int = 0
    generated_at_ms: int = 0
    generated_by: str = ""
    epoch: str = ""
    # Of the map itself: a Redis that lost its data counts versions from 1 again.
    digest: str = ""


class Pools:
    def __init__(self, line: Line, keys: Keys, scripts: Scripts) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts

    async def build_map(self) -> PoolMap:
        """From the summaries of the shards; all of them are asked in one write."""
        shards = [int(shard) for shard in await self._line.call("ZRANGE", self._keys.load, 0, -1)]
        summaries = await asyncio.gather(
            *(self._line.call("HGETALL", self._keys.shard(shard).summary) for shard in shards)
        )
        nodes: dict[str, dict[int, int]] = {}
        for shard, summary in zip(shards, summaries, strict=True):
            for pool, count in zip(summary[::2], summary[1::2], strict=True):
                nodes.setdefault(pool, {})[shard] = int(count)
        return PoolMap(nodes)

    async def members(self, pool: str, shards: Iterable[int], most: int) -> dict[str, int]:
        """The nodes of a pool with their shards, at most so many."""
        found: dict[str, int] = {}
        for shard in sorted(shards):
            if len(found) >= most:
                break
            found |= dict.fromkeys(await self._line.call("SMEMBERS", self._keys.shard(shard).pool(pool)), shard)
        return dict(sorted(found.items())[:most])

    async def published(self) -> Published:
        version, at_ms, *about = await self._line.call(
            "HMGET", self._keys.map_config, "version", "generated_at_ms", "generated_by", "epoch", "digest"
        )
        return Published() if version is None else Published(int(version), int(at_ms), *about)

    async def read_published(self) -> tuple[Published, PoolMap] | None:
        """What was written together; None when nobody has published a map."""
        version, at_ms, *about, encoded = await self._line.call(
            "HMGET", self._keys.map_config, "version", "generated_at_ms", "generated_by", "epoch", "digest", "map"
        )
        if version is None:
            return None
        pool_map = PoolMap({pool: dict(shards) for pool, shards in _MAP.decode(encoded).items()})
        return Published(int(version), int(at_ms), *about), pool_map

    async def publish(self, term: Term, pool_map: PoolMap) -> tuple[PublishOutcome, int]:
        """The map itself travels only when it is not there yet."""
        nodes = {pool: sorted(shards.items()) for pool, shards in sorted(pool_map.nodes.items())}
        encoded = msgspec.json.encode(nodes).decode()
        digest = hashlib.sha1(encoded.encode(), usedforsecurity=False).hexdigest()
        outcome, version = await self._publish(term, digest, "")
        if outcome is PublishOutcome.UNKNOWN:
            outcome, version = await self._publish(term, digest, encoded)
        return outcome, version

    async def _publish(self, term: Term, digest: str, encoded: str) -> tuple[PublishOutcome, int]:
        reply = await self._scripts.run(
            "map_publish",
            leader=self._keys.leader,
            config=self._keys.map_config,
            instance=term.instance,
            epoch=term.epoch,
            digest=digest,
            map=encoded,
        )
        return PublishOutcome(reply[0]), int(reply[1]) if len(reply) > 1 else 0

    async def claim(self, instance: str, lease_ms: int) -> tuple[ClaimOutcome, Term]:
        """Lead, or hear who does."""
        reply = await self._scripts.run(
            "leader_claim",
            leader=self._keys.leader,
            epochs=self._keys.leader_epochs,
            instance=instance,
            lease_ms=lease_ms,
        )
        outcome = ClaimOutcome(reply[0])
        return outcome, Term(instance, reply[1]) if outcome is ClaimOutcome.LEADING else Term(*reply[1:])

    async def resign(self, term: Term) -> ResignOutcome:
        reply = await self._scripts.run(
            "leader_resign", leader=self._keys.leader, instance=term.instance, epoch=term.epoch
        )
        return ResignOutcome(reply[0])

    async def leader(self) -> Term | None:
        known = await self._line.call("GET", self._keys.leader)
        return None if known is None else Term(*known.split(" "))
