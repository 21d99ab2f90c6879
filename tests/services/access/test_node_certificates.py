"""Nodes with certificates have the credentials, limits and bans of all other nodes."""

from typing import Any

import pytest

from lingua_scheduler.domain.access.credentials import Credential, tenant_name
from lingua_scheduler.domain.access.node_certificates import PeerCertificate
from lingua_scheduler.domain.access.principals import Denied, Principal, holder_of
from lingua_scheduler.services.access.node_certificates import NodeCertificates
from lingua_scheduler.services.access.visits import Visit
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.credentials import key
from tests.support.tokens import NOW_MS, Book

SHOWN = PeerCertificate(("spiffe://lingua/acme/node/gpu-7",))
HERE = Visit("192.0.2.1", None, is_local=False)


def node(name: str = "one", **more: Any) -> Credential:
    return key(name, **{"kind": KeyKind.NODE, "tenant": "acme", "node_id": "gpu-7", "created_ms": 5} | more)


def read(*known: Credential, shown: PeerCertificate = SHOWN, visit: Visit = HERE) -> Principal | Denied:
    return NodeCertificates(Book(*known), "lingua").read(shown, visit, NOW_MS)


def refused(found: Principal | Denied) -> tuple[int, str]:
    assert isinstance(found, Denied), found
    return found.status, found.code


def test_a_certificate_stands_for_the_credential_of_its_node() -> None:
    known = node(max_slots=4, labels={"region": "eu"})
    others = [node("two", node_id="gpu-8"), node("three", tenant="beta"), key("four", tenant="acme")]
    assert read(known, *others) == holder_of(known)


def test_of_several_the_latest_counts_that_is_valid() -> None:
    older, latest = node("one", created_ms=1), node("two", created_ms=2)
    ended = node("three", created_ms=3, revoked_ms=4)
    waiting = node("four", created_ms=9, needs_approval=True)
    assert read(older, latest, ended, waiting) == holder_of(latest)


def test_a_connection_ends_with_the_certificate_or_with_the_credential() -> None:
    for cert_ms, key_ms in ((NOW_MS + 10, 0), (NOW_MS + 10, NOW_MS + 99), (NOW_MS + 99, NOW_MS + 10)):
        found = read(node(expires_ms=key_ms), shown=SHOWN._replace(expires_ms=cert_ms))
        assert isinstance(found, Principal)
        assert found.expires_ms == NOW_MS + 10


def test_an_expired_certificate_is_refused_also_when_a_session_was_resumed() -> None:
    assert refused(read(node(), shown=SHOWN._replace(expires_ms=NOW_MS))) == (401, "TOKEN_EXPIRED")


def test_an_unknown_node_is_told_what_an_operator_does() -> None:
    for known in ((), (node(tenant="beta"),), (node(node_id=""),), (node(kind=KeyKind.ENROLMENT),)):
        found = read(*known)
        assert refused(found) == (403, "NODE_NOT_APPROVED")
        assert isinstance(found, Denied)
        assert "lingua keys create --kind node --tenant acme --node-id gpu-7" in found.detail


def test_a_node_that_waits_for_approval_waits() -> None:
    assert refused(read(node(needs_approval=True))) == (403, "NODE_NOT_APPROVED")
    assert isinstance(read(node(needs_approval=True, approved_ms=7)), Principal)


@pytest.mark.parametrize("ended", [{"revoked_ms": 6}, {"expires_ms": NOW_MS}])
def test_a_banned_node_is_refused_with_any_certificate(ended: dict[str, Any]) -> None:
    found = read(node(**ended))
    assert refused(found) == (401, "UNAUTHENTICATED")
    # Its owner learns it here too: when a ban closes a connection, a busy node may miss the reason.
    assert isinstance(found, Denied)
    assert "revoked or have expired" in found.detail
    assert "lingua keys create --kind node --tenant acme --node-id gpu-7" in found.detail


def test_the_tenant_may_be_revoked_and_the_network_limited() -> None:
    book = Book(node())
    book.voids[tenant_name("acme")] = NOW_MS
    assert refused(NodeCertificates(book, "lingua").read(SHOWN, HERE, NOW_MS)) == (401, "UNAUTHENTICATED")
    assert refused(read(node(networks=("198.51.100.0/24",)))) == (403, "PERMISSION_DENIED")
    assert isinstance(read(node(networks=("192.0.2.0/24",))), Principal)


def test_what_names_no_node_is_refused_with_the_reason() -> None:
    found = read(node(), shown=PeerCertificate(("spiffe://other/acme/node/gpu-7",)))
    assert refused(found) == (401, "UNAUTHENTICATED")
    assert isinstance(found, Denied)
    assert "another cluster" in found.detail


def test_a_change_of_the_credentials_counts_at_once() -> None:
    book = Book()
    reader = NodeCertificates(book, "lingua")
    assert isinstance(reader.read(SHOWN, HERE, NOW_MS), Denied)
    known = node()
    book.credentials[known.id] = known
    reader.credentials_changed()
    assert isinstance(reader.read(SHOWN, HERE, NOW_MS), Principal)
