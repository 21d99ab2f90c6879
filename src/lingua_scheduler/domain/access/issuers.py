"""Issuers of tokens: whose signature makes a token of which tenant. The key of an issuer is public."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.credentials import (
    ALL_TENANTS,
    DEFAULT_TENANT,
    END,
    Ms,
    Name,
    Tenant,
    Texts,
    first_end,
)

# Each key has its own; what the header of a token says does not count.
Algorithm = Literal["EdDSA", "ES256", "RS256"]


class Issuer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Has either a public key, and then `id` is the `kid` of its tokens, or the URL of a JWKS. 0 = never."""

    id: Annotated[str, Meta(pattern=rf"^[0-9A-Za-z._-]{{1,64}}{END}")]
    tenant: Tenant = DEFAULT_TENANT
    act_for: Texts = ()
    # What `iss` must be.
    issuer: Annotated[str, Meta(min_length=1, max_length=512)]
    algorithm: Algorithm = "EdDSA"
    # PEM.
    public_key: Annotated[str, Meta(max_length=8192)] = ""
    jwks_url: Annotated[str, Meta(max_length=1024)] = ""
    created_ms: Ms = 0
    created_by: Name = ""
    expires_ms: Ms = 0
    revoked_ms: Ms = 0
    # It was revoked while it was in a keys file; as of a credential.
    in_file: bool = False

    def is_live(self, now_ms: int) -> bool:
        return not self.revoked_ms and (not self.expires_ms or now_ms < self.expires_ms)

    def ended_ms(self) -> int:
        """When it ended or will end; 0 if it will not."""
        return first_end(self.revoked_ms, self.expires_ms)

    def speaks_for(self, tenant: str) -> bool:
        return tenant == self.tenant or tenant in self.act_for or ALL_TENANTS in self.act_for


def joined_issuer(one: Issuer, other: Issuer) -> Issuer:
    """Two copies of one issuer. As of a credential, the earlier end counts."""
    return msgspec.structs.replace(
        one,
        expires_ms=first_end(one.expires_ms, other.expires_ms),
        revoked_ms=first_end(one.revoked_ms, other.revoked_ms),
        in_file=one.in_file or other.in_file,
    )
