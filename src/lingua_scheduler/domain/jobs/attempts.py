"""Attempts and their names: a job's id names its shard, a lease names job, attempt and node."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.nodes.nodes import NODE_ID


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


# Ids become parts of keys and leases, so nothing else is taken for one.
_JOB_ID = re.compile(r"job-(\d{1,4})-[A-Za-z0-9_-]{1,100}", re.ASCII)
# Every report of a node comes by here.
match_job_id = _JOB_ID.fullmatch
_LEASE = re.compile(rf"(job-\d{{1,4}}-[A-Za-z0-9_-]{{1,100}})#(\d{{1,9}})#({NODE_ID.pattern})", re.ASCII)

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


class Try(msgspec.Struct, gc=False):
    """One attempt to be placed. `serial` makes the job's id, which names the shard it begins in."""

    number: int
    serial: str
    run_ms: int
    job_id: str = ""
    # Where the last attempt was, or where the job was written down when it began to wait.
    shard: int = -1
    tried: tuple[str, ...] = ()
    # The node that had it last, which need not be among those.
    last_node: str = ""
    # How many job ids the utterance had before this one, and how many attempts it had under them.
    renewal: int = 0
    attempts_before: int = 0
    # Whether the node that had it last may come back for it, in its own time.
    awaits_return: bool = False
    # Shards that may have taken it: Redis went away before it had answered.
    doubtful: tuple[int, ...] = ()
    # No longer than this, on the monotonic clock.
    give_up_at: float = float("inf")

    @property
    def attempts_made(self) -> int:
        """How many attempts the utterance had before this one, under all its job ids."""
        return self.attempts_before + self.number - 1


def parse_lease(lease: str, shard: int) -> Attempt | None:
    """None for what is no lease of ours, whoever wrote it; `lua/lib/lease.lua` reads them alike."""
    found = _LEASE.fullmatch(lease)
    return None if found is None else Attempt(found[1], int(found[2]), found[3], shard)


def parse_leases(leases: Iterable[str], shard: int) -> list[Attempt]:
    """Those that can be read."""
    return [attempt for lease in leases if (attempt := parse_lease(lease, shard)) is not None]


def job_id(shard: int, serial: str) -> str:
    return f"job-{shard}-{serial}"


def handle_of(identifier: str, secret: str) -> str:
    """What the caller of an HTTP job knows it by: whoever fetches the result must name the secret too."""
    return f"{identifier}.{secret}" if secret else identifier


def without_secret(handle: str) -> str:
    """The job's id, as everybody else knows it."""
    return handle.partition(".")[0]


def shard_of(identifier: str) -> int | None:
    """The shard a job began in, or None when this is no id that we could have made."""
    found = _JOB_ID.fullmatch(identifier)
    return None if found is None else int(found[1])


def is_job_id(identifier: str) -> bool:
    return match_job_id(identifier) is not None
