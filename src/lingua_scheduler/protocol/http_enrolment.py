"""Request and response bodies of nodes that join, and of operators who decide about them."""

from typing import Annotated, Any

from msgspec import Meta

from lingua_scheduler.protocol.http import Answer, Body, NodeId


def _told(description: str, *examples: Any) -> Meta:
    return Meta(description=description, examples=list(examples) or None)


class EnrolRequest(Body, kw_only=True):
    public_key: Annotated[
        Annotated[str, Meta(pattern="^[0-9a-f]{64}$")],
        _told("Its Ed25519 public key, as hexadecimal digits", "0f" * 32),
    ]
    node_id: Annotated[NodeId | None, _told("Absent = the scheduler assigns one", "gpu-7")] = None


class Enrolled(Answer, kw_only=True):
    node_id: Annotated[str, _told("The one id it may register with", "gpu-7")]
    credential_id: Annotated[str, _told("`iss` and `kid` of the tokens it signs", "k3jPq0aZ81Ty")]
    audience: Annotated[str, _told("`aud` of the tokens it signs", "lingua/lingua:v1")]
    is_approved: Annotated[bool, _told("Whether it may connect now, or an operator must approve it first")]
    expires_ms: Annotated[int, _told("When its credential ends, in ms since 1970; 0 = never")]


class JoinedNode(Answer, kw_only=True):
    """The credential of a node."""

    node_id: Annotated[str, _told("Empty: it is for the first node that uses it", "gpu-7")]
    credential_id: Annotated[str, _told("", "k3jPq0aZ81Ty")]
    tenant: Annotated[str, _told("", "default")]
    is_approved: bool
    is_ephemeral: Annotated[bool, _told("It ends when the node stays away")]
    labels: Annotated[dict[str, str], _told("As the operator set them", {"region": "eu"})]
    max_slots: Annotated[int, _told("Slots it is believed at most; 0 = as it announces")]
    enrolled_with: Annotated[str, _told("Id of the enrolment key it joined with; empty if with none", "Zq81TyPk3j0a")]
    created_ms: int
    expires_ms: Annotated[int, _told("0 = never")]


class JoinedNodes(Answer, kw_only=True):
    nodes: list[JoinedNode]


class BanAnswer(Answer, kw_only=True):
    node_id: str
    outcome: Annotated[str, _told("", "banned")]
    enrolled_with: Annotated[
        list[str], _told("Enrolment keys that it joined with; while one is valid, its owner can join another node")
    ]
