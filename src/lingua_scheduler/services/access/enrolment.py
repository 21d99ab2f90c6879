"""Lets nodes join with an enrolment key, and operators approve and ban them."""

import secrets
from collections.abc import Awaitable, Callable

import msgspec

from lingua_scheduler.domain.access.credential_sets import CredentialSet
from lingua_scheduler.domain.access.credentials import ALL_TENANTS, Credential
from lingua_scheduler.domain.access.enrolment import (
    EnrolmentRefused,
    Newcomer,
    NodeIdTaken,
    after,
    credential_for,
    joined_before,
    may_join,
)
from lingua_scheduler.domain.access.principals import Principal, PrincipalKind, holder_of
from lingua_scheduler.domain.nodes.nodes import NodeClaimOutcome
from lingua_scheduler.services.access.book import CredentialBook
from lingua_scheduler.store.nodes.claims import NodeClaims
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.key_texts import KeyKind, fresh_key, shown

_log = logs.get()

ABSENT_MS = 600_000
# Of the ended credentials of a node, the latest is the one that its id may still belong to.
MAX_FORMER = 4


class Enrolment:
    def __init__(self, book: CredentialBook, claims: NodeClaims, wall_ms: Callable[[], int]) -> None:
        self._book = book
        self._wall_ms = wall_ms
        self._claims = claims

    async def enrol(self, key_id: str, public_key: str, node_id: str = "") -> Credential:
        """A credential for the node; the same if it asks again. Raises EnrolmentRefused, NodeIdTaken, RedisAway."""
        made = fresh_key(KeyKind.NODE)
        newcomer = Newcomer(public_key, node_id or f"node-{secrets.token_hex(4).upper()}")
        found = self._decide(key_id, newcomer)
        if found is None:
            new = credential_for(self._key(key_id), newcomer, made, self._wall_ms())
            if not await self._claims_id(new):
                raise NodeIdTaken(f"{newcomer.node_id} belongs to another credential; choose another id")

            def change() -> CredentialSet:
                # Decided on what Redis has now: of many that ask at once, as many join as the key allows.
                nonlocal found
                found = self._decide(key_id, newcomer)
                if found is not None:
                    return CredentialSet()
                key, known, now_ms = self._key(key_id), self._book.all(), self._wall_ms()
                used = after(key, known, now_ms)
                ended = {} if used == key or self._book.is_of_file(key_id) else {key_id: used}
                return CredentialSet(ended | {new.id: new})

            await self._book.change(change)
            if found is None:
                _log.info(
                    "node.joined", node_id=newcomer.node_id, key_id=shown(KeyKind.NODE, new.id), enrolled_with=key_id
                )
                return new
        return found

    async def approve(self, operator: Principal, node_id: str) -> Credential | None:
        """None if no such node has joined. Safe to repeat."""

        def change() -> CredentialSet:
            now_ms = self._wall_ms()
            pending = [one for one in self.of_node(operator, node_id) if one.is_pending]
            return CredentialSet({one.id: msgspec.structs.replace(one, approved_ms=now_ms) for one in pending})

        await self._book.change(change)
        return next(iter(self.of_node(operator, node_id)), None)

    async def ban(self, operator: Principal, node_id: str) -> list[Credential]:
        """End all credentials of a node; those that were valid."""
        found = self.of_node(operator, node_id)
        for one in found:
            await self._book.end(one.id, at_ms=self._wall_ms())
        return found

    def of_node(self, operator: Principal, node_id: str) -> list[Credential]:
        return [one for one in self.nodes(operator) if one.node_id == node_id]

    def nodes(self, operator: Principal) -> list[Credential]:
        """Valid credentials of nodes, as far as the operator may see them; those to approve come first."""
        now_ms = self._wall_ms()
        found = [one for one in self._book.all() if one.kind is KeyKind.NODE and one.is_live(now_ms)]
        seen = [one for one in found if _sees(operator, one)]
        return sorted(seen, key=lambda one: (not one.is_pending, one.node_id, one.id))

    def _key(self, key_id: str) -> Credential:
        key = self._book.find(key_id)
        if key is None or key.kind is not KeyKind.ENROLMENT:
            raise EnrolmentRefused("a node joins with an enrolment key: lingua keys create --kind enrol")
        if not key.is_live(self._wall_ms()):
            raise EnrolmentRefused("the enrolment key has ended; ask for another")
        return key

    async def _claims_id(self, new: Credential) -> bool:
        """Whether the node id belongs to no other credential, or to one of the same tenant that has ended."""
        now_ms = self._wall_ms()
        of_id = [one for one in self._book.all() if (one.node_id, one.tenant) == (new.node_id, new.tenant)]
        ended = sorted((one for one in of_id if not one.is_live(now_ms)), key=lambda one: -one.created_ms)
        for one in (new, *ended[:MAX_FORMER]):
            digest = holder_of(one).owner_digest
            if (
                await self._claims.claim(new.node_id, digest, new.tenant, is_bound=False)
                is not NodeClaimOutcome.FOREIGN
            ):
                return True
        return False

    def _decide(self, key_id: str, newcomer: Newcomer) -> Credential | None:
        key, known, now_ms = self._key(key_id), self._book.all(), self._wall_ms()
        found = joined_before(key, newcomer, known, now_ms)
        if found is None:
            may_join(key, newcomer, known, now_ms)
        return found


class Absences:
    """Ends the credentials of ephemeral nodes that stay away. `present` tells which nodes are connected."""

    def __init__(
        self, book: CredentialBook, present: Callable[[], Awaitable[set[str]]], wall_ms: Callable[[], int]
    ) -> None:
        self._book = book
        self._present = present
        self._wall_ms = wall_ms
        # Credential → since when its node has been absent, as far as this instance has seen.
        self._since_ms: dict[str, int] = {}

    async def look(self) -> None:
        """To be called by one instance, every minute or so. Raises RedisAway."""
        now_ms = self._wall_ms()
        ephemeral = [one for one in self._book.all() if one.is_ephemeral and one.kind is KeyKind.NODE]
        ephemeral = [one for one in ephemeral if one.is_live(now_ms)]
        if not ephemeral:
            self._since_ms = {}
            return
        try:
            present = await self._present()
        except BaseException:
            # Who was there meanwhile is not known.
            self._since_ms = {}
            raise
        absent = [one for one in ephemeral if one.node_id not in present]
        self._since_ms = {one.id: self._since_ms.get(one.id, now_ms) for one in absent}
        for one in absent:
            if now_ms - self._since_ms[one.id] >= ABSENT_MS:
                # Expired, not revoked: only a banned node is kept from joining again.
                await self._book.end(one.id, at_ms=now_ms + 1_000)
                _log.info("node.left_for_good", node_id=one.node_id, key_id=shown(one.kind, one.id))

    def forget(self) -> None:
        """Another instance looks from now on."""
        self._since_ms = {}


def _sees(operator: Principal, credential: Credential) -> bool:
    is_local = operator.kind is PrincipalKind.LOCAL
    return is_local or operator.tenant in (ALL_TENANTS, credential.tenant)
