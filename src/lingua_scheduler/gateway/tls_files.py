"""The files of a TLS listener, which may change while it runs: certificate, key, and authorities of nodes."""

import asyncio
import os
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, NoReturn

from cryptography import x509

from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

LOOK_S = 5.0
MAX_BYTES = 1_048_576
# An alarm is raised when so much of a certificate's life is left; of one that lives for months, so many days.
SOON_SHARE = 1 / 3
SOON_S = 14 * 86_400
_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")
_RELOADS = metrics.by(metrics.TLS_RELOADS, "loaded", "failed")

Signature = tuple[tuple[int, ...], ...]


class TlsFilesError(Exception):
    """The files cannot be used. The message tells the operator what to do, and never what the key is."""


class _Loaded(NamedTuple):
    context: ssl.SSLContext
    expires_s: float
    # From then on its end is soon.
    alarm_s: float


class TlsFiles:
    """`load` before use. Connections keep the context that they began with."""

    def __init__(self, settings: ServerSettings, wall_s: Callable[[], float]) -> None:
        self._cert, self._key = Path(settings.tls_cert_file).expanduser(), Path(settings.tls_key_file).expanduser()
        self._client_ca = Path(settings.tls_client_ca_file).expanduser() if settings.tls_client_ca_file else None
        self._wall_s = wall_s
        self._loaded: _Loaded | None = None
        self._seen: Signature = ()
        # Of files that could not be used at the last look, and of those of which that was told.
        self._refused: Signature = ()
        self._told: Signature = ()
        # Why the files that are there now are not in use; empty if they are.
        self.failure = ""

    def load(self) -> None:
        """Raises TlsFilesError."""
        seen = self._signature()
        self._take(self._load(), seen)

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        assert self._loaded is not None
        return self._loaded.context

    @property
    def ends_soon_ms(self) -> int:
        """When the certificate expires, if that is soon; else 0."""
        loaded = self._loaded
        return int(loaded.expires_s * 1000) if loaded is not None and self._wall_s() >= loaded.alarm_s else 0

    async def look(self, *, is_asked: bool = False) -> None:
        """Load the files if they have changed. What cannot be used leaves the present ones in use.

        A certificate and its key are replaced one after the other, so a failure counts when it is there at two looks,
        or when an operator `is_asked` for it."""
        seen = await asyncio.to_thread(self._signature)
        if seen == self._seen and not is_asked:
            self.failure, self._refused, self._told = "", (), ()
            return
        if seen == self._told and not is_asked:
            return
        try:
            loaded = await asyncio.to_thread(self._load)
        except TlsFilesError as error:
            if is_asked or seen == self._refused:
                self.failure, self._told = str(error), seen
                _RELOADS["failed"].inc()
                _log.error("tls.unusable", reason=self.failure, note="the certificate loaded before stays in use")
            self._refused = seen
            return
        self._take(loaded, seen)
        _RELOADS["loaded"].inc()
        _log.info("tls.loaded", expires=_shown(loaded.expires_s))

    def _take(self, loaded: _Loaded, seen: Signature) -> None:
        self._loaded, self._seen = loaded, seen
        self.failure, self._refused, self._told = "", (), ()
        metrics.TLS_EXPIRES.set(loaded.expires_s)

    def _signature(self) -> Signature:
        """What changes with the files; links are followed, because tools that renew certificates turn them."""
        found = []
        for path in (self._cert, self._key, self._client_ca):
            try:
                about = path.stat() if path is not None else None
            except OSError:
                about = None
            found.append(() if about is None else (about.st_dev, about.st_ino, about.st_mode, *_times(about)))
        return tuple(found)

    def _load(self) -> _Loaded:
        leaf = self._certificate()
        now_s = self._wall_s()
        begins_s, expires_s = leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()
        if expires_s <= now_s:
            _refuse(self._cert, "server.tls_cert_file", f"the certificate expired {_shown(expires_s)}; renew it")
        if begins_s > now_s:
            wrong = f"the certificate is not valid before {_shown(begins_s)}; check the clock"
            _refuse(self._cert, "server.tls_cert_file", wrong)
        context = _context()
        self._add_key(context)
        if self._client_ca is not None:
            self._add_authorities(context, self._client_ca)
        soon_s = min(SOON_S, (expires_s - begins_s) * SOON_SHARE)
        return _Loaded(context, expires_s, expires_s - soon_s)

    def _certificate(self) -> x509.Certificate:
        body = _read(self._cert, "server.tls_cert_file")
        try:
            return x509.load_pem_x509_certificates(body)[0]
        except ValueError:
            _refuse(self._cert, "server.tls_cert_file", "it has no certificate in PEM form")

    def _add_key(self, context: ssl.SSLContext) -> None:
        name = "server.tls_key_file"
        try:
            mode = self._key.stat().st_mode
        except OSError as error:
            _refuse(self._key, name, f"{error.strerror}")
        if mode & stat.S_IRWXO:
            _refuse(self._key, name, f"other users can read or write it; run chmod o= {self._key}")

        def password() -> NoReturn:
            _refuse(self._key, name, "the key has a passphrase; write it without one: openssl pkey -in … -out …")

        try:
            context.load_cert_chain(self._cert, self._key, password)
        except ssl.SSLError as error:
            if error.reason in _MISMATCHES:
                wrong = f"the key does not belong to the certificate in {self._cert} (server.tls_cert_file)"
                _refuse(self._key, name, wrong)
            _refuse(self._key, name, f"it has no key that can be used ({error.reason or 'not PEM'})")
        except OSError as error:
            _refuse(self._key, name, f"{error.strerror}")

    def _add_authorities(self, context: ssl.SSLContext, path: Path) -> None:
        name = "server.tls_client_ca_file"
        _read(path, name)
        try:
            context.load_verify_locations(cafile=path)
        except ssl.SSLError:
            _refuse(path, name, "it has no certificate in PEM form")
        except OSError as error:
            _refuse(path, name, f"{error.strerror}")
        # Browsers and apps have none.
        context.verify_mode = ssl.CERT_OPTIONAL


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client could have us compute signatures again and again on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _read(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError as error:
        _refuse(path, name, f"{error.strerror}")


def _refuse(path: Path, name: str, why: str) -> NoReturn:
    raise TlsFilesError(f"{path} ({name}) cannot be used: {why}") from None


def _times(about: os.stat_result) -> tuple[int, ...]:
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _shown(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
