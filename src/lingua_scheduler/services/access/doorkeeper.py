"""Decides who a caller is, by the credential that it shows, and whether it may do what it asks for.

It needs no I/O: all credentials are in memory."""

import hmac
from collections.abc import Callable
from typing import Protocol

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.credentials import Credential, first_end
from lingua_scheduler.domain.access.logins import Login
from lingua_scheduler.domain.access.node_certificates import PeerCertificate
from lingua_scheduler.domain.access.principals import (
    ANONYMOUS,
    LOCAL,
    Denied,
    Principal,
    PrincipalKind,
    enrolment_refused,
    holder_of,
    is_same_node,
    token_expired,
    unauthenticated,
)
from lingua_scheduler.domain.access.scopes import OPEN, Needs
from lingua_scheduler.services.access import standing
from lingua_scheduler.services.access.guesses import Guesses, name_of
from lingua_scheduler.services.access.keyholders import misplaced
from lingua_scheduler.services.access.people import People
from lingua_scheduler.services.access.visits import MISSING, Shown, Via, Visit, missing_from
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.errors import ErrorCode, HttpCode
from lingua_sdk.domain.key_texts import BadKey, KeyKind, KeyText, looks_like_a_key, shown

_log = logs.get()

# A URL ends up in logs and histories, so keys that open much have no place in it.
_NOT_IN_QUERY = {KeyKind.OPERATOR: "an operator key", KeyKind.ENROLMENT: "an enrolment key"}
# Of no key: an unknown id takes as long as a wrong secret.
_NO_DIGEST = "0" * 64


class UsedCredentials(standing.KnownCredentials, Protocol):
    def used(self, key_id: str) -> None: ...


class ReadsTokens(Protocol):
    def read(self, text: str, now_ms: int) -> Principal | Denied: ...

    def knows(self, text: str) -> bool: ...


class ReadsCertificates(Protocol):
    def read(self, certificate: PeerCertificate, visit: Visit, now_ms: int) -> Principal | Denied: ...


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
        self._may_be_in_query = settings.query_tokens
        self._wall_ms = wall_ms
        self._guesses = Guesses(clock)
        self.people = People(settings)
        self.logins: KnowsLogins | None = None
        self.certificates: ReadsCertificates | None = None
        # Called for every refusal, with the address and what may be shown of the key.
        self.on_denied: Callable[[str, str], None] = _tell_nobody

    def needs_none(self, visit: Visit) -> bool:
        """Whether the caller may come without a credential."""
        return self._mode == "off" or (self._mode == "auto" and visit.is_local)

    def admit(self, given: Shown | None, visit: Visit, needs: Needs) -> Principal | Denied:
        if needs == OPEN:
            # Also with a credential that has ended: its owner must be able to read why.
            return LOCAL if self.needs_none(visit) else ANONYMOUS
        if visit.certificate is not None:
            principal = self._by_certificate(visit.certificate, given, visit)
        elif given is None and visit.user is None:
            if self.needs_none(visit):
                return LOCAL
            detail = MISSING if self._mode == "required" else missing_from(visit)
            return self._told(Denied(401, HttpCode.UNAUTHENTICATED.value, detail, reason="no credential"), visit)
        elif given is not None and given.via is not Via.COOKIE:
            principal = self._identify(given, visit)
        else:
            principal = self._by_browser(given, visit)
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
        return standing.due_ms(principal, key, self._grace_ms)

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

    def _by_certificate(self, certificate: PeerCertificate, given: Shown | None, visit: Visit) -> Principal | Denied:
        """A key or token beside it must be of the same node. A cookie does not count, which browsers send unasked."""
        if self.certificates is None:
            return self._told(unauthenticated("certificates are not read"), visit)
        found = self.certificates.read(certificate, visit, self._wall_ms())
        if isinstance(found, Denied):
            return self._told(found, visit)
        if given is None or given.via is Via.COOKIE:
            self._book.used(found.key_id)
            return found
        other = self._identify(given, visit)
        if isinstance(other, Denied) or is_same_node(found, other):
            return other
        detail = "the certificate and the credential beside it are of different callers; send one"
        return self._told(Denied(400, ErrorCode.INVALID_MESSAGE.value, detail, reason="two credentials"), visit)

    def _by_browser(self, cookie: Shown | None, visit: Visit) -> Principal | Denied:
        """A login counts before whom the proxy names: people log in to have another role than there."""
        found = unauthenticated("no login") if cookie is None else self._by_login(cookie.text, visit)
        if isinstance(found, Principal):
            return found
        if visit.user is not None:
            by_proxy = self.people.by_proxy(visit.user, self._wall_ms())
            return self._told(by_proxy, visit) if isinstance(by_proxy, Denied) else by_proxy
        # Browsers send cookies by themselves, those of a login that has ended too.
        return LOCAL if self.needs_none(visit) else found

    def _by_login(self, secret: str, visit: Visit) -> Principal | Denied:
        login = self.logins.find(secret) if self.logins is not None else None
        if login is None:
            return self._told(unauthenticated("unknown login"), visit)
        if login.person is not None:
            return self._by_person(login, visit)
        found = self.by_key_id(login.key_id, visit)
        if isinstance(found, Denied):
            return self._told(found, visit, shown(KeyKind.OPERATOR, login.key_id))
        self._book.used(login.key_id)
        ends_ms = first_end(found.expires_ms, login.expires_ms)
        return msgspec.structs.replace(found, login_id=login.id, expires_ms=ends_ms)

    def _by_person(self, login: Login, visit: Visit) -> Principal | Denied:
        found = self.people.by_login(login)
        if found is None:
            return self._told(unauthenticated("the group has no role any more"), visit)
        if reason := standing.objection(self._book, found, self._wall_ms()):
            return self._told(unauthenticated(reason), visit)
        return found

    def _identify(self, given: Shown, visit: Visit) -> Principal | Denied:
        key, fault = None, ""
        if given.via is Via.QUERY and not self._may_be_in_query:
            detail = "a credential must not be in a URL here; send it as a header, or as a WebSocket sub-protocol"
            denied = Denied(401, HttpCode.UNAUTHENTICATED.value, detail, reason="credential in the query")
            return self._told(denied, visit)
        if looks_like_a_key(given.text):
            try:
                key = KeyText.parse(given.text)
            except BadKey as error:
                fault = str(error)
        name, told = self._guess_name(visit, key), shown(key.kind, key.id) if key else ""
        found = self._denied_key(fault) if fault else self._read(given, key, visit, name)
        if isinstance(found, Denied):
            return self._told(self._guesses.counted(found, name), visit, told)
        if found.key_id:
            self._book.used(found.key_id)
        return found

    def _denied_key(self, fault: str) -> Denied:
        """A typing error is told, since the owner of a key can check that without us."""
        denied = unauthenticated(fault)
        return denied._replace(detail="the key has a typing error") if "typing error" in fault else denied

    def _read(self, given: Shown, key: KeyText | None, visit: Visit, name: str) -> Principal | Denied:
        if key is not None:
            return self._by_key(key, given.via, visit)
        if self._tokens is None:
            return unauthenticated("no key, and tokens are not read")
        if not self._tokens.knows(given.text) and (denied := self._guesses.unread(name)):
            return denied
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

    def _guess_name(self, visit: Visit, key: KeyText | None) -> str:
        """Under which a failure is counted; empty if it is not."""
        if visit.is_local and self._mode != "required":
            return ""
        return name_of(visit.address, key.id if key is not None and self._book.find(key.id) is not None else "")


def _tell_nobody(address: str, key_id: str) -> None:
    """Until it is set."""
