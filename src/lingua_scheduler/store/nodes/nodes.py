"""Nodes in Redis: their place, their profile, their pools, their signs of life."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from lingua_scheduler.domain.jobs.attempts import AdoptOutcome, Attempt, parse_lease, parse_leases
from lingua_scheduler.domain.nodes.nodes import (
    SERVICES,
    BeatOutcome,
    CheckOutcome,
    DrainOutcome,
    Features,
    NodeState,
    PlaceOutcome,
    RegisterOutcome,
    RemoveOutcome,
    RestoreOutcome,
)
from lingua_scheduler.domain.pools.reach import Reach, Served, is_wide, reach_named
from lingua_scheduler.store.connection import Argument, Line, RedisAway, Reply
from lingua_scheduler.store.keys import Keys, ShardKeys
from lingua_scheduler.store.reading import (
    fields_of,
    is_node,
    is_past,
    is_pool,
    is_shard,
    is_text,
    owner_of,
    place_of,
    profile_of,
    slots_of,
    whole,
)
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import Unreadable
from lingua_scheduler.telemetry import logs

_log = logs.get()

# A node's pools may change between our belief and the script; after this many surprises something is wrong.
MAX_SURPRISES = 8
# How far a look for overdue nodes reaches behind what is none.
OVERDUE_PAGES = 10
# Looking at a node takes seven commands, and a line has only so many waiting.
VIEWED_TOGETHER = 100
# How long a node that left is remembered: longer than any quarantine, and than a node takes to come back.
PAST_MS = 3_600_000


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
    features: Features
    takes_jobs: bool
    max_jobs: int
    alive_ms: int
    pools: frozenset[str]
    state: NodeState
    profile: str
    # For people: see `store/nodes/fleet_columns.py`.
    look: str = ""
    # The definition of the one pool of a wide node.
    reach: str = ""
    # Jobs it runs, as far as anybody knows, and how long one without a lease holds its slot.
    running: tuple[str, ...] = ()
    bound_ms: int = 0
    # How many of its slots are believed while it has not proved itself; 0: all of them.
    believed_slots: int = 0
    # What Redis believed of its slots when it was last heard of, should it have lost that.
    trust: str = ""


class Registered(NamedTuple):
    outcome: RegisterOutcome
    epoch: str = ""
    # Jobs it runs that no lease accounted for.
    adopted: tuple[str, ...] = ()
    # Attempts of the node's former life, overdue now.
    handed_back: tuple[Attempt, ...] = ()


class Beaten(NamedTuple):
    outcome: BeatOutcome
    # What is believed of its slots, to be handed in again should Redis lose the node.
    trust: str = ""


class Holder(NamedTuple):
    """The connection a node is registered with, and the process it named."""

    owner: Owner
    boot_id: str


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
    # What a wide node serves.
    reach: Reach | None = None

    @property
    def serves(self) -> Collection[str]:
        """The pools of the pairs it serves now, whichever pools it is in."""
        if not any(map(is_wide, self.pools)):
            return self.pools
        return () if self.reach is None else Served(self.reach)

    @property
    def pairs(self) -> list[str]:
        """The pairs it has a pool for each: none for a wide node, which has too many to name."""
        return sorted({pool.rpartition(":")[0] for pool in self.pools if not is_wide(pool)})

    @property
    def wide_pairs(self) -> int:
        """How many pairs a wide node serves; 0 for all others."""
        return self.reach.count() if self.reach and any(map(is_wide, self.pools)) else 0

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
    def __init__(self, line: Line, keys: Keys, scripts: Scripts, unreadable: Unreadable) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts
        self._unreadable = unreadable

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

    async def restore_place(
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

    async def recount_places(
        self, max_shards: int, shard_size: int | None = None, *, registered: Iterable[int] = (), repair: bool = True
    ) -> list[str]:
        """Compare what is said of each shard with the nodes placed in it: kind, shard, detail, kind … of all faults.

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
            if place_of(place) is None or places[name].shard in unknown
        }

    async def check(
        self, shard: int, owner: Owner, node_id: str, pools: Collection[str], running: Collection[str] = ()
    ) -> tuple[CheckOutcome, str]:
        """Whether all is there that Redis should have of a node; if not, what was missed first."""
        keys = self._keys.shard(shard)
        names = sorted(pools)
        reply = await self._scripts.run(
            "node_check",
            keys,
            node_key=keys.node(node_id),
            pools=[keys.pool(name) for name in names],
            node=node_id,
            instance=owner.instance,
            link=owner.link,
            names=" ".join(names),
            running=" ".join(running),
        )
        return CheckOutcome(reply[0]), reply[1] if len(reply) > 1 else ""

    async def register(self, shard: int, owner: Owner, entry: NodeEntry, over: Owner | None = None) -> Registered:
        """`over` is a connection of the node on which nobody answers any more: it may be replaced.

        A node that left a while ago comes back to its quarantine, and to the slots that were believed.
        """
        return await self._write_with_past("register", shard, owner, entry, frozenset(), over)

    async def update(self, shard: int, owner: Owner, entry: NodeEntry, was: frozenset[str]) -> Registered:
        return await self._write("update", shard, owner, entry, was)

    async def restore(self, shard: int, owner: Owner, entry: NodeEntry, was: frozenset[str], epoch: str) -> Registered:
        """As `update`, but all of it is written, and a node that is not there comes back in its epoch."""
        return await self._write_with_past("restore", shard, owner, entry, was, epoch=epoch)

    async def _write_with_past(
        self,
        verb: str,
        shard: int,
        owner: Owner,
        entry: NodeEntry,
        was: frozenset[str],
        over: Owner | None = None,
        epoch: str = "",
    ) -> Registered:
        past = await self._ask_past("GET", entry.node_id) or ""
        if past and not is_past(past):
            self._unreadable.met("past", self._keys.past(entry.node_id))
            past = ""
        registered = await self._write(verb, shard, owner, entry, was, over, epoch, past)
        if past and registered.outcome is RegisterOutcome.REGISTERED:
            await self._ask_past("DEL", entry.node_id)
        return registered

    async def _ask_past(self, command: str, node_id: str, *arguments: Argument) -> Reply:
        """What is remembered of a node that left. It is only a hint, and another server of a Cluster may have it.

        While that one is away nothing is known: nodes come and go all the same.
        """
        try:
            return await self._line.call(command, self._keys.past(node_id), *arguments)
        except RedisAway:
            _log.warning("node.past_unknown", node_id=node_id, command=command)
            return None

    async def _write(
        self,
        verb: str,
        shard: int,
        owner: Owner,
        entry: NodeEntry,
        was: frozenset[str],
        over: Owner | None = None,
        epoch: str = "",
        past: str = "",
    ) -> Registered:
        keys = self._keys.shard(shard)
        stored = " ".join(sorted(was))
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
                features=str(entry.features),
                claimed=entry.max_jobs,
                believed=entry.believed_slots,
                past=past or f"{entry.trust}||",
                takes=int(entry.takes_jobs),
                alive_ms=entry.alive_ms,
                was=stored,
                now=" ".join(sorted(entry.pools)),
                names=" ".join(names),
                state=entry.state.value,
                draining=NodeState.DRAINING.value,
                look=entry.look,
                reach=entry.reach,
                over="" if over is None else " ".join(over),
                former=epoch,
                running=" ".join(entry.running),
                bound_ms=entry.bound_ms,
                profile=("profile", entry.profile),
            )
            outcome = RegisterOutcome(reply[0])
            if outcome is RegisterOutcome.MOVED:
                stored, was = reply[1], self._stored_pools(keys, entry.node_id, reply[1])
                continue
            if outcome is not RegisterOutcome.REGISTERED:
                return Registered(outcome)
            handed_back = tuple(parse_leases(reply[3:], shard))
            return Registered(outcome, reply[1], tuple(reply[2].split()), handed_back)
        raise RuntimeError(f"the pools of {entry.node_id} did not hold still")

    async def beat(
        self, shard: int, owner: Owner, node_id: str, alive_ms: int, look: str = "", queue: int | None = None
    ) -> Beaten:
        """With `look` and `queue`, the jobs that wait for its GPU, only when they have changed."""
        reply = await self._scripts.run(
            "node_beat",
            self._keys.shard(shard),
            node=node_id,
            instance=owner.instance,
            link=owner.link,
            alive_ms=alive_ms,
            look=look,
            queue="" if queue is None else queue,
        )
        return Beaten(BeatOutcome(reply[0]), *reply[1:])

    async def remove(
        self, shard: int, owner: Owner, node_id: str, was: frozenset[str]
    ) -> tuple[RemoveOutcome, list[Attempt]]:
        """Take a node out; `Owner("", "")` removes it only if its time is up."""
        keys = self._keys.shard(shard)
        stored = " ".join(sorted(was))
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
                was=stored,
                names=" ".join(names),
                services=" ".join(SERVICES),
            )
            outcome = RemoveOutcome(reply[0])
            if outcome is RemoveOutcome.MOVED:
                stored, was = reply[1], self._stored_pools(keys, node_id, reply[1])
                continue
            if outcome is not RemoveOutcome.REMOVED:
                return outcome, []
            past, *leases = reply[1:]
            if past:
                await self._ask_past("SET", node_id, past, "PX", PAST_MS)
            return outcome, parse_leases(leases, shard)
        raise RuntimeError(f"the pools of {node_id} did not hold still")

    def _stored_pools(self, keys: ShardKeys, node_id: str, text: str) -> frozenset[str]:
        """The pools a node's profile names, without what is none."""
        named = text.split()
        found = frozenset(filter(is_pool, named))
        self._unreadable.met("node", keys.node(node_id), len(named) - len(found))
        return found

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
            if not all(map(is_pool, serves.split())):
                self._unreadable.met("node", keys.node(node_id))
                return DrainOutcome.GONE, 0
        raise RuntimeError(f"the pools of {node_id} did not hold still")

    async def adopt(
        self, shard: int, owner: Owner, node_id: str, attempts: Sequence[Attempt], bound_ms: int
    ) -> list[str] | None:
        """Account for jobs the node runs without a lease; which they were, or None if another connection owns it.

        The attempts are what the caller believes, or of the number ADOPTED: while they have their leases this is cheap.
        """
        reply = await self._scripts.run(
            "lease_adopt",
            self._keys.shard(shard),
            node=node_id,
            instance=owner.instance,
            link=owner.link,
            bound_ms=bound_ms,
            believed=[attempt.lease for attempt in attempts],
        )
        return list(reply[1:]) if AdoptOutcome(reply[0]) is AdoptOutcome.ADOPTED else None

    async def rebuild(self, shard: int) -> int:
        """Count the shard's leases anew; how many nodes were wrong."""
        reply = await self._scripts.run("ledger_rebuild", self._keys.shard(shard))
        self._unreadable.met("leases", self._keys.shard(shard).leases, int(reply[2]))
        return int(reply[1])

    async def holder(self, node_id: str) -> Holder | None:
        """Who has the node now. Only a hint: the registration itself compares again."""
        place = await self.place_of(node_id)
        if place is None:
            return None
        keys = self._keys.shard(place.shard)
        owner, boot_id = await asyncio.gather(
            self._line.call("HGET", keys.owners, node_id), self._line.call("HGET", keys.node(node_id), "boot_id")
        )
        if owner is None:
            return None
        held = owner_of(owner)
        if held is None:
            self._unreadable.met("owners", node_id)
            return None
        return Holder(Owner(held.instance, held.link), boot_id or "")

    async def place_of(self, node_id: str) -> Place | None:
        text = await self._line.call("HGET", self._keys.placement, node_id)
        place = place_of(text)
        if place is None and text is not None:
            self._unreadable.met("placement", node_id)
        return None if place is None else Place(*place)

    async def placed(self) -> dict[str, Place]:
        """Every node that has a place."""
        return dict(self._places(await self._line.call("HGETALL", self._keys.placement)))

    def _places(self, flat: list[str]) -> list[tuple[str, Place]]:
        """Those that can be read, of names and places in turn."""
        found = []
        for node_id, text in zip(flat[::2], flat[1::2], strict=True):
            place = place_of(text)
            if place is None or not is_node(node_id):
                self._unreadable.met("placement", node_id)
            else:
                found.append((node_id, Place(*place)))
        return found

    async def known(self, shard: int) -> set[str]:
        """The nodes really registered in a shard."""
        return set(filter(is_node, await self._line.call("HKEYS", self._keys.shard(shard).owners)))

    async def clock_ms(self, shard: int) -> int:
        """What time it is where the shard lives."""
        return int((await self._scripts.run("clock_read", self._keys.shard(shard)))[0])

    async def overdue(self, shard: int, most: int) -> list[str]:
        keys = self._keys.shard(shard)
        strange, *found = await self._scripts.run("nodes_overdue", keys, most=most, pages=OVERDUE_PAGES)
        self._unreadable.met("seen", keys.seen, int(strange))
        return list(map(str, found))

    async def shards(self) -> list[int]:
        """Every shard that was ever used."""
        named = await self._line.call("ZRANGE", self._keys.load, 0, -1)
        found = sorted(int(shard) for shard in named if is_shard(shard))
        self._unreadable.met("load", self._keys.load, len(named) - len(found))
        return found

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
                held = owner_of(owner)
                if held is None:
                    self._unreadable.met("owners", node_id)
                elif held.instance in instances:
                    found.append((shard, node_id, Owner(held.instance, held.link)))
        return found

    async def some_places(self, most: int) -> list[tuple[str, Place]]:
        """A handful of nodes chosen by chance; cheap however large the fleet is."""
        flat = await self._line.call("HRANDFIELD", self._keys.placement, most, "WITHVALUES")
        return self._places(flat)

    async def reports_jobs(self, node_id: str, shard: int) -> bool:
        """Whether the node tells what it runs; if so it may still be at a job that was given up."""
        profile = profile_of(await self._line.call("HGET", self._keys.shard(shard).node(node_id), "profile"))
        return profile is not None and profile.reports_jobs

    async def leases(self, node_id: str, shard: int) -> list[LeaseView]:
        """What a node holds, oldest deadline first, with the state of each job."""
        keys = self._keys.shard(shard)
        flat = await self._line.call("ZRANGE", keys.leases, 0, -1, "WITHSCORES")
        mine = [
            (attempt, whole(deadline))
            for lease, deadline in zip(flat[::2], flat[1::2], strict=True)
            if lease.endswith(f"#{node_id}") and (attempt := parse_lease(lease, shard)) is not None
        ]
        records = await asyncio.gather(*(self._line.call("GET", keys.job(attempt.job_id)) for attempt, _ in mine))
        return [
            LeaseView(*about, fields_of(record).get("state", "")) for about, record in zip(mine, records, strict=True)
        ]

    async def view_one(self, node_id: str, shard: int) -> NodeView | None:
        keys = self._keys.shard(shard)
        profile, seen, held, free, limit, owner, sick = await asyncio.gather(
            self._line.call("HMGET", keys.node(node_id), "state", "pools", "profile", "reach", "serves"),
            self._line.call("ZSCORE", keys.seen, node_id),
            self._line.call("ZSCORE", keys.held, node_id),
            self._line.call("ZSCORE", keys.free, node_id),
            self._line.call("HGET", keys.limits, node_id),
            self._line.call("HGET", keys.owners, node_id),
            self._line.call("ZMSCORE", keys.sick, node_id, *(f"{node_id} {service}" for service in SERVICES)),
        )
        if owner is None:
            return None
        if not is_node(node_id) or owner_of(owner) is None:
            self._unreadable.met("owners", node_id)
            return None
        state, pools, said, reach, serves = (text if text is not None and is_text(text) else None for text in profile)
        if said != profile[2] or profile_of(said) is None:
            self._unreadable.met("node", keys.node(node_id))
            said = None
        quarantined_until_ms, *lacks_until_ms = (None if until is None else whole(until) for until in sick)
        return NodeView(
            node_id=node_id,
            shard=shard,
            state=state or NodeState.REGISTERING.value,
            alive_until_ms=whole(seen),
            max_jobs=slots_of(limit),
            held=whole(held),
            free=None if free is None else whole(free),
            pools=tuple((pools or "").split()),
            profile=said or "{}",
            owner=owner,
            quarantined_until_ms=quarantined_until_ms,
            unavailable=tuple(
                (service, until) for service, until in zip(SERVICES, lacks_until_ms, strict=True) if until is not None
            ),
            reach=reach_named(serves or "", reach) if reach else None,
        )
