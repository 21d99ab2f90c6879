"""Public keys that issuers publish (JWKS): fetched in the background and kept, so that no token waits for them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.services.access.tokens import VerifyingKey, read_jwk
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

FRESH_S = 3600.0
# For so long keys count while their issuer is away.
STALE_S = 86_400.0
# However many tokens name unknown keys, an issuer is asked once in this time.
PAUSE_S = 30.0
ANSWER_WITHIN_S = 5.0
MAX_BYTES = 65_536
MAX_KEYS = 32

# Fetches a URL, up to a number of bytes; raises JwksAway.
Fetch = Callable[[str, int], Awaitable[bytes]]


class JwksAway(Exception):
    """The issuer does not answer, or not as it should: one sentence."""


class _Jwks(msgspec.Struct):
    keys: list[dict[str, Any]]


class _Published:
    """What is known of the keys of one issuer."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: dict[str, VerifyingKey] = {}
        self.read_s: float | None = None
        self.asked_s: float | None = None
        self.is_away = False


class JwksCache:
    """Each issuer has its own keys: the same key id of another issuer is another key."""

    def __init__(self, fetch: Fetch, clock: Clock = SYSTEM_CLOCK) -> None:
        self._fetch = fetch
        self._clock = clock
        self._known: dict[str, _Published] = {}
        self._nursery = Nursery("jwks")

    def find(self, issuer: Issuer, key_id: str) -> VerifyingKey | None:
        """The key, if it is at hand. If it is not, or it was read long ago, the issuer is asked in the background."""
        known = self._of(issuer)
        age_s = self._age_s(known)
        key = known.keys.get(key_id) if age_s < STALE_S else None
        if (key is None or age_s >= FRESH_S) and self._may_ask(known):
            self._nursery.start(self._ask(issuer.id, known))
        return key

    async def prefetch(self, issuers: Collection[Issuer]) -> None:
        """Read the keys of all issuers that have not been read lately, and forget those of others. Safe to repeat."""
        published = [issuer for issuer in issuers if issuer.jwks_url]
        for gone in self._known.keys() - {issuer.id for issuer in published}:
            del self._known[gone]
        asking = []
        for issuer in published:
            known = self._of(issuer)
            if self._age_s(known) >= FRESH_S and self._may_ask(known):
                asking.append(self._nursery.start(self._ask(issuer.id, known)))
        if asking:
            await asyncio.wait(asking)

    async def close(self) -> None:
        await self._nursery.close()

    def _of(self, issuer: Issuer) -> _Published:
        known = self._known.get(issuer.id)
        if known is None or known.url != issuer.jwks_url:
            known = self._known[issuer.id] = _Published(issuer.jwks_url)
        return known

    def _age_s(self, known: _Published) -> float:
        return self._clock() - known.read_s if known.read_s is not None else float("inf")

    def _may_ask(self, known: _Published) -> bool:
        """An answer takes less than the pause, so there is never more than one question under way."""
        now_s = self._clock()
        if not known.url or (known.asked_s is not None and now_s - known.asked_s < PAUSE_S):
            return False
        known.asked_s = now_s
        return True

    async def _ask(self, issuer_id: str, known: _Published) -> None:
        """A failure leaves everything as it was."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                keys = read_jwks(await self._fetch(known.url, MAX_BYTES))
        except (JwksAway, TimeoutError) as error:
            if not known.is_away:
                reason = str(error) or "no answer in time"
                _log.warning("jwks.away", issuer=issuer_id, reason=reason, keys=len(known.keys))
            known.is_away = True
            return
        if known.is_away or keys.keys() != known.keys.keys():
            _log.info("jwks.changed", issuer=issuer_id, keys=len(keys))
        known.keys, known.read_s, known.is_away = keys, self._clock(), False


def read_jwks(body: bytes) -> dict[str, VerifyingKey]:
    """Keys for signatures by key id. Raises JwksAway; also when there are none, which is more likely an accident."""
    if len(body) > MAX_BYTES:
        raise JwksAway(f"the response is larger than {MAX_BYTES} bytes")
    try:
        found = msgspec.json.decode(body, type=_Jwks).keys
    except (ValueError, RecursionError):
        raise JwksAway("the response is not a JWKS") from None
    if len(found) > MAX_KEYS:
        raise JwksAway(f"the JWKS has {len(found)} keys; {MAX_KEYS} are allowed")
    keys: dict[str, VerifyingKey] = {}
    for jwk in found:
        key_id, key = jwk.get("kid"), read_jwk(jwk)
        if isinstance(key_id, str) and key_id and key is not None:
            keys.setdefault(key_id, key)
    if not keys:
        raise JwksAway('the JWKS has no Ed25519, P-256 or RSA key with "kid" and "use": "sig"')
    return keys
