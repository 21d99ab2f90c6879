"""Attempts and their names: a job's id names its shard, a lease names job, attempt and node."""

from enum import StrEnum
from typing import NamedTuple


class DispatchOutcome(StrEnum):
    DISPATCHED = "dispatched"
    FULL = "full"
    EXHAUSTED = "exhausted"  # every node that could was tried already
    NOBODY = "nobody"
    SICK = "sick"  # only quarantined nodes could, and there may be better ones in other shards
    BUSY = "busy"  # the preferred node was demanded and has no free slot
    UNFIT = "unfit"  # the preferred node was demanded and is gone or does not serve this
    STALE = "stale"


class AdvanceOutcome(StrEnum):
    ADVANCED = "advanced"
    STALE = "stale"


class EndOutcome(StrEnum):
    ENDED = "ended"
    STALE = "stale"
    REPEATED = "repeated"  # its node has said so before
    ALIVE = "alive"  # it was to end only if overdue, and is not
    GONE = "gone"  # Redis knows nothing of the job


class NoteOutcome(StrEnum):
    NOTED = "noted"
    STALE = "stale"  # it has an attempt by now, or has ended


class CancelOutcome(StrEnum):
    CANCELLED = "cancelled"
    ENDED = "ended"  # it had ended before
    MOVED = "moved"
    GONE = "gone"


class AdoptOutcome(StrEnum):
    ADOPTED = "adopted"
    SUPERSEDED = "superseded"


# The number of no attempt: what a node runs without a lease is accounted for under it.
ADOPTED = 0


class Attempt(NamedTuple):
    job_id: str
    number: int
    node_id: str
    shard: int

    @property
    def lease(self) -> str:
        return f"{self.job_id}#{self.number}#{self.node_id}"


def parse_lease(lease: str, shard: int) -> Attempt:
    job_id, number, node_id = lease.split("#", 2)
    return Attempt(job_id, int(number), node_id, shard)


def job_id(shard: int, serial: str) -> str:
    return f"job-{shard}-{serial}"


def shard_of(identifier: str) -> int | None:
    """The shard a job began in, or None when this is no id of ours."""
    head, _, rest = identifier.partition("-")
    shard, dash, serial = rest.partition("-")
    if head != "job" or not dash or not serial or len(shard) > 4 or not (shard.isascii() and shard.isdigit()):
        return None
    return int(shard)
