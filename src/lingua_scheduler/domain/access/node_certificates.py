"""The certificate of a node: whom it names, by SPIFFE's rules. That it is genuine was verified before."""

import re
from typing import NamedTuple

from lingua_scheduler.domain.access.credentials import is_tenant

_SCHEME = "spiffe://"
_NODE = re.compile(r"[0-9A-Za-z][0-9A-Za-z._:-]{0,63}")


class BadCertificate(Exception):
    """It names no node of this cluster. The message says why."""


class PeerCertificate(NamedTuple):
    """What counts of it. `expires_ms` is 0 if a proxy did not tell."""

    # Of its subject alternative names; all of them, although only one is allowed.
    uris: tuple[str, ...]
    expires_ms: int = 0


class NodeName(NamedTuple):
    tenant: str
    node_id: str


def named_node(certificate: PeerCertificate, domain: str) -> NodeName:
    """Raises BadCertificate. A certificate with several names would let its holder choose who it is."""
    wanted = f"expected one URI {_SCHEME}{domain}/TENANT/node/NODE as subject alternative name"
    if len(certificate.uris) != 1:
        raise BadCertificate(f"it has {len(certificate.uris) or 'no'} URIs; {wanted}")
    scheme, _, rest = certificate.uris[0].partition("//")
    match rest.split("/"):
        case [cluster, tenant, "node", node_id] if f"{scheme}//" == _SCHEME and _is_name(tenant, node_id):
            if cluster != domain:
                raise BadCertificate(f"it is of another cluster; {wanted}")
            return NodeName(tenant, node_id)
    raise BadCertificate(f"its URI names no node; {wanted}")


def _is_name(tenant: str, node_id: str) -> bool:
    return is_tenant(tenant) and _NODE.fullmatch(node_id) is not None
