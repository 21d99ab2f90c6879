"""Candidates for a job: why a node would, or would not, be chosen."""

from enum import StrEnum
from typing import NamedTuple

from lingua_scheduler.domain.pools.names import Facet, Pool


class CandidateVerdict(StrEnum):
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
    verdict: CandidateVerdict
    held: int = 0
    limit: int = 0
    # For how long it is out, and which service, when that is why.
    left_ms: int = 0
    service: str = ""

    def in_words(self) -> str:
        match self.verdict:
            case CandidateVerdict.HAS_IT:
                return "it has this job"
            case CandidateVerdict.FREE | CandidateVerdict.FULL:
                return f"{self.held} of {self.limit} slots taken"
            case CandidateVerdict.EXCLUDED:
                return "this job has already been tried there"
            case CandidateVerdict.STALE:
                return "no recent heartbeat"
            case CandidateVerdict.QUARANTINED:
                return f"quarantined after failures, for {self.left_ms / 1000:.0f} s more"
            case CandidateVerdict.UNAVAILABLE:
                return f"its {self.service} is unavailable for {self.left_ms / 1000:.0f} s more"
            case CandidateVerdict.DRAINING:
                return "draining, or not accepting jobs"
            case CandidateVerdict.NOT_TAKING_WORK:
                return "overloaded: CPU, memory or GPU above its limit"
            case CandidateVerdict.NOT_IN_POOL:
                return "does not serve the language pair"


def services_for(pool: str) -> tuple[str, ...]:
    """The kinds of service a job of this pool needs."""
    asked = Pool.parse(pool)
    needed = [] if asked.is_from_text else ["asr", "semantic"]
    if asked.pair.src != asked.pair.tgt:
        needed.append("nmt")
    if asked.facet == Facet.SPEECH:
        needed.append("tts")
    return tuple(needed)
