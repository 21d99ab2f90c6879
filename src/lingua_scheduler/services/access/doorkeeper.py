"""Decides who a caller is, by the credential that it shows, and whether it may do what it asks for.

It needs no I/O: all credentials are in memory."""

import hmac
from collections.abc import Callable
from enum import StrEnum, auto
from functools import lru_cache
from typing import NamedTuple, Protocol

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.key_texts import BadKey, KeyKind, KeyText, looks_like_a_key, shown
from lingua_scheduler.domain.access.principals import (
    ANONYMOUS,
    LOCAL,
    Denied,
    Principal,
    PrincipalKind,
    token_expired,
    unauthenticated,
)
from lingua_scheduler.domain.access.scopes import OPEN, Needs
from lingua_scheduler.domain.errors import HttpCode
from lingua_scheduler.domain.guards.addresses import Network, meter_of, read_address, read_networks
from lingua_scheduler.domain.guards.origins import Origin, is_loopback, read_origin
from lingua_scheduler.domain.guards.penalties import Penalties
from lingua_scheduler.services.access import standing
from lingua_scheduler.settings import AuthSettings
from lingua_scheduler.telemetry import logs

_log = logs.get()

_KIND = {
    KeyKind.CLIENT: PrincipalKind.CLIENT,
    KeyKind.SERVICE: PrincipalKind.SERVICE,
    KeyKind.NODE: PrincipalKind.NODE,
    KeyKind.ENROLMENT: PrincipalKind.NODE,
    KeyKind.OPERATOR: PrincipalKind.OPERATOR,
    KeyKind.METRICS: PrincipalKind.METRICS,
}
# A URL ends up in logs and histories, so keys that open much have no place in it.
_NOT_IN_QUERY = {KeyKind.OPERATOR: "an operator key", KeyKind.ENROLMENT: "an enrolment key"}
# Of no key: an unknown id takes as long as a wrong secret.
_NO_DIGEST = "0" * 64
_MISSING = "a credential is required; send a key or a token as Authorization: Bearer, or in the URL as access_token"
_NOT_LOCAL = f"{_MISSING}. None is required without a proxy, at a loopback name and from pages of this computer"
_REMEMBERED = 256


class NoKeys(Exception):
    """No caller could come in: credentials are required, and none is known."""


def require_keys(settings: AuthSettings, host: str, *, has_none: bool) -> None:
    """Raises NoKeys. Without any key a credential is still required."""
    if not has_none or settings.mode == "off" or (settings.mode == "auto" and is_loopback(host)):
        return
    why = "auth.mode is required" if settings.mode == "required" else f"server.host is {host}"
    raise NoKeys(f"{why} and no key exists: lingua keys create --admin, or --set auth.mode=off to let every caller in")


class Via(StrEnum):
    """Where in a request the credential was."""

    HEADER = auto()
    SUBPROTOCOL = auto()
    QUERY = auto()
    COOKIE = auto()


class Shown(NamedTuple):
    text: str
    via: Via

    def __repr__(self) -> str:
        """Without the text: a traceback may show it."""
        return f"Shown(via={self.via})"


class Visit(NamedTuple):
    """`is_local`: from this computer, to a scheduler that only listens there, and not through a proxy."""

    address: str
    origin: str | None
    is_local: bool


class UsedCredentials(standing.KnownCredentials, Protocol):
    def used(self, key_id: str) -> None: ...


class ReadsTokens(Protocol):
    def read(self, text: str, now_ms: int) -> Principal | Denied: ...


class Doorkeeper:
    """`wall_ms` is the time of day; `clock` measures the pause after too many failures."""

    def __init__(
        self,
        book: UsedCredentials,
        tokens: ReadsTokens | None,
        settings: AuthSettings,
        wall_ms: Callable[[], int],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._book = book
        self._tokens = tokens
        self._mode = settings.mode
        self._grace_ms = settings.expired_grace_ms
        self._wall_ms = wall_ms
        self._clock = clock
        self._penalties = Penalties()
        # Called for every refusal, with the address and what may be shown of the key.
        self.on_denied: Callable[[str, str], None] = _tell_nobody

    def needs_none(self, visit: Visit) -> bool:
        """Whether the caller may come without a credential."""
        return self._mode == "off" or (self._mode == "auto" and visit.is_local)

    def admit(self, given: Shown | None, visit: Visit, needs: Needs) -> Principal | Denied:
        if needs == OPEN:
            # Also with a credential that has ended: its owner must be able to read why.
            return LOCAL if self.needs_none(visit) else ANONYMOUS
        if given is None:
            if self.needs_none(visit):
                return LOCAL
            detail = _NOT_LOCAL if self._mode == "auto" and is_loopback(visit.address) else _MISSING
            return self._told(Denied(401, HttpCode.UNAUTHENTICATED.value, detail, reason="no credential"), visit)
        principal = self._identify(given, visit)
        if isinstance(principal, Principal) and not principal.may(needs):
            scopes = " or ".join(scope.value for scope in needs)
            detail = f"the credential lacks the scope {scopes}"
            denied = Denied(403, HttpCode.PERMISSION_DENIED.value, detail, reason="scope")
            return self._told(denied, visit, principal.key_id)
        return principal

    def objection(self, principal: Principal) -> Denied | None:
        """Why a connection that was admitted must end now. One whose credential has expired may go on for a while."""
        if not principal.key_id and not principal.expires_ms:
            return None
        if reason := standing.objection(self._book, principal, now_ms=0):
            return unauthenticated(reason)
        due_ms = self.due_ms(principal)
        return token_expired() if due_ms and due_ms <= self._wall_ms() else None

    def due_ms(self, principal: Principal) -> int:
        """When a connection must end because its credential has expired; 0 = never."""
        key = self._book.find(principal.key_id) if principal.key_id else None
        ends = [ms for ms in (principal.expires_ms, key.expires_ms if key is not None else 0) if ms]
        return min(ends) + self._grace_ms if ends else 0

    def now_ms(self) -> int:
        return self._wall_ms()

    def _identify(self, given: Shown, visit: Visit) -> Principal | Denied:
        key: KeyText | None = None
        fault = ""
        if looks_like_a_key(given.text):
            try:
                key = KeyText.parse(given.text)
            except BadKey as error:
                fault = str(error)
        name = self._penalty_name(visit, key)
        if name and (wait_s := self._penalties.wait_s(name, self._clock())):
            detail = "too many wrong credentials from this address; try again later"
            denied = Denied(429, HttpCode.RATE_LIMITED.value, detail, int(wait_s) + 1, reason="too many failures")
            return self._told(denied, visit, shown(key.kind, key.id) if key else "")
        found = self._denied_key(fault) if fault else self._read(given, key, visit)
        if isinstance(found, Denied):
            if name and found.status == 401:
                self._penalties.failed(name, self._clock())
            return self._told(found, visit, shown(key.kind, key.id) if key else "")
        if found.key_id:
            self._book.used(found.key_id)
        return found

    def _denied_key(self, fault: str) -> Denied:
        """A typing error is told, since the owner of a key can check that without us."""
        denied = unauthenticated(fault)
        return denied._replace(detail="the key has a typing error") if "typing error" in fault else denied

    def _read(self, given: Shown, key: KeyText | None, visit: Visit) -> Principal | Denied:
        if key is not None:
            return self._by_key(key, given.via, visit)
        if self._tokens is None:
            return unauthenticated("no key, and tokens are not read")
        return self._tokens.read(given.text, self._wall_ms())

    def _by_key(self, key: KeyText, via: Via, visit: Visit) -> Principal | Denied:
        if via is Via.QUERY and key.kind in _NOT_IN_QUERY:
            detail = f"{_NOT_IN_QUERY[key.kind]} must not be in a URL, where logs show it; send it as a header"
            return Denied(401, HttpCode.UNAUTHENTICATED.value, detail, reason="key in the query")
        credential = self._book.find(key.id)
        digest = _NO_DIGEST if credential is None else credential.digest
        is_right = hmac.compare_digest(digest, key.digest)
        if credential is None:
            return unauthenticated("unknown key")
        if not is_right or credential.kind is not key.kind:
            return unauthenticated("wrong secret")
        if credential.revoked_ms:
            return unauthenticated("key revoked")
        if not credential.is_live(self._wall_ms()):
            expired = "the key has expired; get a newer one"
            return Denied(401, HttpCode.TOKEN_EXPIRED.value, expired, reason="key expired")
        principal = _principal(credential)
        if reason := standing.objection(self._book, principal, self._wall_ms()):
            return unauthenticated(reason)
        return _misplaced(credential, visit) or principal

    def _told(self, denied: Denied, visit: Visit, key_id: str = "") -> Denied:
        _log.warning("door.denied", reason=denied.reason, key_id=key_id, address=visit.address)
        self.on_denied(visit.address, key_id)
        return denied

    def _penalty_name(self, visit: Visit, key: KeyText | None) -> str:
        """Under which failures are counted: a key and an address. Other addresses can still use the key, and other keys
        the address."""
        if visit.is_local and self._mode != "required":
            return ""
        address = read_address(visit.address)
        meter = visit.address if address is None else meter_of(address)
        return f"{meter} {key.id}" if key is not None and self._book.find(key.id) is not None else f"{meter} "


def _principal(credential: Credential) -> Principal:
    return Principal(
        kind=_KIND[credential.kind],
        scopes=credential.scopes,
        tenant=credential.tenant,
        key_id=credential.id,
        issued_ms=credential.created_ms,
        expires_ms=credential.expires_ms,
        act_for=credential.act_for,
        node_id=credential.node_id,
        max_slots=credential.max_slots,
        pairs=credential.pairs,
    )


def _misplaced(credential: Credential, visit: Visit) -> Denied | None:
    """A right key in the wrong place."""
    if credential.networks and not _is_in(visit.address, credential.networks):
        detail = f"this key may not be used from {visit.address}"
        return Denied(403, HttpCode.PERMISSION_DENIED.value, detail, reason="network")
    if credential.kind is KeyKind.CLIENT and credential.origins:
        origin = read_origin(visit.origin) if visit.origin else None
        if origin is None or origin not in _read_origins(credential.origins):
            detail = "this key may not be used by this page; its origin is not one of the key's"
            return Denied(403, HttpCode.ORIGIN_NOT_ALLOWED.value, detail, reason="origin")
    return None


def _is_in(address: str, networks: tuple[str, ...]) -> bool:
    found = read_address(address)
    return found is not None and any(found in network for network in _read_networks(networks))


@lru_cache(_REMEMBERED)
def _read_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return read_networks(texts)
    except ValueError:
        return ()  # from nowhere, rather than from everywhere


@lru_cache(_REMEMBERED)
def _read_origins(texts: tuple[str, ...]) -> frozenset[Origin]:
    return frozenset(origin for text in texts if (origin := read_origin(text)) is not None)


def _tell_nobody(address: str, key_id: str) -> None:
    """Until it is set."""
