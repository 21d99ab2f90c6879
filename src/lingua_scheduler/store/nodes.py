"""Nodes in Redis: their place, their profile, their pools, their signs of life."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.attempts import AdoptOutcome, Attempt, parse_lease
from lingua_scheduler.domain.nodes import (
    BeatOutcome,
    DrainOutcome,
    NodeState,
    PlaceOutcome,
    RegisterOutcome,
    RemoveOutcome,
    RestoreOutcome,
)
from lingua_scheduler.domain.terms import SERVICES
from lingua_scheduler.store.connection import Line
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.records import fields_of
from lingua_scheduler.store.scripts import Scripts

# A node's pools may change between our belief and the script; after this many surprises something is wrong.
MAX_SURPRISES = 8
# Looking at a node takes seven commands, and a line has only so many waiting.
VIEWED_TOGETHER = 100


class Owner(NamedTuple):
    """Who holds a node's socket: an old socket's clean-up must never remove a new one."""

    instance: str
    link: str


class Place(NamedTuple):
    """A node's shard, and how often it was placed there."""

    shard: int = -1
    serial: int = 0


class NodeEntry(NamedTuple):
    """What is written about a node."""

    node_id: str
    boot_id: str
    acknowledges: bool
    takes_jobs: bool
    max_jobs: int
    alive_ms: int
    pools: frozenset[str]
    state: NodeState
    profile: str
    # For people: see `store/looks.py`.
    look: str = ""


class Registered(NamedTuple):
    outcome: RegisterOutcome
    epoch: str = ""
    # Attempts of the node's former life, overdue now.
    handed_back: tuple[Attempt, ...] = ()


class NodeView(NamedTuple):
    node_id: str
    shard: int
    state: str
    alive_until_ms: int
    max_jobs: int
    held: int
    free: int | None
    pools: tuple[str, ...]
    profile: str
    owner: str
    # None: it is not. A quarantine that ran out stays until a probe succeeds.
    quarantined_until_ms: int | None = None
    # Kinds of service it lacks, and until when.
    unavailable: tuple[tuple[str, int], ...] = ()

    def quarantined_for_ms(self, now_ms: int) -> int | None:
        """None: it is not quarantined. 0: its time is up, and the next job is its probe."""
        return None if self.quarantined_until_ms is None else max(0, self.quarantined_until_ms - now_ms)

    def unavailable_for_ms(self, now_ms: int) -> dict[str, int]:
        return {service: until - now_ms for service, until in self.unavailable if until > now_ms}


class LeaseView(NamedTuple):
    attempt: Attempt
    deadline_ms: int
    state: str


class Nodes:
    def __init__(self, line: Line, keys: Keys, scripts: Scripts) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts

    async def place(self, node_id: str, shard_size: int, max_shards: int) -> tuple[PlaceOutcome, Place]:
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

    async def unplace(self, node_id: str, place: Place) -> None:
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

    async def restore_place(self, node_id: str, shard: int) -> RestoreOutcome:
        """Give a registered node that lost its place the one it is registered in."""
        reply = await self._scripts.run(
            "placement_restore",
            placement=self._keys.placement,
            load=self._keys.load,
            node=node_id,
            shard=shard,
        )
        return RestoreOutcome(reply[0])

    async def register(self, shard: int, owner: Owner, entry: NodeEntry) -> Registered:
        return await self._write("register", shard, owner, entry, was=frozenset())

    async def update(self, shard: int, owner: Owner, entry: NodeEntry, was: frozenset[str]) -> Registered:
        return await self._write("update", shard, owner, entry, was)

    async def _write(self, verb: str, shard: int, owner: Owner, entry: NodeEntry, was: frozenset[str]) -> Registered:
        keys = self._keys.shard(shard)
        for _ in range(MAX_SURPRISES):
            names = sorted(was | entry.pools)
            reply = await self._scripts.run(
                "node_register",
                keys,
                node_key=keys.node(entry.node_id),
                pools=[keys.pool(name) for name in names],
                node=entry.node_id,
                verb=verb,
                instance=owner.instance,
                link=owner.link,
                boot_id=entry.boot_id,
                acks=int(entry.acknowledges),
                limit=entry.max_jobs,
                takes=int(entry.takes_jobs),
                alive_ms=entry.alive_ms,
                was=" ".join(sorted(was)),
                now=" ".join(sorted(entry.pools)),
                names=" ".join(names),
                state=entry.state.value,
                draining=NodeState.DRAINING.value,
                look=entry.look,
                profile=("profile", entry.profile),
            )
            outcome = RegisterOutcome(reply[0])
            if outcome is RegisterOutcome.MOVED:
                was = frozenset(reply[1].split())
                continue
            if outcome is not RegisterOutcome.REGISTERED:
                return Registered(outcome)
            return Registered(outcome, reply[1], tuple(parse_lease(lease, shard) for lease in reply[2:]))
        raise RuntimeError(f"the pools of {entry.node_id} did not hold still")

    async def beat(self, shard: int, owner: Owner, node_id: str, alive_ms: int, look: str = "") -> BeatOutcome:
        """With `look` only when that has changed."""
        reply = await self._scripts.run(
            "node_beat",
            self._keys.shard(shard),
            node=node_id,
            instance=owner.instance,
            link=owner.link,
            alive_ms=alive_ms,
            look=look,
        )
        return BeatOutcome(reply[0])

    async def remove(
        self, shard: int, owner: Owner, node_id: str, was: frozenset[str]
    ) -> tuple[RemoveOutcome, list[Attempt]]:
        """Take a node out; `Owner("", "")` removes it only if its time is up."""
        keys = self._keys.shard(shard)
        for _ in range(MAX_SURPRISES):
            names = sorted(was)
            reply = await self._scripts.run(
                "node_remove",
                keys,
                node_key=keys.node(node_id),
                pools=[keys.pool(name) for name in names],
                node=node_id,
                instance=owner.instance,
                link=owner.link,
                was=" ".join(names),
                services=" ".join(SERVICES),
            )
            outcome = RemoveOutcome(reply[0])
            if outcome is RemoveOutcome.MOVED:
                was = frozenset(reply[1].split())
                continue
            leases = reply[1:] if outcome is RemoveOutcome.REMOVED else []
            return outcome, [parse_lease(lease, shard) for lease in leases]
        raise RuntimeError(f"the pools of {node_id} did not hold still")

    async def drain(self, node_id: str, *, resume: bool = False) -> tuple[DrainOutcome, int]:
        """Take a node out of its pools, or put it back; how many jobs it still holds."""
        place = await self.place_of(node_id)
        if place is None:
            return DrainOutcome.GONE, 0
        keys = self._keys.shard(place.shard)
        serves = ""
        for _ in range(MAX_SURPRISES):
            reply = await self._scripts.run(
                "node_drain",
                keys,
                node_key=keys.node(node_id),
                pools=[keys.pool(name) for name in serves.split()],
                node=node_id,
                drain="" if resume else "1",
                state=NodeState.READY.value if resume else NodeState.DRAINING.value,
                serves=serves,
            )
            outcome = DrainOutcome(reply[0])
            if outcome is not DrainOutcome.MOVED:
                return outcome, int(reply[1]) if len(reply) > 1 else 0
            serves = reply[1]
        raise RuntimeError(f"the pools of {node_id} did not hold still")

    async def adopt(self, shard: int, owner: Owner, node_id: str, jobs: Sequence[str], bound_ms: int) -> int:
        """Account for jobs the node runs without a lease; how many there were."""
        reply = await self._scripts.run(
            "lease_adopt",
            self._keys.shard(shard),
            node=node_id,
            instance=owner.instance,
            link=owner.link,
            bound_ms=bound_ms,
            jobs=jobs,
        )
        return int(reply[1]) if AdoptOutcome(reply[0]) is AdoptOutcome.ADOPTED else 0

    async def rebuild(self, shard: int) -> int:
        """Count the shard's leases anew; how many nodes were wrong."""
        reply = await self._scripts.run("ledger_rebuild", self._keys.shard(shard))
        return int(reply[1])

    async def place_of(self, node_id: str) -> Place | None:
        place = await self._line.call("HGET", self._keys.placement, node_id)
        return None if place is None else Place(*map(int, place.split()))

    async def placed(self) -> dict[str, Place]:
        """Every node that has a place."""
        flat = await self._line.call("HGETALL", self._keys.placement)
        return {node_id: Place(*map(int, place.split())) for node_id, place in zip(flat[::2], flat[1::2], strict=True)}

    async def known(self, shard: int) -> set[str]:
        """The nodes really registered in a shard."""
        return set(await self._line.call("HKEYS", self._keys.shard(shard).owners))

    async def overdue(self, shard: int, most: int) -> list[str]:
        found: list[str] = await self._scripts.run("nodes_overdue", self._keys.shard(shard), most=most)
        return found

    async def shards(self) -> list[int]:
        """Every shard that was ever used."""
        return sorted(int(shard) for shard in await self._line.call("ZRANGE", self._keys.load, 0, -1))

    async def view(self) -> list[NodeView]:
        """The whole fleet, for people; a round trip for each hundred nodes."""
        placed = await self.placed()
        return await self.view_some({node_id: place.shard for node_id, place in placed.items()})

    async def view_some(self, shards: Mapping[str, int]) -> list[NodeView]:
        """These nodes, which live in these shards, as far as they are still there."""
        placed = sorted(shards.items())
        views: list[NodeView | None] = []
        for first in range(0, len(placed), VIEWED_TOGETHER):
            some = placed[first : first + VIEWED_TOGETHER]
            views += await asyncio.gather(*(self.view_one(node_id, shard) for node_id, shard in some))
        return [view for view in views if view is not None]

    async def owned_by(self, instances: Collection[str]) -> list[tuple[int, str, Owner]]:
        """Shard and id of every node whose socket one of these held, and the connection it was."""
        shards = await self.shards()
        owners = await asyncio.gather(*(self._line.call("HGETALL", self._keys.shard(shard).owners) for shard in shards))
        found = []
        for shard, flat in zip(shards, owners, strict=True):
            for node_id, owner in zip(flat[::2], flat[1::2], strict=True):
                _, instance, link, _ = owner.split(" ")
                if instance in instances:
                    found.append((shard, node_id, Owner(instance, link)))
        return found

    async def some_places(self, most: int) -> list[tuple[str, Place]]:
        """A handful of nodes chosen by chance; cheap however large the fleet is."""
        flat = await self._line.call("HRANDFIELD", self._keys.placement, most, "WITHVALUES")
        return [
            (node_id, Place(*map(int, place.split()))) for node_id, place in zip(flat[::2], flat[1::2], strict=True)
        ]

    async def reports_jobs(self, node_id: str, shard: int) -> bool:
        """Whether the node tells what it runs; if so it may still be at a job that was given up."""
        profile = await self._line.call("HGET", self._keys.shard(shard).node(node_id), "profile")
        return bool(profile) and bool(msgspec.json.decode(profile).get("reports_jobs"))

    async def leases(self, node_id: str, shard: int) -> list[LeaseView]:
        """What a node holds, oldest deadline first, with the state of each job."""
        keys = self._keys.shard(shard)
        flat = await self._line.call("ZRANGE", keys.leases, 0, -1, "WITHSCORES")
        mine = [
            (parse_lease(lease, shard), int(float(deadline)))
            for lease, deadline in zip(flat[::2], flat[1::2], strict=True)
            if lease.endswith(f"#{node_id}")
        ]
        records = await asyncio.gather(*(self._line.call("GET", keys.job(attempt.job_id)) for attempt, _ in mine))
        return [
            LeaseView(*about, fields_of(record).get("state", "")) for about, record in zip(mine, records, strict=True)
        ]

    async def view_one(self, node_id: str, shard: int) -> NodeView | None:
        keys = self._keys.shard(shard)
        profile, seen, held, free, limit, owner, sick = await asyncio.gather(
            self._line.call("HMGET", keys.node(node_id), "state", "pools", "profile"),
            self._line.call("ZSCORE", keys.seen, node_id),
            self._line.call("ZSCORE", keys.held, node_id),
            self._line.call("ZSCORE", keys.free, node_id),
            self._line.call("HGET", keys.limits, node_id),
            self._line.call("HGET", keys.owners, node_id),
            self._line.call("ZMSCORE", keys.sick, node_id, *(f"{node_id} {service}" for service in SERVICES)),
        )
        if owner is None:
            return None
        quarantined_until_ms, *lacks_until_ms = (None if until is None else int(float(until)) for until in sick)
        return NodeView(
            node_id=node_id,
            shard=shard,
            state=profile[0],
            alive_until_ms=int(float(seen or 0)),
            max_jobs=int(limit or 0),
            held=int(float(held or 0)),
            free=None if free is None else int(float(free)),
            pools=tuple((profile[1] or "").split()),
            profile=profile[2] or "{}",
            owner=owner,
            quarantined_until_ms=quarantined_until_ms,
            unavailable=tuple(
                (service, until) for service, until in zip(SERVICES, lacks_until_ms, strict=True) if until is not None
            ),
        )
