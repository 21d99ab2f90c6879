"""Checks all data in Redis for inconsistencies, and repairs them while schedulers run."""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from lingua_scheduler.domain.jobs.attempts import Attempt, NumberedJob
from lingua_scheduler.domain.jobs.jobs import LIVE, JobEvent
from lingua_scheduler.domain.maintenance.findings import Finding, FindingKind, confirmed
from lingua_scheduler.domain.nodes.nodes import RemoveOutcome
from lingua_scheduler.domain.nodes.owners import NOBODY, Ownership
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.domain.pools.names import public_name
from lingua_scheduler.domain.pools.reach import wide_pool
from lingua_scheduler.store.connection import Reply
from lingua_scheduler.store.maintenance.inspection import Inspection
from lingua_scheduler.store.reading import fields_of, is_node, is_pool
from lingua_scheduler.store.store import Store

T = TypeVar("T")

# The sweep comes by every second, and a registration takes two steps: what is still so after this is no passing state.
SETTLE_S = 3.0
SCAN_COUNT = 1_000
KEYS_TOGETHER = 200
# An instance that has not beaten for so long does not come back.
GONE_MS = 60_000
ALIVE_MS = 45_000
# The largest `pools.max_shards`.
MOST_SHARDS = 1_000
# The largest `pools.shard_size`.
MOST_IN_SHARD = 1_000
ORPHAN = "orphan"
ROUNDS = 3

_SHARD_KEY = re.compile(r"\{s(\d{1,4})\}:(?:(node|pool|record):)?(.*)", re.DOTALL)
_INSTANCE_KEY = re.compile(r"\{instance:([^}]+)\}:(inbox|dead)")


class Inventory(NamedTuple):
    """What the names of the keys tell."""

    # Shard → pool:<name> and node:<id>
    things: dict[int, set[str]]
    # Instance → its streams
    streams: dict[str, set[str]]
    # Jobs in a live state without a lease, as far as one look can tell: shard and id.
    jobs: list[tuple[int, str]]
    # Keys that hold something no scheduler can have written, as far as one look can tell.
    strange: list[str]


class Checkup:
    def __init__(self, store: Store, on_step: Callable[[str], None] = lambda _: None) -> None:
        self._store = store
        self._call = store.line.call
        self._keys = store.keys
        self._say = on_step
        self._inventory = Inventory({}, {}, [], [])
        self._inspection = Inspection(store)

    async def look(self, settle_s: float = SETTLE_S) -> list[Finding]:
        """Everything that is wrong, and still is a moment later."""
        self._inventory = await self._take_inventory()
        first = await self._look_once()
        if not first:
            return []
        self._say(f"{len(first)} suspicions; looking again in {settle_s:g} s")
        await asyncio.sleep(settle_s)
        return confirmed(first, await self._look_once())

    async def put_right(self, settle_s: float = SETTLE_S) -> tuple[list[Finding], list[Finding]]:
        """Repair all that can be; what was found, and what is left. What one round removes may show what it hid."""
        found = left = await self.look(settle_s)
        for _ in range(ROUNDS):
            if not any(finding.is_repairable for finding in left):
                break
            await self.repair(left)
            left = await self.look(settle_s)
            found = sorted({*found, *left})
        return found, left

    async def repair(self, findings: Iterable[Finding]) -> None:
        """Put right what was found; every step looks again, in Redis, before it changes anything."""
        by_kind: dict[FindingKind, list[Finding]] = defaultdict(list)
        shards = set()
        for finding in findings:
            by_kind[finding.kind].append(finding)
            shards.update(self._shards_of(finding))
        # First, because all else is compared with what is there.
        await self._inspection.remove({finding.key for finding in by_kind[FindingKind.UNREADABLE]})
        await self._repair_jobs(by_kind)
        for finding in by_kind[FindingKind.DEFINITION_MISSING]:
            await self._restore_definition(self._shard_of(finding), finding.subject)
        for shard in shards:
            await self._audit_shard(shard, repair=True)
            await self._store.ledger.rebuild(shard)
        for finding in by_kind[FindingKind.PLACE_OF_NOBODY]:
            if place := Place.parse(finding.detail):
                await self._store.placements.release(finding.subject, place)
        for finding in by_kind[FindingKind.NODE_WITHOUT_PLACE]:
            place = Place(int(finding.detail), 1)
            await self._store.placements.restore(finding.subject, place, MOST_IN_SHARD, MOST_SHARDS)
        await self._audit_placement(repair=True)
        for finding in by_kind[FindingKind.INBOX_OF_GONE]:
            await self._call("DEL", finding.key)

    async def _repair_jobs(self, by_kind: Mapping[FindingKind, Sequence[Finding]]) -> None:
        """Nodes that are gone, with their attempts; then leases and jobs that have lost each other."""
        for finding in by_kind[FindingKind.OWNER_GONE]:
            await self._remove_node(finding)
        for kind in (FindingKind.LEASE_OF_NOBODY, FindingKind.LEASE_WITHOUT_JOB):
            for finding in by_kind[kind]:
                for overdue in Attempt.parse_all([finding.subject], self._shard_of(finding)):
                    await self._end(overdue)
        for finding in by_kind[FindingKind.JOB_WITHOUT_LEASE]:
            await self._store.jobs.abandon(self._shard_of(finding), *NumberedJob.parse(finding.subject), ORPHAN)

    # Looking

    async def _take_inventory(self) -> Inventory:
        inventory = Inventory(defaultdict(set), defaultdict(set), [], [])
        for shard in await self._store.placements.shards():
            pools = await self._call("HKEYS", self._keys.shard(shard).summary)
            pools += await self._call("HKEYS", self._keys.shard(shard).wide)
            inventory.things[shard].update(f"pool:{pool}" for pool in pools if is_pool(pool))
        count = 0
        async for keys in self._scan():
            count += len(keys)
            self._say(f"{count} keys looked at")
            jobs = []
            strange = await self._inspection.look([f"{self._keys.prefix}:{key}" for key in keys])
            inventory.strange.extend(sorted({finding.key for finding in strange}))
            for key in keys:
                if match := _SHARD_KEY.match(key):
                    shard, kind, name = int(match[1]), match[2], match[3]
                    # A shard that is in no list any more is looked at too.
                    things = inventory.things[shard]
                    if kind == "record":
                        jobs.append((shard, name))
                    elif (kind == "pool" and is_pool(name)) or (kind == "node" and is_node(name)):
                        things.add(f"{kind}:{name}")
                elif match := _INSTANCE_KEY.match(key):
                    inventory.streams[match[1]].add(match[2])
            suspects = await self._jobs_without_lease(jobs)
            inventory.jobs.extend(
                (self._shard_of(found), NumberedJob.parse(found.subject).job_id) for found in suspects
            )
        return inventory

    async def _scan(self) -> AsyncIterator[list[str]]:
        """The names of our keys without the prefix, from every server."""
        start = f"{self._keys.prefix}:"
        for line in self._store.line.servers():
            cursor = "0"
            while True:
                cursor, keys = await line.call("SCAN", cursor, "MATCH", f"{start}*", "COUNT", SCAN_COUNT)
                yield [key.removeprefix(start) for key in keys]
                if cursor == "0":
                    break

    async def _look_once(self) -> list[Finding]:
        found = await self._inspection.look(self._inventory.strange)
        found += await self._jobs_without_lease(self._inventory.jobs)
        for shard in self._inventory.things:
            found += await self._audit_shard(shard, repair=False)
            found += await self._leases_without_job(shard)
        found += await self._audit_placement(repair=False)
        found += await self._compare_places()
        found += await self._find_gone_instances()
        return sorted(set(found))

    async def _audit_shard(self, shard: int, *, repair: bool) -> list[Finding]:
        keys = self._keys.shard(shard)
        where = {
            "free_of_nobody": keys.free, "free_wrong": keys.free, "seen_of_nobody": keys.seen, "never_seen": keys.seen,
            "held_wrong": keys.held, "limit_of_nobody": keys.limits, "lease_of_nobody": keys.leases,
            "summary_wrong": keys.summary, "definition_missing": keys.wide, "definition_of_nobody": keys.wide,
        }  # fmt: skip
        found = []
        for some in _portions(sorted(self._inventory.things.get(shard, ()))):
            things = [keys.pool(name[5:]) if name.startswith("pool:") else keys.node(name[5:]) for name in some]
            reply = await self._store.scripts.run(
                "shard_audit", keys, things=things, names=" ".join(some), repair=int(repair), alive_ms=ALIVE_MS
            )
            for kind, subject, detail in _triples(reply):
                own = keys.pool(subject) if kind == FindingKind.MEMBER_UNKNOWN else keys.node(subject)
                found.append(Finding(FindingKind(kind), where.get(kind, own), subject, detail))
        return found

    async def _audit_placement(self, *, repair: bool) -> list[Finding]:
        shards = sorted(self._inventory.things)
        known = await asyncio.gather(*map(self._store.owners.known, shards))
        registered = [shard for shard, nodes in zip(shards, known, strict=True) if nodes]
        reply = await self._store.placements.recount(MOST_SHARDS, registered=registered, repair=repair)
        return [Finding(FindingKind(kind), self._keys.load, shard, detail) for kind, shard, detail in _triples(reply)]

    async def _leases_without_job(self, shard: int) -> list[Finding]:
        keys = self._keys.shard(shard)
        attempts = Attempt.parse_all(await self._call("ZRANGE", keys.leases, 0, -1), shard)
        found = []
        # An attempt number of 0 is a job a node runs that Redis knew nothing of: it has no record, and needs none.
        for some in _portions([attempt for attempt in attempts if attempt.number]):
            there = await asyncio.gather(*(self._call("EXISTS", keys.job(attempt.job_id)) for attempt in some))
            found += [
                Finding(FindingKind.LEASE_WITHOUT_JOB, keys.leases, attempt.lease)
                for attempt, exists in zip(some, there, strict=True)
                if not exists
            ]
        return found

    async def _jobs_without_lease(self, jobs: list[tuple[int, str]]) -> list[Finding]:
        found = []
        for some in _portions(jobs):
            texts = await asyncio.gather(*(self._call("GET", self._keys.shard(s).job(job)) for s, job in some))
            live = [
                (Attempt(job, int(record["attempt"]), record.get("node", ""), shard), record["state"])
                for (shard, job), record in zip(some, map(fields_of, texts), strict=True)
                if record.get("state") in LIVE
            ]
            deadlines = await asyncio.gather(
                *(self._call("ZSCORE", self._keys.shard(a.shard).leases, a.lease) for a, _ in live)
            )
            found += [
                Finding(
                    FindingKind.JOB_WITHOUT_LEASE,
                    self._keys.shard(attempt.shard).job(attempt.job_id),
                    str(NumberedJob(attempt.job_id, attempt.number)),
                    state,
                )
                for (attempt, state), deadline in zip(live, deadlines, strict=True)
                if deadline is None
            ]
        return found

    async def _compare_places(self) -> list[Finding]:
        placed = await self._store.placements.all()
        shards = sorted({place.shard for place in placed.values()} | set(self._inventory.things))
        known = dict(zip(shards, await asyncio.gather(*map(self._store.owners.known, shards)), strict=True))
        found = [
            Finding(FindingKind.PLACE_OF_NOBODY, self._keys.placement, node_id, str(place))
            for node_id, place in placed.items()
            if node_id not in known[place.shard]
        ]
        for shard, nodes in known.items():
            found += [
                Finding(FindingKind.NODE_WITHOUT_PLACE, self._keys.shard(shard).owners, node_id, str(shard))
                for node_id in nodes
                if node_id not in placed or placed[node_id].shard != shard
            ]
        return found

    async def _find_gone_instances(self) -> list[Finding]:
        known, alive = await self._instances()
        if not known:
            # No instance has a presence entry, so dead ones cannot be identified.
            return []
        found = []
        for shard in self._inventory.things:
            keys = self._keys.shard(shard)
            flat = await self._call("HGETALL", keys.owners)
            for node_id, owner in zip(flat[::2], flat[1::2], strict=True):
                held = Ownership.parse(owner)
                if held is not None and held.owner.instance not in alive:
                    found.append(Finding(FindingKind.OWNER_GONE, keys.owners, node_id, str(held.owner)))
        for instance, streams in self._inventory.streams.items():
            if instance in alive:
                continue
            for stream in streams:
                key = self._keys.mail(instance, stream)
                kind = FindingKind.INBOX_OF_GONE if stream == "inbox" else FindingKind.LETTERS_OF_GONE
                length = await self._call("XLEN", key)
                # An empty inbox goes with its instance, when that is forgotten (`instances.forget_ms`).
                is_forgotten = stream == "inbox" and instance not in known
                if length or (is_forgotten and await self._call("EXISTS", key)):
                    found.append(Finding(kind, key, instance, str(length)))
        return found

    async def _instances(self) -> tuple[set[str], set[str]]:
        """All that are known, and those of them that have beaten lately."""
        flat = await self._call("ZRANGE", self._keys.instances_alive, 0, -1, "WITHSCORES")
        now_s, _ = await self._call("TIME")
        oldest_ms = int(now_s) * 1000 - GONE_MS
        beats = list(zip(flat[::2], flat[1::2], strict=True))
        return {name for name, _ in beats}, {name for name, beat_ms in beats if float(beat_ms) >= oldest_ms}

    # Repairing

    async def _remove_node(self, finding: Finding) -> None:
        """Only if it sends no heartbeats: an instance without a presence entry may still hold its socket."""
        shard = self._shard_of(finding)
        place = await self._store.placements.find(finding.subject)
        outcome, attempts = await self._store.nodes.remove(shard, NOBODY, finding.subject, frozenset())
        if outcome is not RemoveOutcome.REMOVED:
            return
        for attempt in attempts:
            await self._end(attempt)
        if place is not None and place.shard == shard:
            await self._store.placements.release(finding.subject, place)

    async def _restore_definition(self, shard: int, pool: str) -> None:
        """Every member has a copy, and a pool's name stands for one definition for ever."""
        keys = self._keys.shard(shard)
        for node_id in await self._call("SMEMBERS", keys.pool(pool)):
            definition = await self._call("HGET", keys.node(node_id), "reach")
            if definition and wide_pool(definition) == public_name(pool):
                await self._call("HSET", keys.wide, pool, definition)
                return

    async def _end(self, attempt: Attempt) -> None:
        await self._store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, ORPHAN)

    def _shard_of(self, finding: Finding) -> int:
        (shard,) = self._shards_of(finding)
        return shard

    def _shards_of(self, finding: Finding) -> list[int]:
        """The shard a finding is in; none when it is between shards."""
        match = _SHARD_KEY.match(finding.key.removeprefix(f"{self._keys.prefix}:"))
        return [] if match is None else [int(match[1])]


def _portions(items: list[T]) -> Iterable[list[T]]:
    """At least one, so that a shard without pools is looked at too."""
    return (items[first : first + KEYS_TOGETHER] for first in range(0, max(1, len(items)), KEYS_TOGETHER))


def _triples(flat: Reply) -> Iterable[tuple[str, str, str]]:
    return zip(flat[::3], flat[1::3], flat[2::3], strict=True)
