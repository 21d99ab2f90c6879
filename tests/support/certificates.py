"""Real certificates for tests: an authority, the files of a server, and the certificates of nodes."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lingua_sdk.tls import ClientTls

HOSTS = ("localhost", "127.0.0.1", "127.0.0.2", "translate.example")
NODE_URI = "spiffe://lingua/default/node/gpu-7"
HOUR = timedelta(hours=1)


class CertFiles(NamedTuple):
    cert: Path
    key: Path


class Authority:
    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.file = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def serve(self, *, until: datetime | None = None, since: datetime | None = None, name: str = "server") -> CertFiles:
        """The files of a server; again with the same name they are replaced, first the certificate."""
        made = self._ca.issue_cert(*HOSTS, not_after=until, not_before=since, key_type=trustme.KeyType.ECDSA)
        chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
        return CertFiles(
            put(self.folder / f"{name}.crt", chain), put(self.folder / f"{name}.key", made.private_key_pem.bytes())
        )

    def node(self, *uris: str, until: datetime | None = None, name: str = "node", is_ca: bool = False) -> CertFiles:
        """The files of a node, whose certificate has these URIs as names."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        authority = x509.load_pem_x509_certificate(self._ca.cert_pem.bytes())
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a node")]))
            .issuer_name(authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, until or now) - HOUR)
            .not_valid_after(until or now + 24 * HOUR)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        )
        if uris:
            names = [x509.UniformResourceIdentifier(uri) for uri in uris]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signing = load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        pem = made.sign(signing, SHA256()).public_bytes(Encoding.PEM)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return CertFiles(put(self.folder / f"{name}.crt", pem), put(self.folder / f"{name}.key", private))

    def trusted(self, shown: CertFiles | None = None) -> ssl.SSLContext:
        """How a peer trusts it, and shows a certificate."""
        cert, key = shown or ("", "")
        return ClientTls(ca=self.file, cert=cert, key=key).context()


def put(path: Path, content: bytes) -> Path:
    """As tools for certificates do: whole, and in place of the file before."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(content)
    draft.chmod(0o600)
    return draft.replace(path)
