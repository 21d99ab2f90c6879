"""Makes the principal of a node of its certificate. The certificate says which node it is, and what the node may do is
in the credentials, as of every other node: its tenant's limits, an approval, a ban."""

from collections import defaultdict
from typing import Protocol

import msgspec

from lingua_scheduler.domain.access.credentials import Credential, first_end
from lingua_scheduler.domain.access.node_certificates import BadCertificate, NodeName, PeerCertificate, named_node
from lingua_scheduler.domain.access.principals import Denied, Principal, holder_of, not_approved, unauthenticated
from lingua_scheduler.services.access import standing
from lingua_scheduler.services.access.keyholders import misplaced
from lingua_scheduler.services.access.visits import Visit
from lingua_sdk.domain.errors import HttpCode
from lingua_sdk.domain.key_texts import KeyKind


class KnownNodes(standing.KnownCredentials, Protocol):
    def all(self) -> list[Credential]: ...


class NodeCertificates:
    """`domain` is the trust domain of this cluster."""

    def __init__(self, book: KnownNodes, domain: str) -> None:
        self._book = book
        self._domain = domain
        # Made when it is first needed, and after each change.
        self._by_name: dict[NodeName, list[Credential]] | None = None

    def credentials_changed(self) -> None:
        self._by_name = None

    def read(self, certificate: PeerCertificate, visit: Visit, now_ms: int) -> Principal | Denied:
        """Refusals say why: the authority has vouched for the caller, and there is nothing to guess."""
        try:
            name = named_node(certificate, self._domain)
        except BadCertificate as error:
            detail = f"the certificate is not accepted: {error}"
            return Denied(401, HttpCode.UNAUTHENTICATED.value, detail, reason=f"certificate: {error}")
        if certificate.expires_ms and certificate.expires_ms <= now_ms:
            expired = "the certificate has expired; get a newer one"
            return Denied(401, HttpCode.TOKEN_EXPIRED.value, expired, reason="certificate expired")
        credential = self._credential(name, now_ms)
        if isinstance(credential, Denied):
            return credential
        holder = holder_of(credential)
        principal = msgspec.structs.replace(holder, expires_ms=first_end(holder.expires_ms, certificate.expires_ms))
        if reason := standing.objection(self._book, principal, now_ms):
            return unauthenticated(reason)
        return misplaced(credential, visit.address, visit.origin) or principal

    def _credential(self, name: NodeName, now_ms: int) -> Credential | Denied:
        known = self._known().get(name, [])
        live = [one for one in known if one.is_live(now_ms)]
        approved = [one for one in live if not one.is_pending]
        if approved:
            return max(approved, key=lambda one: (one.created_ms, one.id))
        if live:
            return not_approved()
        make = f"lingua keys create --kind node --tenant {name.tenant} --node-id {name.node_id}"
        if known:
            # It may not have heard so when its connection was closed, and must not take this for a typing error.
            ended = "the credentials of this node were revoked or have expired"
            detail = f"{ended}; an operator lets it in again with {make}"
            return Denied(401, HttpCode.UNAUTHENTICATED.value, detail, reason=ended)
        detail = f"no credential is known for this node; an operator makes one with {make}; it may try again"
        return Denied(403, HttpCode.NODE_NOT_APPROVED.value, detail, reason="certificate of an unknown node")

    def _known(self) -> dict[NodeName, list[Credential]]:
        found = self._by_name
        if found is None:
            found = defaultdict(list)
            for one in self._book.all():
                if one.kind is KeyKind.NODE and one.node_id:
                    found[NodeName(one.tenant, one.node_id)].append(one)
            self._by_name = dict(found)
        return found
