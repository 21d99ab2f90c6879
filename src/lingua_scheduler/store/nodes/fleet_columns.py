"""Reads the whole fleet: the columns of every shard, and the nodes' profiles, each distinct profile once."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from lingua_scheduler.domain.nodes.nodes import SERVICES, Machine, MachineLoad, NodeState, ServiceOf
from lingua_scheduler.domain.nodes.owners import Ownership
from lingua_scheduler.domain.pools.names import Facet, Pool, is_wide
from lingua_scheduler.domain.pools.pools import Languages
from lingua_scheduler.domain.pools.reach import Reach, reach_named
from lingua_scheduler.store.connection import RedisLine, Reply
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import StoredProfile, is_node, is_shard, is_text, profile_of, slots_of, whole
from lingua_scheduler.store.unreadable import UnreadableKeys

# Seven commands per shard, and the number of pending commands is limited.
SHARDS_TOGETHER = 20
READ_TOGETHER = 100
# Ways to say it that are remembered; a fleet has as many as it has kinds of nodes.
REMEMBERED_MAX = 50_000
_UNSAID = "-"
_STATES = frozenset(NodeState)
_UNSEEN = (NodeState.REGISTERING.value, _UNSAID, "0", _UNSAID, _UNSAID, _UNSAID)


class Said(NamedTuple):
    """The declared capabilities of a node, and the pairs (src:tgt) it serves. Shared by equal nodes; immutable."""

    version: str
    platform: str
    services: list[str]
    types: list[str]
    machine: Machine
    speech: list[str]
    text: list[str]
    # Of a wide node instead: the name of its pool, and what that stands for.
    wide: str = ""
    reach: Reach | None = None
    languages: Languages = Languages()
    # Of the node's credential; empty if that is not known.
    tenant: str = ""
    # It takes jobs that bring text; its pools of those are no pairs.
    takes_text: bool = False
    # Whether it gets jobs of that tenant alone.
    is_private: bool = False


class Row(NamedTuple):
    """One node in the columns of its shard."""

    node_id: str
    shard: int
    owner: Ownership
    state: str
    digest: str
    alive_until_ms: int
    alive_ms: int
    max_jobs: int
    held: int
    # None: it takes no work.
    free: int | None
    load: MachineLoad
    # 0: it is not. A quarantine that ran out stays until a probe succeeds.
    quarantined_until_ms: int
    # Kinds of service it said it lacks, and until when.
    unavailable: tuple[tuple[str, int], ...]


class _Stored(NamedTuple):
    """What is written of one node."""

    serves: str
    profile: str
    # Of a wide node.
    reach: str


def digest_of(pools: Iterable[str], profile: str) -> str:
    """A digest of a node's profile and pools: a reader that knows it need not read them again."""
    said = f"{' '.join(sorted(pools))}\n{profile}"
    return hashlib.sha1(said.encode(), usedforsecurity=False).hexdigest()[:16]


def look_of(digest: str, alive_ms: int, load: MachineLoad) -> str:
    """What is written of a node beside its state."""
    if not load.memory:
        # A machine that uses no memory at all is one that does not say; idle, it says nothing else either.
        load = load._replace(memory=None) if load.cpu or load.gpu else MachineLoad()
    return f"{digest} {alive_ms} {_percent(load.cpu)} {_percent(load.memory)} {_percent(load.gpu)}"


class Looks:
    def __init__(self, line: RedisLine, keys: Keys, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._unreadable = unreadable
        self._said: dict[str, Said] = {}

    async def rows(self) -> AsyncIterator[list[Row]]:
        """Shard by shard, so that the event loop is not blocked by the whole fleet."""
        named = await self._line.call("ZRANGE", self._keys.load, 0, -1)
        shards = sorted(int(shard) for shard in named if is_shard(shard))
        for first in range(0, len(shards), SHARDS_TOGETHER):
            some = shards[first : first + SHARDS_TOGETHER]
            for shard, columns in zip(some, await asyncio.gather(*map(self._columns, some)), strict=True):
                rows, strange = _rows(shard, columns)
                self._unreadable.met("owners", self._keys.shard(shard).owners, strange)
                yield rows
                await asyncio.sleep(0)

    async def row(self, node_id: str, shard: int) -> Row | None:
        """Of one node alone; None when it is not there."""
        keys = self._keys.shard(shard)
        sick = (node_id, *(f"{node_id} {service}" for service in SERVICES))
        *hashed, seen, held, free, until = await asyncio.gather(
            self._line.call("HGET", keys.owners, node_id),
            self._line.call("HGET", keys.limits, node_id),
            self._line.call("HGET", keys.looks, node_id),
            self._line.call("ZSCORE", keys.seen, node_id),
            self._line.call("ZSCORE", keys.held, node_id),
            self._line.call("ZSCORE", keys.free, node_id),
            self._line.call("ZMSCORE", keys.sick, *sick),
        )
        columns = [[] if value is None else [node_id, value] for value in (*hashed, seen, held, free)]
        lacking = [word for name, ms in zip(sick, until, strict=True) if ms is not None for word in (name, ms)]
        rows, strange = _rows(shard, [*columns, lacking])
        self._unreadable.met("owners", keys.owners, strange)
        return rows[0] if rows else None

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
                if said is not None and digest_of(said.serves.split(), said.profile) == row.digest:
                    self._said[row.digest] = _said(said)
                    if said.reach:
                        # Thousands of pairs take milliseconds, and others have their turn in between.
                        await asyncio.sleep(0)
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

    async def _read(self, row: Row) -> _Stored | None:
        key = self._keys.shard(row.shard).node(row.node_id)
        serves, profile, reach = await self._line.call("HMGET", key, "serves", "profile", "reach")
        stored = _Stored(serves or "", profile or "", reach or "")
        if profile is not None and not all(map(is_text, stored)):
            self._unreadable.met("node", key)
            return None
        return None if profile is None else stored


def _rows(shard: int, columns: list[Reply]) -> tuple[list[Row], int]:
    """And how many could not be read."""
    owners, limits, looks, seen, held, free, sick = (dict(zip(flat[::2], flat[1::2], strict=True)) for flat in columns)
    lacks: dict[str, list[tuple[str, int]]] = {}
    for name, until in sick.items():
        node_id, service = ServiceOf.parse(name)
        if service:
            lacks.setdefault(node_id, []).append((service, whole(until)))
    rows, strange = [], 0
    for node_id, owner in sorted(owners.items()):
        held_by = Ownership.parse(owner)
        if held_by is None or not is_node(node_id):
            strange += 1
            continue
        words = looks.get(node_id, "").split(" ")
        is_seen = len(words) == len(_UNSEEN) and words[0] in _STATES and is_text(words[1])
        state, digest, alive_ms, *load = words if is_seen else _UNSEEN
        rows.append(
            Row(
                node_id=node_id,
                shard=shard,
                owner=held_by,
                state=state,
                digest=digest,
                alive_until_ms=whole(seen.get(node_id)),
                alive_ms=whole(alive_ms),
                max_jobs=slots_of(limits.get(node_id)),
                held=whole(held.get(node_id)),
                free=whole(free[node_id]) if node_id in free else None,
                load=MachineLoad(*(None if said == _UNSAID else float(whole(said)) for said in load)),
                quarantined_until_ms=whole(sick.get(node_id)),
                unavailable=tuple(lacks.get(node_id, ())),
            )
        )
    return rows, strange


def _said(stored: _Stored) -> Said:
    said = profile_of(stored.profile) or StoredProfile()
    pairs: dict[str, list[str]] = {facet: [] for facet in Facet}
    wide = ""
    for name in stored.serves.split():
        pool = Pool.parse(name)
        if is_wide(name):
            wide = name
        elif pool.facet in pairs and not pool.is_from_text:
            pairs[pool.facet].append(str(pool.pair))
    return Said(
        said.version,
        said.platform,
        said.services,
        said.types,
        said.machine,
        sorted(pairs[Facet.SPEECH]),
        sorted(pairs[Facet.TEXT]),
        wide,
        reach_named(wide, stored.reach) if wide else None,
        said.languages,
        said.tenant,
        said.text_input,
        said.is_private,
    )


def _percent(said: float | None) -> str:
    # Nodes report these values: clamp them to finite, non-negative numbers.
    return _UNSAID if said is None or not 0 <= said <= 1_000 else f"{min(said, 100):.0f}"
