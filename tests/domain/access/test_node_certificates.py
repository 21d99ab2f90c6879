"""Whom the certificate of a node names: one node of this cluster, or none."""

import pytest

from lingua_scheduler.domain.access.node_certificates import BadCertificate, NodeName, PeerCertificate, named_node

GOOD = "spiffe://lingua/acme/node/gpu-7"


def test_the_uri_names_tenant_and_node() -> None:
    assert named_node(PeerCertificate((GOOD,)), "lingua") == NodeName("acme", "gpu-7")
    prod = PeerCertificate(("spiffe://prod.example/default/node/a.b_c:1",))
    assert named_node(prod, "prod.example") == NodeName("default", "a.b_c:1")


@pytest.mark.parametrize(
    ("uris", "why"),
    [
        ((), "it has no URIs"),
        ((GOOD, "spiffe://lingua/acme/node/gpu-8"), "it has 2 URIs"),
        ((GOOD, GOOD), "it has 2 URIs"),
        (("spiffe://other/acme/node/gpu-7",), "another cluster"),
        (("spiffe://LINGUA/acme/node/gpu-7",), "another cluster"),
        (("spiffe://lingua.evil.example/acme/node/gpu-7",), "another cluster"),
        (("https://lingua/acme/node/gpu-7",), "names no node"),
        (("SPIFFE://lingua/acme/node/gpu-7",), "names no node"),
        (("xspiffe://lingua/acme/node/gpu-7",), "names no node"),
        (("spiffe://lingua/acme/operator/gpu-7",), "names no node"),
        (("spiffe://lingua/acme/node/",), "names no node"),
        (("spiffe://lingua//node/gpu-7",), "names no node"),
        (("spiffe://lingua/*/node/gpu-7",), "names no node"),
        (("spiffe://lingua/acme/node/gpu-7/",), "names no node"),
        (("spiffe://lingua/acme/x/../node/gpu-7",), "names no node"),
        (("spiffe://lingua/acme/node/gpu-7?a=b",), "names no node"),
        (("spiffe://lingua/acme/node/gpu%2d7",), "names no node"),
        (("spiffe://lingua/acme/node/gpu-7\n",), "names no node"),
        (("spiffe://lingua/acme/node/$(id)",), "names no node"),
        (("spiffe://lingua/acme/node/" + "a" * 65,), "names no node"),
        (("",), "names no node"),
    ],
)
def test_any_other_is_refused_with_what_was_expected(uris: tuple[str, ...], why: str) -> None:
    with pytest.raises(BadCertificate, match=why) as refused:
        named_node(PeerCertificate(uris), "lingua")
    assert "spiffe://lingua/TENANT/node/NODE" in str(refused.value)
