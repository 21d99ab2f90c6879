"""The ledger in Redis: the leases that take a node's slots, kept in step with what the node runs."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from lingua_scheduler.domain.jobs.attempts import AdoptOutcome, Attempt
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import fields_of, whole
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys


class LeaseView(NamedTuple):
    attempt: Attempt
    deadline_ms: int
    state: str


class Ledger:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts
        self._unreadable = unreadable

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

    async def leases(self, node_id: str, shard: int) -> list[LeaseView]:
        """What a node holds, oldest deadline first, with the state of each job."""
        keys = self._keys.shard(shard)
        flat = await self._line.call("ZRANGE", keys.leases, 0, -1, "WITHSCORES")
        mine = [
            (attempt, whole(deadline))
            for lease, deadline in zip(flat[::2], flat[1::2], strict=True)
            if lease.endswith(f"#{node_id}") and (attempt := Attempt.parse(lease, shard)) is not None
        ]
        records = await asyncio.gather(*(self._line.call("GET", keys.job(attempt.job_id)) for attempt, _ in mine))
        return [
            LeaseView(*about, fields_of(record).get("state", "")) for about, record in zip(mine, records, strict=True)
        ]
