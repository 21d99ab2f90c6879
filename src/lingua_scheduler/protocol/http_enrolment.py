"""Response bodies for operators who decide about nodes that join."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.credentials import END
from lingua_scheduler.protocol.http import Answer


class JoinedNode(Answer, kw_only=True):
    """The credential of a node."""

    node_id: Annotated[str, Meta(description="Empty: it is for the first node that uses it", examples=["gpu-7"])]
    credential_id: Annotated[str, Meta(examples=["k3jPq0aZ81Ty"])]
    tenant: Annotated[str, Meta(examples=["default"])]
    is_approved: bool
    is_ephemeral: Annotated[bool, Meta(description="It ends when the node stays away")]
    is_private: Annotated[bool, Meta(description="It gets jobs of its tenant alone")]
    labels: Annotated[dict[str, str], Meta(description="As the operator set them", examples=[{"region": "eu"}])]
    max_slots: Annotated[int, Meta(description="Slots it is believed at most; 0 = as it announces")]
    enrolled_with: Annotated[str, Meta(description="Id of the enrolment key it joined with; empty if with none")]
    created_ms: int
    expires_ms: Annotated[int, Meta(description="0 = never")]


class EnrolmentsQuery(msgspec.Struct, frozen=True, kw_only=True):
    label: Annotated[
        str,
        Meta(
            max_length=97,
            pattern=f"^([^=]+=.+)?{END}",
            description="Only nodes with this label, as NAME=VALUE",
            examples=["region=eu"],
        ),
    ] = ""


class JoinedNodes(Answer, kw_only=True):
    nodes: list[JoinedNode]


class BanAnswer(Answer, kw_only=True):
    node_id: str
    outcome: Annotated[str, Meta(examples=["banned"])]
    enrolled_with: Annotated[
        list[str],
        Meta(description="Enrolment keys it joined with; while one is valid, its owner can join another node"),
    ]
