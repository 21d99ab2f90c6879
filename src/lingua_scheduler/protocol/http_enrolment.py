"""Request and response bodies of nodes that join, and of operators who decide about them."""

from typing import Annotated

from msgspec import Meta

from lingua_scheduler.domain.access.credentials import END
from lingua_scheduler.protocol.http import NODE_ID, Answer, Body

# It becomes a part of a credential, where no line break may be.
_NodeId = Annotated[str, Meta(pattern=NODE_ID.removesuffix("$") + END)]


class EnrolRequest(Body, kw_only=True):
    public_key: Annotated[
        Annotated[str, Meta(pattern=f"^[0-9a-f]{{64}}{END}")],
        Meta(description="Its Ed25519 public key, as hexadecimal digits", examples=["0f" * 32]),
    ]
    node_id: Annotated[_NodeId | None, Meta(description="Absent = the scheduler assigns one", examples=["gpu-7"])] = (
        None
    )


class Enrolled(Answer, kw_only=True):
    node_id: Annotated[str, Meta(description="The one id it may register with", examples=["gpu-7"])]
    credential_id: Annotated[str, Meta(description="`iss` and `kid` of the tokens it signs", examples=["k3jPq0aZ81Ty"])]
    audience: Annotated[str, Meta(description="`aud` of the tokens it signs", examples=["lingua/lingua:v1"])]
    is_approved: Annotated[bool, Meta(description="Whether it may connect now, or an operator must approve it first")]
    expires_ms: Annotated[int, Meta(description="When its credential ends, in ms since 1970; 0 = never")]


class JoinedNode(Answer, kw_only=True):
    """The credential of a node."""

    node_id: Annotated[str, Meta(description="Empty: it is for the first node that uses it", examples=["gpu-7"])]
    credential_id: Annotated[str, Meta(examples=["k3jPq0aZ81Ty"])]
    tenant: Annotated[str, Meta(examples=["default"])]
    is_approved: bool
    is_ephemeral: Annotated[bool, Meta(description="It ends when the node stays away")]
    labels: Annotated[dict[str, str], Meta(description="As the operator set them", examples=[{"region": "eu"}])]
    max_slots: Annotated[int, Meta(description="Slots it is believed at most; 0 = as it announces")]
    enrolled_with: Annotated[str, Meta(description="Id of the enrolment key it joined with; empty if with none")]
    created_ms: int
    expires_ms: Annotated[int, Meta(description="0 = never")]


class JoinedNodes(Answer, kw_only=True):
    nodes: list[JoinedNode]


class BanAnswer(Answer, kw_only=True):
    node_id: str
    outcome: Annotated[str, Meta(examples=["banned"])]
    enrolled_with: Annotated[
        list[str],
        Meta(description="Enrolment keys it joined with; while one is valid, its owner can join another node"),
    ]
