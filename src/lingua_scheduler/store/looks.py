"""The whole fleet at a glance: the columns of every shard, and what nodes say, read once for each way to say it."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.nodes import Load, Machine, NodeState
from lingua_scheduler.domain.pools import Facet
from lingua_scheduler.store.connection import Line, Reply
from lingua_scheduler.store.keys import Keys

# Seven commands a shard, and a line has only so many waiting.
SHARDS_TOGETHER = 20
READ_TOGETHER = 100
# Ways to say it that are remembered; a fleet has as many as it has kinds of nodes.
REMEMBERED_MAX = 50_000
_UNSAID = "-"
_UNSEEN = (NodeState.REGISTERING.value, _UNSAID, "0", _UNSAID, _UNSAID, _UNSAID)


class Said(NamedTuple):
    """What a node says of itself, and the pairs (src:tgt) it serves. Shared by all that say the same; never changed."""

    version: str
    platform: str
    services: list[str]
    types: list[str]
    machine: Machine
    speech: list[str]
    text: list[str]


class Row(NamedTuple):
    """One node in the columns of its shard."""

    node_id: str
    shard: int
    instance: str
    state: str
    digest: str
    alive_until_ms: int
    alive_ms: int
    max_jobs: int
    held: int
    # None: it takes no work.
    free: int | None
    load: Load
    # 0: it is not. A quarantine that ran out stays until a probe succeeds.
    quarantined_until_ms: int
    # Kinds of service it said it lacks, and until when.
    unavailable: tuple[tuple[str, int], ...]


class _Profile(msgspec.Struct):
    version: str = ""
    platform: str = ""
    services: list[str] = []
    types: list[str] = []
    machine: Machine = Machine()


def digest_of(pools: Iterable[str], profile: str) -> str:
    """Stands for all a node says and serves: whoever knows it need not read that again."""
    said = f"{' '.join(sorted(pools))}\n{profile}"
    return hashlib.sha1(said.encode(), usedforsecurity=False).hexdigest()[:16]


def look_of(digest: str, alive_ms: int, load: Load) -> str:
    """What is written of a node beside its state."""
    if not load.memory:
        # A machine that uses no memory at all is one that does not say.
        load = Load()
    return f"{digest} {alive_ms} {_percent(load.cpu)} {_percent(load.memory)} {_percent(load.gpu)}"


class Looks:
    def __init__(self, line: Line, keys: Keys) -> None:
        self._line = line
        self._keys = keys
        self._said: dict[str, Said] = {}

    async def rows(self) -> AsyncIterator[list[Row]]:
        """Shard by shard, so that nobody waits for the whole fleet to be read."""
        shards = [int(shard) for shard in await self._line.call("ZRANGE", self._keys.load, 0, -1)]
        shards.sort()
        for first in range(0, len(shards), SHARDS_TOGETHER):
            some = shards[first : first + SHARDS_TOGETHER]
            for shard, columns in zip(some, await asyncio.gather(*map(self._columns, some)), strict=True):
                yield _rows(shard, columns)
                await asyncio.sleep(0)

    async def said(self, rows: Sequence[Row]) -> dict[str, Said]:
        """What these nodes say, by digest; only what was never heard before is read."""
        asked = {row.digest: row for row in rows if row.digest not in self._said and row.digest != _UNSAID}
        if len(self._said) + len(asked) > REMEMBERED_MAX:
            self._said.clear()
            asked = {row.digest: row for row in rows}
        unheard = list(asked.values())
        for first in range(0, len(unheard), READ_TOGETHER):
            some = unheard[first : first + READ_TOGETHER]
            for row, said in zip(some, await asyncio.gather(*map(self._read, some)), strict=True):
                # It may have changed its mind, or left, since its columns were read: then the next look tells.
                if said is not None and digest_of(said[0].split(), said[1]) == row.digest:
                    self._said[row.digest] = _said(*said)
            await asyncio.sleep(0)
        return self._said

    async def _columns(self, shard: int) -> list[Reply]:
        keys = self._keys.shard(shard)
        scored = ("0", "-1", "WITHSCORES")
        return await asyncio.gather(
            self._line.call("HGETALL", keys.owners),
            self._line.call("HGETALL", keys.limits),
            self._line.call("HGETALL", keys.looks),
            self._line.call("ZRANGE", keys.seen, *scored),
            self._line.call("ZRANGE", keys.held, *scored),
            self._line.call("ZRANGE", keys.free, *scored),
            self._line.call("ZRANGE", keys.sick, *scored),
        )

    async def _read(self, row: Row) -> tuple[str, str] | None:
        key = self._keys.shard(row.shard).node(row.node_id)
        serves, profile = await self._line.call("HMGET", key, "serves", "profile")
        return None if profile is None else (serves or "", profile)


def _rows(shard: int, columns: list[Reply]) -> list[Row]:
    owners, limits, looks, seen, held, free, sick = (dict(zip(flat[::2], flat[1::2], strict=True)) for flat in columns)
    lacks: dict[str, list[tuple[str, int]]] = {}
    for name, until in sick.items():
        node_id, _, service = name.partition(" ")
        if service:
            lacks.setdefault(node_id, []).append((service, int(float(until))))
    rows = []
    for node_id, owner in sorted(owners.items()):
        words = looks.get(node_id, "").split(" ")
        state, digest, alive_ms, *load = words if len(words) == len(_UNSEEN) else _UNSEEN
        rows.append(
            Row(
                node_id=node_id,
                shard=shard,
                instance=owner.split(" ", 2)[1],
                state=state,
                digest=digest,
                alive_until_ms=int(float(seen.get(node_id, 0))),
                alive_ms=int(alive_ms),
                max_jobs=int(limits.get(node_id, 0)),
                held=int(float(held.get(node_id, 0))),
                free=int(float(free[node_id])) if node_id in free else None,
                load=Load(*(None if said == _UNSAID else float(said) for said in load)),
                quarantined_until_ms=int(float(sick.get(node_id, 0))),
                unavailable=tuple(lacks.get(node_id, ())),
            )
        )
    return rows


def _said(serves: str, profile: str) -> Said:
    said = msgspec.json.decode(profile, type=_Profile)
    pairs: dict[str, list[str]] = {facet: [] for facet in Facet}
    for pool in serves.split():
        pair, _, facet = pool.rpartition(":")
        pairs[facet].append(pair)
    return Said(
        said.version,
        said.platform,
        said.services,
        said.types,
        said.machine,
        sorted(pairs[Facet.SPEECH]),
        sorted(pairs[Facet.TEXT]),
    )


def _percent(said: float | None) -> str:
    # Neither endless nor below nothing, whatever the node says.
    return _UNSAID if said is None or not 0 <= said <= 1_000 else f"{min(said, 100):.0f}"
