"""TLS of a node or a client: a private authority to trust, and a certificate of its own to show."""

import functools
import os
import ssl
from pathlib import Path
from typing import NoReturn

Signature = tuple[tuple[int, ...], ...]


class ClientTlsError(OSError):
    """A file cannot be used. The message names it."""


class ClientTls:
    """Paths of PEM files. `ca` replaces the authorities of the system; `cert` and `key` may be in one file.

    They are read again at the next connect after they have changed, so short-lived certificates need no restart.
    """

    def __init__(self, *, ca: str | Path = "", cert: str | Path = "", key: str | Path = "") -> None:
        if key and not cert:
            raise ValueError("a key needs the certificate that it belongs to")
        self._ca, self._cert, self._key = (Path(path).expanduser() if path else None for path in (ca, cert, key))
        self._made: ssl.SSLContext | None = None
        self._seen: Signature = ()

    @property
    def has_certificate(self) -> bool:
        return self._cert is not None

    def context(self) -> ssl.SSLContext:
        """Raises ClientTlsError."""
        seen = self._signature()
        if self._made is None or seen != self._seen:
            self._made, self._seen = self._make(), seen
        return self._made

    def _make(self) -> ssl.SSLContext:
        try:
            made = ssl.create_default_context(cafile=self._ca)
        except OSError as error:
            _refuse(self._ca, error)
        if self._cert is not None:
            try:
                # Without this function the library would ask at the terminal.
                made.load_cert_chain(self._cert, self._key, password=lambda: "")
            except OSError as error:
                _refuse(self._key or self._cert, error)
        return made

    def _signature(self) -> Signature:
        found = []
        for path in (self._ca, self._cert, self._key):
            if path is not None:
                try:
                    about = path.stat()
                except OSError as error:
                    _refuse(path, error)
                found.append((about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns))
        return tuple(found)


def system_context() -> ssl.SSLContext:
    """Trusts the authorities of the system, or those in SSL_CERT_FILE."""
    return _system_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.lru_cache(maxsize=4)
def _system_context(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    # To read all authorities takes long, and the parameters are those of the environment that decide which.
    return ssl.create_default_context()


def _refuse(path: Path | None, error: OSError) -> NoReturn:
    why = error.strerror or "it is not PEM"
    if isinstance(error, ssl.SSLError):
        is_other = "MISMATCH" in (error.reason or "")
        why = "the key does not belong to the certificate" if is_other else "it is not PEM, or has a passphrase"
    raise ClientTlsError(f"{path} cannot be used: {why}") from None
