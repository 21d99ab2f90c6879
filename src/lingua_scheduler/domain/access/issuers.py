"""Issuers of tokens: whose signature makes a token of which tenant. The key of an issuer is public."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.credentials import ALL_TENANTS, DEFAULT_TENANT, Name, Tenant, Texts

# Each key has its own; what the header of a token says does not count.
Algorithm = Literal["EdDSA", "ES256", "RS256"]


class Issuer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Has either a public key, and then `id` is the `kid` of its tokens, or the URL of a JWKS. 0 = never."""

    id: Annotated[str, Meta(pattern=r"^[0-9A-Za-z._-]{1,64}$")]
    tenant: Tenant = DEFAULT_TENANT
    act_for: Texts = ()
    # What `iss` must be.
    issuer: Annotated[str, Meta(min_length=1, max_length=512)]
    algorithm: Algorithm = "EdDSA"
    # PEM.
    public_key: Annotated[str, Meta(max_length=8192)] = ""
    jwks_url: Annotated[str, Meta(max_length=1024)] = ""
    created_ms: int = 0
    created_by: Name = ""
    expires_ms: int = 0
    revoked_ms: int = 0

    def is_live(self, now_ms: int) -> bool:
        return not self.revoked_ms and (not self.expires_ms or now_ms < self.expires_ms)

    def speaks_for(self, tenant: str) -> bool:
        return tenant == self.tenant or tenant in self.act_for or ALL_TENANTS in self.act_for
