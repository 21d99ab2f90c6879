"""Why a node would, or would not, be taken for a job."""

from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.pools.pools import Facet


class Verdict(StrEnum):
    HAS_IT = "has_it"  # the job is there
    FREE = "free"
    FULL = "full"
    EXCLUDED = "excluded"  # the job was tried there already
    STALE = "stale"
    QUARANTINED = "quarantined"
    UNAVAILABLE = "unavailable"  # a service the job needs
    DRAINING = "draining"
    NOT_TAKING_WORK = "not_taking_work"
    NOT_IN_POOL = "not_in_pool"


class Candidate(NamedTuple):
    node_id: str
    shard: int
    verdict: Verdict
    held: int = 0
    limit: int = 0
    # For how long it is out, and which service, when that is why.
    left_ms: int = 0
    service: str = ""

    def in_words(self) -> str:
        match self.verdict:
            case Verdict.HAS_IT:
                return "this job is there"
            case Verdict.FREE | Verdict.FULL:
                return f"{self.held} of {self.limit} slots taken"
            case Verdict.EXCLUDED:
                return "this job was tried there already"
            case Verdict.STALE:
                return "no sign of life lately"
            case Verdict.QUARANTINED:
                return f"failed too often, out for {self.left_ms / 1000:.0f} s more"
            case Verdict.UNAVAILABLE:
                return f"its {self.service} is out for {self.left_ms / 1000:.0f} s more"
            case Verdict.DRAINING:
                return "it is drained, or accepts no jobs"
            case Verdict.NOT_TAKING_WORK:
                return "its machine is overloaded"
            case Verdict.NOT_IN_POOL:
                return "it does not serve the pair"


def services_for(pool: str) -> tuple[str, ...]:
    """The kinds of service a job of this pool needs."""
    src, tgt, facet = pool.split(":")
    needed = ["asr", "semantic"]
    if src != tgt:
        needed.append("nmt")
    if facet == Facet.SPEECH:
        needed.append("tts")
    return tuple(needed)
