"""The TLS files of a node or client: what is wrong with them, and that newer ones are used at the next connect."""

from pathlib import Path

import pytest
import trustme

from lingua_sdk.tls import ClientTls, ClientTlsError
from tests.support.certificates import NODE_URI, Authority, put


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_files_are_read_again_only_when_they_have_changed(authority: Authority) -> None:
    files = authority.node(NODE_URI)
    tls = ClientTls(ca=authority.file, cert=files.cert, key=files.key)
    first = tls.context()
    assert tls.context() is first
    assert first.cert_store_stats()["x509_ca"] == 1, "the system's are not trusted beside it"
    authority.node(NODE_URI)
    assert tls.context() is not first


def test_a_certificate_and_its_key_may_be_in_one_file(authority: Authority) -> None:
    files = authority.node(NODE_URI)
    both = put(authority.folder / "both.pem", files.cert.read_bytes() + files.key.read_bytes())
    assert ClientTls(cert=both).context() is not None
    assert ClientTls(cert=both).has_certificate
    assert not ClientTls(ca=authority.file).has_certificate


def test_what_is_wrong_is_told_with_the_name_of_the_file(authority: Authority) -> None:
    good, other = authority.node(NODE_URI), authority.node(NODE_URI, name="other")
    rubbish = put(authority.folder / "rubbish.pem", b"rubbish")
    encrypted = put(authority.folder / "encrypted.key", _encrypted())
    for tls, why in (
        (ClientTls(ca=authority.folder / "none.pem"), "none.pem cannot be used: No such file"),
        (ClientTls(ca=rubbish), "rubbish.pem cannot be used: it is not PEM"),
        (ClientTls(cert=rubbish), "rubbish.pem cannot be used: it is not PEM"),
        (ClientTls(cert=good.cert, key=other.key), "other.key cannot be used: the key does not belong"),
        (ClientTls(cert=good.cert, key=encrypted), "encrypted.key cannot be used: it is not PEM, or has a passphrase"),
    ):
        with pytest.raises(ClientTlsError, match=why):
            tls.context()
    with pytest.raises(ValueError, match="needs the certificate"):
        ClientTls(key=good.key)


def _encrypted() -> bytes:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    pem = trustme.CA().issue_cert("x.example").private_key_pem.bytes()
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
