"""Nodes in Redis: they register, change, beat, drain and leave, each in one script."""

from collections.abc import Collection
from typing import NamedTuple

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.nodes import (
    SERVICES,
    BeatOutcome,
    CheckOutcome,
    DrainOutcome,
    Features,
    NodeState,
    RegisterOutcome,
    ReleaseOutcome,
    RemoveOutcome,
)
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.store.keys import Keys, ShardKeys
from lingua_scheduler.store.nodes.pasts import Pasts
from lingua_scheduler.store.nodes.placements import Placements
from lingua_scheduler.store.reading import is_pool
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys

# A node's pools may change between our belief and the script; after this many surprises something is wrong.
MAX_SURPRISES = 8
# How far a look for overdue nodes reaches behind what is none.
OVERDUE_PAGES = 10


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
    # Its known running jobs, and how long one without a lease holds its slot.
    running: tuple[str, ...] = ()
    bound_ms: int = 0
    # How many of its slots are believed while it has not proved itself; 0: all of them.
    believed_slots: int = 0
    # How long after its quarantine began a new process of the node gets its probe; 0: when the quarantine ends.
    probe_ms: int = 0
    # What Redis believed of its slots when it was last heard of, should it have lost that.
    trust: str = ""


class Registered(NamedTuple):
    outcome: RegisterOutcome
    epoch: str = ""
    # Jobs it runs that no lease accounted for.
    adopted: tuple[str, ...] = ()
    # Attempts of the node's former life, overdue now.
    handed_back: tuple[Attempt, ...] = ()
    # 0: it is not quarantined.
    quarantined_until_ms: int = 0


class Beaten(NamedTuple):
    outcome: BeatOutcome
    # What is believed of its slots, to be handed in again should Redis lose the node.
    trust: str = ""


class Nodes:
    def __init__(
        self, keys: Keys, scripts: Scripts, placements: Placements, pasts: Pasts, unreadable: UnreadableKeys
    ) -> None:
        self._keys = keys
        self._scripts = scripts
        self._placements = placements
        self._pasts = pasts
        self._unreadable = unreadable

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
        """`over` is a connection of the node that does not respond any more: it may be replaced.

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
        past = await self._pasts.read(entry.node_id)
        registered = await self._write(verb, shard, owner, entry, was, over, epoch, past)
        if past and registered.outcome is RegisterOutcome.REGISTERED:
            await self._pasts.forget(entry.node_id)
        return registered

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
                probe_ms=entry.probe_ms,
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
                over="" if over is None else str(over),
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
            handed_back = tuple(Attempt.parse_all(reply[4:], shard))
            return Registered(outcome, reply[1], tuple(reply[2].split()), handed_back, int(float(reply[3] or 0)))
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
        self, shard: int, owner: Owner, node_id: str, was: frozenset[str], *, if_idle: bool = False
    ) -> tuple[RemoveOutcome, list[Attempt]]:
        """Take a node out; `NOBODY` removes it only if its time is up, `if_idle` only if it has no jobs."""
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
                if_idle=int(if_idle),
            )
            outcome = RemoveOutcome(reply[0])
            if outcome is RemoveOutcome.MOVED:
                stored, was = reply[1], self._stored_pools(keys, node_id, reply[1])
                continue
            if outcome is not RemoveOutcome.REMOVED:
                return outcome, []
            past, *leases = reply[1:]
            # What an earlier departure left may still be there, and would count when the node comes back.
            await (self._pasts.write(node_id, past) if past else self._pasts.forget(node_id))
            return outcome, Attempt.parse_all(leases, shard)
        raise RuntimeError(f"the pools of {node_id} did not hold still")

    def _stored_pools(self, keys: ShardKeys, node_id: str, text: str) -> frozenset[str]:
        """The pools a node's profile names, without what is none."""
        named = text.split()
        found = frozenset(filter(is_pool, named))
        self._unreadable.met("node", keys.node(node_id), len(named) - len(found))
        return found

    async def drain(self, node_id: str, *, resume: bool = False) -> tuple[DrainOutcome, int]:
        """Take a node out of its pools, or put it back; how many jobs it still holds."""
        place = await self._placements.find(node_id)
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

    async def release(self, node_id: str) -> ReleaseOutcome:
        """End its quarantine."""
        place = await self._placements.find(node_id)
        if place is None:
            return ReleaseOutcome.GONE
        reply = await self._scripts.run("node_release", self._keys.shard(place.shard), node=node_id)
        return ReleaseOutcome(reply[0])

    async def clock_ms(self, shard: int) -> int:
        """What time it is where the shard lives."""
        return int((await self._scripts.run("clock_read", self._keys.shard(shard)))[0])

    async def overdue(self, shard: int, most: int) -> list[str]:
        keys = self._keys.shard(shard)
        strange, *found = await self._scripts.run("nodes_overdue", keys, most=most, pages=OVERDUE_PAGES)
        self._unreadable.met("seen", keys.seen, int(strange))
        return list(map(str, found))
