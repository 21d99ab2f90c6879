"""What a node says in a token that it signs itself: who it is, to which cluster it speaks, and until when."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.claims import LEEWAY_MS, BadToken, ExpiredToken, from_base64
from lingua_sdk.domain.vocabulary import MAX_NODE_TOKEN_S

_Seconds = Annotated[int, Meta(ge=0, lt=2**40)]


class NodeTokenClaims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`iss` is the id of its credential; what the node may do is there, not here."""

    iss: Annotated[str, Meta(max_length=64)]
    aud: Annotated[str, Meta(max_length=512)]
    iat: _Seconds
    exp: _Seconds
    jti: Annotated[str, Meta(min_length=16, max_length=64)]


def cluster_audience(audience: str, key_prefix: str) -> str:
    """`aud` of the tokens of nodes: a cluster is what shares the keys in Redis under one prefix."""
    return f"{audience}/{key_prefix}"


def read_node_claims(part: str) -> NodeTokenClaims:
    """Raises BadToken."""
    try:
        return msgspec.json.decode(from_base64(part), type=NodeTokenClaims)
    except (ValueError, RecursionError):
        raise BadToken("a claim is missing, unknown or malformed") from None


def check_node_claims(claims: NodeTokenClaims, audience: str, now_ms: int) -> None:
    """Raises BadToken, ExpiredToken."""
    if claims.aud != audience:
        raise BadToken("for another cluster")
    if not 0 < claims.exp - claims.iat <= MAX_NODE_TOKEN_S:
        raise BadToken("its lifetime is too long or negative")
    if claims.iat * 1000 > now_ms + LEEWAY_MS:
        raise BadToken("not valid yet: the clocks differ")
    if now_ms > claims.exp * 1000 + LEEWAY_MS:
        raise ExpiredToken("token expired")
