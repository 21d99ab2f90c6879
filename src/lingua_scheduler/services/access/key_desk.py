"""Keys, issuers and revocations over the API. An admin of one tenant sees and makes only what is of that tenant.

What is of another tenant is answered like what does not exist."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from lingua_scheduler.domain.access.claims import LEEWAY_MS
from lingua_scheduler.domain.access.credential_sets import TooManyCredentials
from lingua_scheduler.domain.access.credentials import (
    ALL_TENANTS,
    KEEP_ENDED_MS,
    Credential,
    subject_name,
    tenant_name,
    token_name,
)
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.key_wishes import KINDS, IssuerWish, KeyWish, excess, may_see
from lingua_scheduler.domain.access.principals import Denied, Principal, PrincipalKind
from lingua_scheduler.services.access.book import (
    CredentialBook,
    CredentialIdTaken,
    KeyOfFile,
)
from lingua_scheduler.services.access.key_making import BadWish, KeyMaker, issuer_of, key_of, successor_of
from lingua_sdk.domain.errors import ErrorCode, HttpCode
from lingua_sdk.domain.key_texts import KeyText, fresh_key, shown

T = TypeVar("T")

# Keys may have no end, so a tenant's revocation has none either.
NEVER_MS = 10**15 - 1


class CreatedKey(NamedTuple):
    """`text` has the secret: it is shown once and kept nowhere."""

    text: str
    credential: Credential

    def __repr__(self) -> str:
        return f"CreatedKey({self.credential.id})"


class Rotation(NamedTuple):
    created: CreatedKey
    before: Credential


class KeyDesk:
    """Methods that change something raise RedisAway: then the change has been made as a whole, or not at all."""

    def __init__(
        self, book: CredentialBook, max_token_ms: int, wall_ms: Callable[[], int], maker_name: str = ""
    ) -> None:
        self._book = book
        # As lists show it: of a command, which has no credential.
        self._maker_name = maker_name
        self._token_kept_ms = max(KEEP_ENDED_MS, max_token_ms + LEEWAY_MS)
        self._wall_ms = wall_ms

    def now_ms(self) -> int:
        return self._wall_ms()

    def last_used_ms(self, key_id: str) -> int:
        return self._book.last_used_ms(key_id)

    def keys(self, asker: Principal) -> list[Credential]:
        """The oldest first."""
        found = [key for key in self._book.all() if may_see(asker, key.tenant)]
        return sorted(found, key=lambda key: (key.created_ms, key.id))

    def key(self, asker: Principal, key_id: str) -> Credential | Denied:
        found = self._book.find(key_id)
        return found if found is not None and may_see(asker, found.tenant) else _unknown_key(key_id)

    def issuers(self, asker: Principal) -> list[Issuer]:
        found = [issuer for issuer in self._book.issuers() if may_see(asker, issuer.tenant)]
        return sorted(found, key=lambda issuer: (issuer.created_ms, issuer.id))

    async def create(self, asker: Principal, wish: KeyWish, key: KeyText | None = None) -> CreatedKey | Denied:
        """`key` is a fresh one of that kind, for a caller that must know its id before."""
        key = key or fresh_key(KINDS[wish.kind])
        try:
            made = key_of(wish, key, self._maker(asker))
        except BadWish as error:
            return _invalid(str(error))
        if more := _too_much(asker, made, wish.tenant):
            return more
        return await _settled(self._book.add(made)) or CreatedKey(str(key), made)

    async def rotate(
        self, asker: Principal, key_id: str, overlap_ms: int, expires_in_ms: int | None = None
    ) -> Rotation | Denied:
        """Both keys are valid until the overlap is over. By default the later lives as long as the one before."""
        await self._book.refresh()
        before = self.key(asker, key_id)
        if isinstance(before, Denied):
            return before
        if denied := self._not_replaceable(before):
            return denied
        key = fresh_key(before.kind)
        maker = self._maker(asker)
        made = successor_of(before, key, maker, expires_in_ms)
        # The asker gets to know the successor.
        if more := _too_much(asker, made, made.tenant):
            return more
        ends_ms = min(maker.now_ms + overlap_ms, before.expires_ms or NEVER_MS)
        ended = await _settled(self._book.replace(key_id, made, at_ms=ends_ms))
        if ended is None:
            # Another caller was quicker.
            return self._not_replaceable(self._book.find(key_id) or before) or _unknown_key(key_id)
        return ended if isinstance(ended, Denied) else Rotation(CreatedKey(str(key), made), ended)

    async def revoke(self, asker: Principal, key_id: str) -> Credential | Denied:
        """Safe to repeat."""
        await self._book.refresh()
        found = self.key(asker, key_id)
        if isinstance(found, Denied):
            return found
        return await self._book.end(key_id, at_ms=found.revoked_ms or self._wall_ms()) or found

    async def add_issuer(self, asker: Principal, wish: IssuerWish) -> Issuer | Denied:
        try:
            made = issuer_of(wish, self._maker(asker))
        except BadWish as error:
            return _invalid(str(error))
        if more := _too_much(asker, made, wish.tenant):
            return more
        await self._book.refresh()
        if self._book.find(made.id) is not None:
            # A caller is known by the id of its key or issuer alone.
            return _conflict(f"there is a key with the id {made.id}; choose another one")
        return await _settled(self._book.add_issuer(made)) or made

    async def revoke_issuer(self, asker: Principal, issuer_id: str) -> Issuer | Denied:
        await self._book.refresh()
        found = next((one for one in self.issuers(asker) if one.id == issuer_id), None)
        if found is None:
            detail = f"there is no issuer {issuer_id}; GET /v1/issuers lists them"
            return Denied(404, HttpCode.UNKNOWN_ISSUER.value, detail)
        return await self._book.end_issuer(issuer_id, at_ms=found.revoked_ms or self._wall_ms()) or found

    async def void_tenant(self, asker: Principal, tenant: str) -> int | Denied:
        """All keys and tokens of a tenant that were issued until now. Returns that time."""
        return await self._void(asker, tenant, tenant_name(tenant), NEVER_MS)

    async def void_subject(self, asker: Principal, tenant: str, subject: str) -> int | Denied:
        return await self._void(asker, tenant, subject_name(tenant, subject), self._wall_ms() + self._token_kept_ms)

    async def void_token(self, asker: Principal, key_id: str, token_id: str) -> int | Denied:
        """`key_id` is of the key that asked for the token or signed it, or of its issuer; empty if none was needed."""
        await self._book.refresh()
        seen = {*(key.id for key in self.keys(asker)), *(issuer.id for issuer in self.issuers(asker))}
        if key_id and key_id not in seen:
            return _unknown_key(key_id)
        tenant = asker.tenant if key_id or asker.kind is PrincipalKind.LOCAL else ALL_TENANTS
        return await self._void(asker, tenant, token_name(key_id, token_id), self._wall_ms() + self._token_kept_ms)

    async def _void(self, asker: Principal, tenant: str, name: str, until_ms: int) -> int | Denied:
        if not may_see(asker, tenant):
            return _denied(f"this credential is of tenant {asker.tenant} and may revoke nothing of other tenants")
        now_ms = self._wall_ms()
        return await _settled(self._book.void(name, now_ms, until_ms)) or now_ms

    def _maker(self, asker: Principal) -> KeyMaker:
        key = self._book.find(asker.key_id) if asker.key_id else None
        name = self._maker_name or (asker.kind.value if key is None else shown(key.kind, key.id))
        return KeyMaker(name, asker.tenant, self._wall_ms())

    def _not_replaceable(self, key: Credential) -> Denied | None:
        if key.successor:
            return _conflict(f"{key.id} was replaced by {key.successor}; rotate that one")
        if not key.is_live(self._wall_ms()):
            return _conflict(f"{key.id} has ended; create another key")
        if key.public_key:
            return _conflict(f"{key.node_id} signs with a key of its own; ban it, and let it join again")
        return None


async def _settled(change: Awaitable[T]) -> T | Denied:
    try:
        return await change
    except (TooManyCredentials, CredentialIdTaken, KeyOfFile) as error:
        return _conflict(str(error))
    except ValueError as error:
        return _invalid(str(error))


def _too_much(asker: Principal, made: Credential | Issuer, named: str | None) -> Denied | None:
    if made.tenant == ALL_TENANTS and named is None:
        # An operator of all tenants means one of them, unless it says otherwise.
        return _invalid("tenant is missing; a credential for all tenants must name one")
    told = excess(asker, made)
    return _denied(told) if told else None


def _unknown_key(key_id: str) -> Denied:
    return Denied(404, HttpCode.UNKNOWN_KEY.value, f"there is no key {key_id}; GET /v1/keys lists them")


def _denied(detail: str) -> Denied:
    return Denied(403, HttpCode.PERMISSION_DENIED.value, detail)


def _conflict(detail: str) -> Denied:
    return Denied(409, HttpCode.KEY_CONFLICT.value, detail)


def _invalid(detail: str) -> Denied:
    return Denied(400, ErrorCode.INVALID_MESSAGE.value, detail)
