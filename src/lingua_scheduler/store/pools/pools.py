"""The pool map in Redis: built from the shards, published by the leader, read by all instances."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.cluster.leadership import LeaderClaimOutcome, PublishOutcome, ResignOutcome, Term
from lingua_scheduler.domain.pools.names import is_wide
from lingua_scheduler.domain.pools.reach import Reach, readable
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import is_pool, is_shard, is_text, number_of
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys
from lingua_sdk.domain.decoding import DECODE_ERRORS

# A published map is a copy for all; these read it back as it was built.
_MAP = msgspec.json.Decoder(dict[str, list[tuple[int, int]]])
_WIDE = msgspec.json.Decoder(dict[str, str])


class Published(NamedTuple):
    """What is known of the published map; version 0 when there is none."""

    version: int = 0
    generated_at_ms: int = 0
    generated_by: str = ""
    epoch: str = ""
    # Of the map itself: a Redis that lost its data counts versions from 1 again.
    digest: str = ""


class Pools:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts
        self._unreadable = unreadable
        # Wide pools whose definition was read.
        self._known: dict[str, Reach] = {}

    async def build_map(self) -> PoolMap:
        """From the summaries of the shards; all of them are asked in one write.

        The definitions of wide pools are asked for after the summaries: a pool that has members then has one too.
        """
        shards = [int(shard) for shard in await self._line.call("ZRANGE", self._keys.load, 0, -1) if is_shard(shard)]
        summaries = await asyncio.gather(
            *(self._line.call("HGETALL", self._keys.shard(shard).summary) for shard in shards)
        )
        nodes: dict[str, dict[int, int]] = {}
        # Each wide pool is looked up in one shard.
        wanted: dict[int, list[str]] = {}
        for shard, summary in zip(shards, summaries, strict=True):
            for pool, count in zip(summary[::2], summary[1::2], strict=True):
                members = number_of(count)
                if members is None or not is_pool(pool):
                    self._unreadable.met("pairs", pool)
                    continue
                if is_wide(pool):
                    wanted.setdefault(shard, []).append(pool)
                nodes.setdefault(pool, {})[shard] = members
        return PoolMap(nodes, await self._reaches(wanted) if wanted else None)

    async def _reaches(self, wanted: Mapping[int, Sequence[str]]) -> dict[str, Reach]:
        """The definitions of wide pools; unknown ones are read, unreadable ones are omitted."""
        unknown = {
            shard: names
            for shard, pools in wanted.items()
            if (names := [pool for pool in pools if pool not in self._known])
        }
        replies = await asyncio.gather(
            *(self._line.call("HMGET", self._keys.shard(shard).wide, *names) for shard, names in unknown.items())
        )
        read: dict[str, str] = {}
        for names, texts in zip(unknown.values(), replies, strict=True):
            read |= {name: text if is_text(text) else "?" for name, text in zip(names, texts, strict=True) if text}
        named = {pool for pools in wanted.values() for pool in pools}
        # A name stands for one definition for ever, so what is known stays right; what is not named is forgotten.
        self._known = {pool: reach for pool, reach in (self._known | readable(read)).items() if pool in named}
        for pool in sorted(read.keys() - self._known.keys()):
            self._unreadable.met("wide", pool)
        return dict(self._known)

    async def published(self) -> Published:
        version, at_ms, *about = await self._line.call(
            "HMGET", self._keys.map_config, "version", "generated_at_ms", "generated_by", "epoch", "digest"
        )
        return self._published(version, at_ms, about) or Published()

    def _published(self, version: str | None, at_ms: str | None, about: list[str | None]) -> Published | None:
        if version is None:
            return None
        said = [word for word in about if word is not None and is_text(word)]
        number, moment_ms = number_of(version), number_of(at_ms)
        if number is None or moment_ms is None or len(said) < len(about):
            self._unreadable.met("config", self._keys.map_config)
            return None
        return Published(number, moment_ms, *said)

    async def read_published(self) -> tuple[Published, PoolMap] | None:
        """The published map with its version; None if there is none."""
        fields = ("version", "generated_at_ms", "generated_by", "epoch", "digest", "map", "wide")
        version, at_ms, *about, encoded, wide = await self._line.call("HMGET", self._keys.map_config, *fields)
        published = self._published(version, at_ms, about)
        if published is None:
            return None
        try:
            pool_map = PoolMap({pool: dict(shards) for pool, shards in _MAP.decode(encoded).items()}, _reaches(wide))
        except (*DECODE_ERRORS, TypeError):
            self._unreadable.met("config", self._keys.map_config)
            return None
        return published, pool_map

    async def publish(self, term: Term, pool_map: PoolMap) -> tuple[PublishOutcome, int]:
        """The map itself travels only when it is not there yet."""
        nodes = {pool: sorted(shards.items()) for pool, shards in sorted(pool_map.counts.items())}
        encoded = msgspec.json.encode(nodes).decode()
        # Apart from the map, which a scheduler that knows no wide pools reads too. The names in the map stand for the
        # definitions, but one that could not be read when the map was made may be there by now.
        definitions = pool_map.definitions
        wide = msgspec.json.encode(definitions).decode() if definitions else ""
        digest = hashlib.sha1((encoded + wide).encode(), usedforsecurity=False).hexdigest()
        outcome, version = await self._publish(term, digest)
        if outcome is PublishOutcome.UNKNOWN:
            outcome, version = await self._publish(term, digest, encoded, wide)
        return outcome, version

    async def _publish(self, term: Term, digest: str, encoded: str = "", wide: str = "") -> tuple[PublishOutcome, int]:
        reply = await self._scripts.run(
            "map_publish",
            leader=self._keys.leader,
            config=self._keys.map_config,
            instance=term.instance,
            epoch=term.epoch,
            digest=digest,
            map=encoded,
            definitions=wide,
        )
        return PublishOutcome(reply[0]), int(reply[1]) if len(reply) > 1 else 0

    async def claim(self, instance: str, lease_ms: int) -> tuple[LeaderClaimOutcome, Term]:
        """Claim or renew the leadership; returns who the leader is."""
        reply = await self._scripts.run(
            "leader_claim",
            leader=self._keys.leader,
            epochs=self._keys.leader_epochs,
            instance=instance,
            lease_ms=lease_ms,
        )
        outcome = LeaderClaimOutcome(reply[0])
        return outcome, Term(instance, reply[1]) if outcome is LeaderClaimOutcome.LEADING else Term(*reply[1:])

    async def resign(self, term: Term) -> ResignOutcome:
        reply = await self._scripts.run(
            "leader_resign", leader=self._keys.leader, instance=term.instance, epoch=term.epoch
        )
        return ResignOutcome(reply[0])

    async def leader(self) -> Term | None:
        known = await self._line.call("GET", self._keys.leader)
        if known is None:
            return None
        term = Term.parse(known)
        if term is None:
            self._unreadable.met("leader", self._keys.leader)
        return term


def _reaches(wide: str | None) -> dict[str, Reach]:
    """Published by a scheduler that knows wide pools, or by one that does not."""
    try:
        return readable(_WIDE.decode(wide)) if wide else {}
    except DECODE_ERRORS:
        return {}
