"""Nodes that have joined, and the tokens they sign."""

import time
from typing import Any

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.node_claims import cluster_audience
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.identity import KeyPair, NodeIdentity
from tests.support.credentials import key

CLUSTER = cluster_audience("lingua", "lingua:v1")


def identity_of(credential_id: str, pair: KeyPair, audience: str = CLUSTER, node_id: str = "gpu-7") -> NodeIdentity:
    return NodeIdentity(
        origin="http://127.0.0.1:5010",
        node_id=node_id,
        credential_id=credential_id,
        audience=audience,
        private_key=pair.private_text,
    )


def joined_credential(pair: KeyPair, **more: Any) -> Credential:
    return key("joined", **{"kind": KeyKind.NODE, "node_id": "gpu-7", "public_key": pair.public_text} | more)


def shows(identity: NodeIdentity, now_s: float | None = None) -> dict[str, str]:
    """A token of its own, as a header."""
    return {"Authorization": f"Bearer {identity.signed(time.time() if now_s is None else now_s)}"}
