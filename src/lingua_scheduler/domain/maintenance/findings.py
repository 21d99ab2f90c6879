"""Findings of `lingua redis check`: what can be wrong with the data in Redis."""

from enum import StrEnum
from typing import NamedTuple


class FindingKind(StrEnum):
    # In one shard
    LEASE_OF_NOBODY = "lease_of_nobody"
    LEASE_WITHOUT_JOB = "lease_without_job"
    JOB_WITHOUT_LEASE = "job_without_lease"
    SEEN_OF_NOBODY = "seen_of_nobody"
    FREE_OF_NOBODY = "free_of_nobody"
    LIMIT_OF_NOBODY = "limit_of_nobody"
    PROFILE_OF_NOBODY = "profile_of_nobody"
    MEMBER_UNKNOWN = "member_unknown"
    NEVER_SEEN = "never_seen"
    HELD_WRONG = "held_wrong"
    FREE_WRONG = "free_wrong"
    SUMMARY_WRONG = "summary_wrong"
    DEFINITION_MISSING = "definition_missing"
    DEFINITION_OF_NOBODY = "definition_of_nobody"
    # Between shards
    PLACE_OF_NOBODY = "place_of_nobody"
    NODE_WITHOUT_PLACE = "node_without_place"
    LOAD_WRONG = "load_wrong"
    # Anywhere
    UNREADABLE = "unreadable"
    # Between instances
    OWNER_GONE = "owner_gone"
    INBOX_OF_GONE = "inbox_of_gone"
    LETTERS_OF_GONE = "letters_of_gone"


_WORDS = {
    FindingKind.LEASE_OF_NOBODY: "lease {subject} belongs to node {detail}, which is not registered",
    FindingKind.LEASE_WITHOUT_JOB: "lease {subject} belongs to a job without a record",
    FindingKind.JOB_WITHOUT_LEASE: "job {subject} is {detail}, but has no lease",
    FindingKind.SEEN_OF_NOBODY: "node {subject} is not registered, but has a heartbeat entry",
    FindingKind.FREE_OF_NOBODY: "node {subject} is not registered, but has free slots",
    FindingKind.LIMIT_OF_NOBODY: "node {subject} is not registered, but has a slot limit",
    FindingKind.PROFILE_OF_NOBODY: "node {subject} is not registered, but has a profile",
    FindingKind.MEMBER_UNKNOWN: "pool {subject} contains node {detail}, which is not registered",
    FindingKind.NEVER_SEEN: "node {subject} is registered, but has no heartbeat deadline",
    FindingKind.HELD_WRONG: "node {subject}: lease count is {first}, but it has {second} leases",
    FindingKind.FREE_WRONG: "node {subject}: free slots are {first}, but should be {second}",
    FindingKind.SUMMARY_WRONG: "pool {subject}: node count is {first}, but it has {second} nodes",
    FindingKind.DEFINITION_MISSING: "pool {subject} has nodes, but its languages are missing",
    FindingKind.DEFINITION_OF_NOBODY: "pool {subject} has no nodes, but its languages are kept",
    FindingKind.PLACE_OF_NOBODY: "node {subject} is assigned to shard {first}, but is not registered there",
    FindingKind.NODE_WITHOUT_PLACE: "node {subject} is registered in shard {detail}, but is not assigned to it",
    FindingKind.LOAD_WRONG: "shard {subject}: node count is {first}, but it has {second} nodes",
    FindingKind.UNREADABLE: "{detail} contains {subject}, which no scheduler writes",
    FindingKind.OWNER_GONE: "node {subject} belongs to instance {first}, which is gone; it is removed once its "
    "heartbeats stop",
    FindingKind.INBOX_OF_GONE: "instance {subject} is gone, but its inbox still has {detail} messages",
    FindingKind.LETTERS_OF_GONE: "instance {subject} is gone, but {detail} dead letters remain to be read",
}
# A place taken again, or a node connected again, is another matter than the one before.
_SAME_IN_DETAIL = frozenset({FindingKind.PLACE_OF_NOBODY, FindingKind.OWNER_GONE})
# What a person has to look at before it is thrown away.
NOT_REPAIRED = frozenset({FindingKind.LETTERS_OF_GONE})


class Finding(NamedTuple):
    kind: FindingKind
    key: str
    subject: str
    detail: str = ""

    @property
    def is_repairable(self) -> bool:
        return self.kind not in NOT_REPAIRED

    @property
    def words(self) -> str:
        first, _, second = (_whole(number) for number in self.detail.partition(" "))
        return _WORDS[self.kind].format(subject=self.subject, detail=self.detail, first=first, second=second)

    @property
    def identity(self) -> tuple[str, ...]:
        """What identifies the finding in a second check; counts may change in between."""
        return self if self.kind in _SAME_IN_DETAIL else self[:3]


def confirmed(first: list[Finding], second: list[Finding]) -> list[Finding]:
    """Findings of both checks; in only one of them it may have been a change in progress."""
    before = {finding.identity for finding in first}
    return [finding for finding in second if finding.identity in before]


def _whole(number: str) -> str:
    return number.removesuffix(".0")
