"""Reads the tokens that nodes sign themselves with the key they joined with. Each counts once."""

from collections import OrderedDict
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from lingua_scheduler.domain.access.claims import LEEWAY_MS, BadToken, ExpiredToken, check_shape, read_header
from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.node_claims import check_node_claims, read_node_claims
from lingua_scheduler.domain.access.principals import (
    Denied,
    Principal,
    holder_of,
    not_approved,
    token_expired,
    unauthenticated,
)
from lingua_scheduler.services.access.doorkeeper import ReadsTokens
from lingua_scheduler.services.access.standing import KnownCredentials, objection
from lingua_scheduler.services.access.tokens import VerifyingKey, is_signed
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.domain.vocabulary import NODE_TOKEN

_ALGORITHM = "EdDSA"
# A node sends one at each connect. A node that sent more would only make its own tokens usable twice, for a minute.
MAX_REMEMBERED = 100_000


class NodeTokens:
    """`others` reads all other tokens. `audience` names this cluster."""

    def __init__(self, book: KnownCredentials, audience: str, others: ReadsTokens) -> None:
        self._book = book
        self._audience = audience
        self._others = others
        # Tokens that were used, and until when they would be valid. Other instances do not know of them.
        self._used: OrderedDict[tuple[str, str], int] = OrderedDict()

    def read(self, text: str, now_ms: int) -> Principal | Denied:
        try:
            header_part, claims_part = check_shape(text)
            header = read_header(header_part)
            if header.typ != NODE_TOKEN:
                return self._others.read(text, now_ms)
            if header.alg != _ALGORITHM:
                raise BadToken("alg is not the key's own")
            credential = self._verified(text, claims_part, header.kid, now_ms)
        except ExpiredToken:
            return token_expired()
        except BadToken as error:
            return unauthenticated(str(error))
        principal = holder_of(credential)
        if reason := objection(self._book, principal, now_ms):
            return unauthenticated(reason)
        return not_approved() if credential.is_pending else principal

    def knows(self, text: str) -> bool:
        """Tokens of nodes count once, so that none of them is known."""
        return self._others.knows(text)

    def _verified(self, text: str, claims_part: str, key_id: str, now_ms: int) -> Credential:
        claims = read_node_claims(claims_part)
        check_node_claims(claims, self._audience, now_ms)
        credential = self._book.find(key_id)
        if claims.iss != key_id or credential is None or not credential.public_key:
            raise BadToken("no such node")
        if credential.kind is not KeyKind.NODE or not is_signed(text, _key_of(credential.public_key)):
            raise BadToken("wrong signature")
        self._use(key_id, claims.jti, claims.exp * 1000 + LEEWAY_MS, now_ms)
        return credential

    def _use(self, key_id: str, token_id: str, until_ms: int, now_ms: int) -> None:
        """Raises BadToken if it was used before. Only signed tokens get here, so strangers cannot fill the memory."""
        while self._used and (len(self._used) >= MAX_REMEMBERED or next(iter(self._used.values())) < now_ms):
            self._used.popitem(last=False)
        if self._used.get((key_id, token_id), 0) >= now_ms:
            raise BadToken("used before")
        self._used[key_id, token_id] = until_ms


@lru_cache(maxsize=8192)
def _key_of(public_key: str) -> VerifyingKey:
    return VerifyingKey(_ALGORITHM, Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)))
