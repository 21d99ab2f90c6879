"""X-Forwarded-Client-Cert: how a proxy that ended TLS tells of the caller's certificate, in Envoy's format."""

import re
from typing import NamedTuple
from urllib.parse import unquote

_FIELD = re.compile(r'\s*([A-Za-z]+)=("(?:[^"\\]|\\.)*"|[^",;]*)\s*([;,]|\Z)')
_ESCAPED = re.compile(r"\\(.)")


class ForwardedCertificate(NamedTuple):
    """`pem` is the certificate itself, if the proxy sends it; else there are its URIs alone."""

    pem: str = ""
    uris: tuple[str, ...] = ()


def read_forwarded(text: str) -> list[ForwardedCertificate]:
    """One for each proxy that added its caller's. Raises ValueError. An empty value, as of a variable that is not set,
    is no certificate."""
    found, fields = list[ForwardedCertificate](), list[tuple[str, str]]()
    at = 0
    while at < len(text):
        field = _FIELD.match(text, at)
        if field is None:
            raise ValueError("malformed X-Forwarded-Client-Cert")
        fields.append((field[1].lower(), _plain(field[2])))
        at = field.end()
        if field[3] != ";":
            found.append(_certificate(fields))
            fields = []
    if fields:
        found.append(_certificate(fields))
    return [one for one in found if one != ForwardedCertificate()]


def _certificate(fields: list[tuple[str, str]]) -> ForwardedCertificate:
    pem = "".join(unquote(value) for name, value in fields if name == "cert")
    uris = tuple(unquote(value) for name, value in fields if name == "uri" and value)
    # A hash or a subject alone also says that there is a certificate, and that it names no node.
    has_other = any(value for name, value in fields if name in ("hash", "subject"))
    return ForwardedCertificate(pem, uris or (("",) if has_other and not pem else ()))


def _plain(value: str) -> str:
    return _ESCAPED.sub(r"\1", value[1:-1]) if value.startswith('"') else value
