"""X-Forwarded-Client-Cert as Envoy and nginx write it, and as an attacker would."""

from urllib.parse import quote

import pytest

from lingua_scheduler.domain.access.forwarded_certificates import ForwardedCertificate, read_forwarded

URI = "spiffe://lingua/acme/node/gpu-7"
PEM = "-----BEGIN CERTIFICATE-----\nAb+/=\n-----END CERTIFICATE-----\n"
NAMELESS = ForwardedCertificate(uris=("",))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"URI={URI}", [ForwardedCertificate(uris=(URI,))]),
        (
            f'By=spiffe://lingua/proxy;Hash=468ed33;Subject="/C=US/CN=a, \\"b\\"; c";URI={URI};DNS=x.example',
            [ForwardedCertificate(uris=(URI,))],
        ),
        (f"uri={URI};URI=spiffe://other/x", [ForwardedCertificate(uris=(URI, "spiffe://other/x"))]),
        (f'Hash=1;Cert="{quote(PEM)}"', [ForwardedCertificate(pem=PEM)]),
        (f"URI={URI},URI={URI}", [ForwardedCertificate(uris=(URI,))] * 2),
        ("Hash=468ed33", [NAMELESS]),
        ('Subject="CN=node";URI=', [NAMELESS]),
        # nginx, without a certificate.
        ('Cert=""', []),
        ("", []),
        (" ", []),
        ("By=spiffe://lingua/proxy", []),
    ],
)
def test_what_a_proxy_tells(text: str, found: list[ForwardedCertificate]) -> None:
    assert read_forwarded(text.strip()) == found


@pytest.mark.parametrize("text", [URI, "URI", 'Cert="unfinished', f'"URI={URI}"', ";;", "=x", 'Subject="a"b'])
def test_what_is_malformed_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="malformed"):
        read_forwarded(text)


@pytest.mark.parametrize("text", ['Subject="' + "\\" * 8_001, 'A="' + '"' * 8_000, "URI=a;" * 1_300 + "!"])
def test_a_long_malformed_header_is_read_once(text: str) -> None:
    with pytest.raises(ValueError, match="malformed"):
        read_forwarded(text)
