"""Settings of access: credentials, logins and the audit log."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from lingua_scheduler.setting_sections.kinds import DAY_MS, Count, KeepMs, LookMs, Texts, WaitMs, doc

AuthMode = Literal["auto", "required", "off"]
_AuditKeepMs = Annotated[int, Meta(ge=DAY_MS, le=3650 * DAY_MS)]
_AuditMax = Annotated[int, Meta(ge=1000, le=1_000_000)]
_HeaderName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9-]{0,64}\Z", extra={"expected": "the name of a header"})]


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Login of operators through an identity provider. Off while `issuer` is empty."""

    issuer: Annotated[
        str,
        doc(
            "Address of the identity provider with which operators log in (OpenID Connect), as it names itself in "
            "`iss`; needs the extra `oidc`; empty = none"
        ),
    ] = ""
    client_id: Annotated[str, doc("Id of this scheduler at the identity provider")] = ""
    client_secret_file: Annotated[
        str,
        doc(
            "File with the client secret. No other user may be able to read it; empty = a public client, which has none"
        ),
    ] = ""
    scopes: Annotated[Texts, doc("Scopes to ask the identity provider for")] = ("openid", "profile", "email")
    groups_claim: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)],
        doc("Claim of the ID token that holds the groups of a person, as a list or one string"),
    ] = "groups"
    callback_url: Annotated[
        str,
        doc(
            "Address to which the identity provider sends people back, ending in `/v1/login/oidc/callback`; empty = "
            "made of the `Host` header of the request"
        ),
    ] = ""
    roles: Annotated[
        dict[str, str],
        doc(
            'Roles of groups: `group = "role@tenant"`, with the tenant `*` for all. The first row of which a person '
            "has the group counts; without one they may not log in. Also for `auth.proxy_user_header`"
        ),
    ] = {}


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: Annotated[
        AuthMode,
        doc(
            "Whether callers need a credential; auto = not from this computer while `server.host` is a loopback "
            "address, else yes; required = always; off = never"
        ),
    ] = "auto"
    audience: Annotated[Annotated[str, Meta(min_length=1, max_length=256)], doc("What `aud` of a token must name")] = (
        "lingua"
    )
    keys_file: Annotated[
        str,
        doc(
            "TOML file with further keys and issuers of tokens, without secrets; read again when it changes. "
            "No other user may be able to read it"
        ),
    ] = ""
    backup_file: Annotated[
        str,
        doc(
            "Copy of all credentials, without secrets, in case Redis loses its data. A bare file name is relative to "
            "`redis.data_dir`, and each `redis.url` has its own; empty = no copy"
        ),
    ] = "credentials.json"
    refresh_ms: Annotated[
        LookMs, doc("Interval at which credentials are read again, in case a notification was lost")
    ] = 5000
    max_token_ms: Annotated[KeepMs, doc("Maximum lifetime of a token, from `iat` to `exp`")] = DAY_MS
    expired_grace_ms: Annotated[
        WaitMs, doc("Time for which an open connection may outlive its token, unless a new one is sent")
    ] = 3_600_000
    query_tokens: Annotated[
        bool,
        doc(
            "Whether a key or token may be in a URL (`?access_token=`), as peers need that take nothing else; false = "
            "every caller sends it in a header or as a sub-protocol, which no log has"
        ),
    ] = True
    login_ms: Annotated[KeepMs, doc("Maximum duration of a login to the dashboard")] = 43_200_000
    login_idle_ms: Annotated[KeepMs, doc("A login ends when it was not used for so long")] = 1_800_000
    proxy_user_header: Annotated[
        _HeaderName,
        doc(
            "Header in which a proxy in `server.trusted_proxies` names the operator who has logged in there, e.g. "
            "X-Forwarded-User; ignored from any other peer; empty = none"
        ),
    ] = ""
    proxy_groups_header: Annotated[
        _HeaderName, doc("Header in which the same proxy lists the groups of that operator, separated by commas")
    ] = "X-Forwarded-Groups"
    oidc: OidcSettings = OidcSettings()


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True):
    key_file: Annotated[
        str,
        doc(
            "File with the keys of the audit log, one per line as 64 hexadecimal digits: the first writes, all of them "
            "verify. Every instance needs the same one. A bare file name is relative to `redis.data_dir`; empty = "
            "derived from the cluster key"
        ),
    ] = ""
    max_entries: Annotated[_AuditMax, doc("Maximum entries of the audit log; above it the oldest are removed")] = (
        100_000
    )
    keep_ms: Annotated[_AuditKeepMs, doc("Time for which an entry of the audit log is kept")] = 365 * DAY_MS
    anchor_every: Annotated[
        Count, doc("Entries after which the head of the audit log is signed and logged, if not 5 minutes before")
    ] = 100
