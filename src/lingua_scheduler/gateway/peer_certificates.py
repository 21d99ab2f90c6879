"""Finds the certificate of a caller: of its own TLS connection, or as a trusted proxy forwards it."""

from functools import lru_cache

from aiohttp import web
from cryptography import x509

from lingua_scheduler.domain.access.forwarded_certificates import ForwardedCertificate, read_forwarded
from lingua_scheduler.domain.access.node_certificates import PeerCertificate
from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.setting_sections.server import ServerSettings

HEADER = "X-Forwarded-Client-Cert"
# Each request of an HTTP node brings the same one.
_REMEMBERED = 1024
# Verified by a proxy, and none that names a node.
_NAMELESS = PeerCertificate(())


class PeerCertificates:
    """As for its address, only the peer of the connection itself is asked: any caller can send such a header."""

    def __init__(self, settings: ServerSettings, addresses: AddressBook) -> None:
        self._asks = bool(settings.tls_client_ca_file)
        self._reads_header = settings.client_cert_header
        self._addresses = addresses

    def find(self, request: web.BaseRequest) -> PeerCertificate | None:
        """None if there is none. It was verified, and may still name no node."""
        connection = request.protocol
        if not isinstance(connection, Connection):
            return None
        if self._reads_header and self._addresses.is_proxy(connection.caller.address):
            # The certificate of such a connection is the proxy's own.
            return _forwarded(tuple(request.headers.getall(HEADER, ())))
        tls = connection.transport.get_extra_info("ssl_object") if self._asks and connection.transport else None
        der = tls.getpeercert(binary_form=True) if tls is not None else None
        return _read(der) if der else None


def _forwarded(values: tuple[str, ...]) -> PeerCertificate | None:
    """Several are refused: which of them is the caller's, only the proxies know."""
    try:
        found = read_forwarded(",".join(values)) if values else []
    except ValueError:
        return _NAMELESS
    if len(found) > 1:
        return _NAMELESS
    return _of_proxy(found[0]) if found else None


@lru_cache(_REMEMBERED)
def _of_proxy(told: ForwardedCertificate) -> PeerCertificate:
    if not told.pem:
        return PeerCertificate(tuple(filter(None, told.uris)))
    try:
        return _named(x509.load_pem_x509_certificate(told.pem.encode()))
    except ValueError:
        return _NAMELESS


@lru_cache(_REMEMBERED)
def _read(der: bytes) -> PeerCertificate:
    try:
        return _named(x509.load_der_x509_certificate(der))
    except ValueError:
        return _NAMELESS


def _named(certificate: x509.Certificate) -> PeerCertificate:
    """Raises ValueError. An authority is no node."""
    expires_ms = int(certificate.not_valid_after_utc.timestamp() * 1000)
    try:
        extensions = certificate.extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = tuple(names.get_values_for_type(x509.UniformResourceIdentifier))
    except (x509.ExtensionNotFound, x509.DuplicateExtension):
        return PeerCertificate((), expires_ms)
    try:
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    return PeerCertificate(() if is_authority else uris, expires_ms)
