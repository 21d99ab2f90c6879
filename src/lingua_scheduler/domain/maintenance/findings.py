"""What can be wrong with the data in Redis, in words."""

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
    FindingKind.LEASE_OF_NOBODY: "lease {subject} is of node {detail}, which is not registered",
    FindingKind.LEASE_WITHOUT_JOB: "lease {subject} is of a job that has no record",
    FindingKind.JOB_WITHOUT_LEASE: "job {subject} counts as {detail}, but no lease holds a slot for it",
    FindingKind.SEEN_OF_NOBODY: "node {subject} is not registered, but its last sign of life is kept",
    FindingKind.FREE_OF_NOBODY: "node {subject} is not registered, but offers slots",
    FindingKind.LIMIT_OF_NOBODY: "node {subject} is not registered, but has a limit",
    FindingKind.PROFILE_OF_NOBODY: "node {subject} is not registered, but has a profile",
    FindingKind.MEMBER_UNKNOWN: "pool {subject} has the member {detail}, which is not registered",
    FindingKind.NEVER_SEEN: "node {subject} is registered without a time at which it counts as gone",
    FindingKind.HELD_WRONG: "node {subject} is said to hold {first} leases, and holds {second}",
    FindingKind.FREE_WRONG: "node {subject} offers {first} slots, and has {second}",
    FindingKind.SUMMARY_WRONG: "pool {subject} is said to have {first} nodes, and has {second}",
    FindingKind.DEFINITION_MISSING: "pool {subject} has nodes, but nothing says which languages they serve",
    FindingKind.DEFINITION_OF_NOBODY: "pool {subject} has no nodes, but its languages are kept",
    FindingKind.PLACE_OF_NOBODY: "node {subject} has a place in shard {first}, but is not registered there",
    FindingKind.NODE_WITHOUT_PLACE: "node {subject} is registered in shard {detail}, but has no place there",
    FindingKind.LOAD_WRONG: "shard {subject} is said to have {first} nodes, and has {second}",
    FindingKind.UNREADABLE: "{detail} holds {subject}, which no scheduler can have written",
    FindingKind.OWNER_GONE: "node {subject} belongs to instance {first}, which is gone; it goes when it is silent too",
    FindingKind.INBOX_OF_GONE: "instance {subject} is gone, but its inbox is there, with {detail} messages",
    FindingKind.LETTERS_OF_GONE: "instance {subject} is gone, but {detail} dead letters are there to be read",
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
        """What makes it the same finding a moment later; counts move on while people work."""
        return self if self.kind in _SAME_IN_DETAIL else self[:3]


def confirmed(first: list[Finding], second: list[Finding]) -> list[Finding]:
    """What was so in both looks; in one alone it may have been in the middle of a change."""
    before = {finding.identity for finding in first}
    return [finding for finding in second if finding.identity in before]


def _whole(number: str) -> str:
    return number.removesuffix(".0")
