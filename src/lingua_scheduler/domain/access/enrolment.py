"""How a node joins: an enrolment key makes a credential for it, with the rights that the key is for."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.access.credentials import Credential, first_end
from lingua_sdk.domain.key_texts import KeyKind, KeyText

# A key that may let no more nodes in stays valid for as long, so that one that did not hear the answer can ask again.
USED_UP_MS = 3_600_000


class EnrolmentRefused(Exception):
    """The node may not join; the message tells its owner why."""


class NodeIdTaken(Exception):
    """Another credential is for the node id that was asked for."""


class Newcomer(NamedTuple):
    """What a node brings: its public key, and the id that it wants."""

    public_key: str
    node_id: str


def joined_before(key: Credential, newcomer: Newcomer, known: Iterable[Credential], now_ms: int) -> Credential | None:
    """The credential that this node got when it asked before, perhaps with another enrolment key: it keeps its rights.
    Raises EnrolmentRefused if it was banned since."""
    own = [one for one in known if one.public_key == newcomer.public_key and one.tenant == key.tenant]
    if any(one.revoked_ms for one in own):
        raise EnrolmentRefused("this node was banned; to join again it needs another key pair, so remove its state")
    return next((one for one in own if one.is_live(now_ms)), None)


def may_join(key: Credential, newcomer: Newcomer, known: Iterable[Credential], now_ms: int) -> None:
    """Raises EnrolmentRefused, NodeIdTaken."""
    known = list(known)
    if is_used_up(key, known):
        joined = _count(key, known)
        many = "a node has" if joined == 1 else f"{joined} nodes have"
        raise EnrolmentRefused(f"the enrolment key is used up: {many} joined with it; ask for another")
    bound = (one for one in known if one.kind is KeyKind.NODE and one.node_id == newcomer.node_id)
    if any(one.is_live(now_ms) for one in bound):
        raise NodeIdTaken(f"another credential is for {newcomer.node_id}; ban that node, or choose another id")


def credential_for(key: Credential, newcomer: Newcomer, made: KeyText, now_ms: int) -> Credential:
    """`made` gives it an id; its secret is thrown away, because the node signs with a key of its own."""
    return Credential(
        id=made.id,
        kind=KeyKind.NODE,
        digest=made.digest,
        name=key.name,
        tenant=key.tenant,
        node_id=newcomer.node_id,
        max_slots=key.max_slots,
        labels=key.labels,
        is_private=key.is_private,
        is_ephemeral=key.is_ephemeral,
        needs_approval=key.needs_approval,
        networks=key.networks,
        public_key=newcomer.public_key,
        enrolled_with=key.id,
        created_ms=now_ms,
        created_by=key.id,
        expires_ms=now_ms + key.nodes_live_ms if key.nodes_live_ms else 0,
    )


def after(key: Credential, known: Iterable[Credential], now_ms: int) -> Credential:
    """The enrolment key after one more node has joined with it: used up, it ends soon."""
    if not key.max_nodes or _count(key, known) + 1 < key.max_nodes:
        return key
    return msgspec.structs.replace(key, expires_ms=first_end(key.expires_ms, now_ms + USED_UP_MS))


def is_used_up(key: Credential, known: Iterable[Credential]) -> bool:
    """Whether as many nodes have joined with an enrolment key as may."""
    return bool(key.max_nodes) and _count(key, known) >= key.max_nodes


def _count(key: Credential, known: Iterable[Credential]) -> int:
    return sum(one.enrolled_with == key.id for one in known)
