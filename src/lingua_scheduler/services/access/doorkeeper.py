"""Decides who a caller is, by the credential that it shows, and whether it may do what it asks for.

It needs no I/O: all credentials are in memory."""

import hmac
from collections.abc import Callable
from enum import StrEnum, auto
from typing import NamedTuple, Protocol

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.credentials import Credential, first_end
from lingua_scheduler.domain.access.key_texts import BadKey, KeyKind, KeyText, looks_like_a_key, shown
from lingua_scheduler.domain.access.logins import Login
from lingua_scheduler.domain.access.principals import (
    ANONYMOUS,
    LOCAL,
    Denied,
    Principal,
    PrincipalKind,
    enrolment_refused,
    holder_of,
    token_expired,
    unauthenticated,
)
from lingua_scheduler.domain.access.scopes import OPEN, Needs
from lingua_scheduler.domain.errors import HttpCode
from lingua_scheduler.domain.guards.addresses import meter_of, read_address
from lingua_scheduler.domain.guards.origins import is_loopback
from lingua_scheduler.domain.guards.penalties import Penalties
from lingua_scheduler.services.access import standing
from lingua_scheduler.services.access.keyholders import misplaced
from lingua_scheduler.settings import AuthSettings
from lingua_scheduler.telemetry import logs

_log = logs.get()

# A URL ends up in logs and histories, so keys that open much have no place in it.
_NOT_IN_QUERY = {KeyKind.OPERATOR: "an operator key", KeyKind.ENROLMENT: "an enrolment key"}
# Of no key: an unknown id takes as long as a wrong secret.
_NO_DIGEST = "0" * 64
_MISSING = "a credential is required; send a key or a token as Authorization: Bearer, or in the URL as access_token"
_NOT_LOCAL = f"{_MISSING}. On loopback none is required without a proxy, at a loopback name and from own pages"


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
    FRAME = auto()


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


class KnowsLogins(Protocol):
    def is_forgotten(self, secret: str) -> bool: ...

    async def recall(self, secret: str) -> None: ...

    def find(self, secret: str) -> Login | None: ...

    def is_open(self, login_id: str) -> bool: ...


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
        self.logins: KnowsLogins | None = None
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
        if given.via is Via.COOKIE:
            principal = self._by_login(given.text, visit)
            if isinstance(principal, Denied) and self.needs_none(visit):
                # Browsers send cookies by themselves, those of a login that has ended too.
                return LOCAL
        else:
            principal = self._identify(given, visit)
        if isinstance(principal, Principal) and not principal.may(needs):
            scopes = " or ".join(scope.value for scope in needs)
            detail = f"the credential lacks the scope {scopes}"
            denied = Denied(403, HttpCode.PERMISSION_DENIED.value, detail, reason="scope")
            return self._told(denied, visit, principal.key_id)
        return principal

    def renew(self, principal: Principal, token: str, visit: Visit, needs: Needs) -> Principal | Denied:
        """Who a caller that stays is by its newer token, which must be of the same user."""
        if looks_like_a_key(token):
            return self._told(unauthenticated("a key in place of a newer token"), visit, principal.key_id)
        found = self.admit(Shown(token, Via.FRAME), visit, needs)
        if isinstance(found, Principal) and found.owner != principal.owner:
            return self._told(unauthenticated("a newer token of another user"), visit, principal.key_id)
        return found

    def objection(self, principal: Principal) -> Denied | None:
        """Why a connection that was admitted must end now. One whose credential has expired may go on for a while."""
        if not principal.key_id and not principal.expires_ms:
            return None
        if reason := standing.objection(self._book, principal, now_ms=0):
            return unauthenticated(reason)
        if principal.login_id and (self.logins is None or not self.logins.is_open(principal.login_id)):
            return unauthenticated("login ended")
        due_ms = self.due_ms(principal)
        return token_expired() if due_ms and due_ms <= self._wall_ms() else None

    def due_ms(self, principal: Principal) -> int:
        """When a connection must end because its credential has expired; 0 = never."""
        key = self._book.find(principal.key_id) if principal.key_id else None
        ends = [ms for ms in (principal.expires_ms, key.expires_ms if key is not None else 0) if ms]
        # People log in again, and lose nothing by that.
        grace_ms = 0 if principal.login_id else self._grace_ms
        return min(ends) + grace_ms if ends else 0

    def now_ms(self) -> int:
        return self._wall_ms()

    def has_forgotten(self, given: Shown | None) -> bool:
        """Whether to `recall` it before `admit`: a login that was not used here for a while."""
        return (
            given is not None
            and given.via is Via.COOKIE
            and self.logins is not None
            and self.logins.is_forgotten(given.text)
        )

    async def recall(self, given: Shown) -> None:
        if self.logins is not None:
            await self.logins.recall(given.text)

    def by_key_id(self, key_id: str, visit: Visit) -> Principal | Denied:
        """Of a key that was checked some time ago."""
        credential = self._book.find(key_id)
        return unauthenticated("unknown key") if credential is None else self._standing(credential, visit)

    def _by_login(self, secret: str, visit: Visit) -> Principal | Denied:
        login = self.logins.find(secret) if self.logins is not None else None
        if login is None:
            return self._told(unauthenticated("unknown login"), visit)
        found = self.by_key_id(login.key_id, visit)
        if isinstance(found, Denied):
            return self._told(found, visit, shown(KeyKind.OPERATOR, login.key_id))
        self._book.used(login.key_id)
        ends_ms = first_end(found.expires_ms, login.expires_ms)
        return msgspec.structs.replace(found, login_id=login.id, expires_ms=ends_ms)

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
            # An expired one is no guess: pages go on sending theirs for hours, and others share their address.
            if name and found.code == HttpCode.UNAUTHENTICATED:
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
        found = self._tokens.read(given.text, self._wall_ms())
        if isinstance(found, Principal) and found.kind is PrincipalKind.NODE:
            # A node signs its tokens itself, so that what its credential restricts is not in them.
            credential = self._book.find(found.key_id)
            return (credential and misplaced(credential, visit.address, visit.origin)) or found
        return found

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
        return self._standing(credential, visit)

    def _standing(self, credential: Credential, visit: Visit) -> Principal | Denied:
        if credential.revoked_ms:
            if credential.kind is KeyKind.ENROLMENT:
                return enrolment_refused("the enrolment key was revoked; ask for another")
            return unauthenticated("key revoked")
        if not credential.is_live(self._wall_ms()):
            if credential.kind is KeyKind.ENROLMENT:
                return enrolment_refused("the enrolment key has expired or was used up; ask for another")
            expired = "the key has expired; get a newer one"
            return Denied(401, HttpCode.TOKEN_EXPIRED.value, expired, reason="key expired")
        principal = holder_of(credential)
        if reason := standing.objection(self._book, principal, self._wall_ms()):
            return unauthenticated(reason)
        return misplaced(credential, visit.address, visit.origin) or principal

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


def _tell_nobody(address: str, key_id: str) -> None:
    """Until it is set."""
