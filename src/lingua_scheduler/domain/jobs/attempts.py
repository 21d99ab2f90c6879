"""Attempts, and the leases that name them: job, attempt and node."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from lingua_scheduler.domain.jobs.job_ids import JOB_ID, spelled
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
    REPEATED = "repeated"  # its node has said so before
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


_LEASE = re.compile(rf"(?P<job>{JOB_ID.pattern})#(?P<number>\d{{1,9}})#(?P<node>{NODE_ID.pattern})", re.ASCII)

# The number of no attempt: what a node runs without a lease is accounted for under it.
ADOPTED = 0


# As many digits as in the id of a job. Others may name an attempt to us, and keys of every shard are kept.
_Shard = Annotated[int, msgspec.Meta(ge=0, le=9_999)]


class Attempt(NamedTuple):
    job_id: str
    number: int
    node_id: str
    shard: _Shard

    @property
    def lease(self) -> str:
        """The name of its lease, in its shard."""
        return f"{self.job_id}#{self.number}#{self.node_id}"

    @classmethod
    def parse(cls, lease: str, shard: int) -> "Attempt | None":
        """None for a malformed lease; `lua/lib/lease.lua` has the same rule."""
        found = _LEASE.fullmatch(lease)
        return None if found is None else cls(found["job"], int(found["number"]), found["node"], shard)

    @classmethod
    def parse_all(cls, leases: Iterable[str], shard: int) -> list["Attempt"]:
        """Those that can be read."""
        return [attempt for lease in leases if (attempt := cls.parse(lease, shard)) is not None]


class NumberedJob(NamedTuple):
    """A job and the number of its attempt, wherever that is."""

    job_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.job_id}#{self.number}"

    @classmethod
    def parse(cls, text: str) -> "NumberedJob":
        """Of what we wrote ourselves."""
        job_id, _, number = text.rpartition("#")
        return cls(job_id, int(number))


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

    def id_in(self, shard: int) -> str:
        """The job's id: the one it has, or gets if it begins in this shard."""
        return self.job_id or spelled(shard, self.serial)

    def begin_in(self, shard: int) -> None:
        """From now on the job has an id."""
        self.shard, self.job_id = shard, self.id_in(shard)

    @property
    def attempts_made(self) -> int:
        """Number of earlier attempts of the utterance, under all its job ids."""
        return self.attempts_before + self.number - 1
