"""How a node asks a scheduler for a credential, over HTTP."""

from typing import Annotated

import msgspec
from msgspec import Meta

# It becomes a part of a credential, where no line break may be.
_NodeId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$(?!\n)")]


class EnrolRequest(msgspec.Struct, kw_only=True, gc=False):
    public_key: Annotated[
        Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")],
        Meta(description="Its Ed25519 public key, as hexadecimal digits", examples=["0f" * 32]),
    ]
    node_id: Annotated[_NodeId | None, Meta(description="Absent = the scheduler assigns one", examples=["gpu-7"])] = (
        None
    )


class Enrolled(msgspec.Struct, kw_only=True, gc=False):
    node_id: Annotated[str, Meta(description="The one id it may register with", examples=["gpu-7"])]
    credential_id: Annotated[str, Meta(description="`iss` and `kid` of the tokens it signs", examples=["k3jPq0aZ81Ty"])]
    audience: Annotated[str, Meta(description="`aud` of the tokens it signs", examples=["lingua/lingua:v1"])]
    is_approved: Annotated[bool, Meta(description="Whether it may connect now, or an operator must approve it first")]
    expires_ms: Annotated[int, Meta(description="When its credential ends, in ms since 1970; 0 = never")]
