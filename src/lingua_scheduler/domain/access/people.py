"""Operators whom an identity provider or a proxy knows, and who have no key."""

import hashlib
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.credentials import ALL_TENANTS
from lingua_scheduler.domain.access.grants import MAX_SUBJECT_CHARS
from lingua_scheduler.domain.access.principals import Principal, PrincipalKind
from lingua_scheduler.domain.access.role_tables import RoleGrant
from lingua_scheduler.domain.access.scopes import scopes_of

# How a person became known. Part of the subject, so that no user of an app has the same one by chance.
OIDC, PROXY = "oidc", "proxy"
MAX_GROUPS = 2_000


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Who has logged in through an identity provider. `group` names the row of the role table that counts for them:
    without that row the login ends."""

    issuer: str
    subject: Annotated[str, Meta(min_length=1, max_length=MAX_SUBJECT_CHARS)]
    group: str


class ForwardedUser(NamedTuple):
    """Who has logged in at a trusted proxy, as its headers say."""

    name: str
    groups: tuple[str, ...]


class ProvenIdentity(NamedTuple):
    """What an identity provider says of a person. `name` is for people to read."""

    subject: str
    groups: tuple[str, ...]
    name: str


def subject_of(via: str, name: str) -> str:
    """What revocations and the audit log call a person: short and printable whatever their name is."""
    subject = f"{via}:{name}"
    if len(subject) <= MAX_SUBJECT_CHARS and name.isprintable():
        return subject
    return f"{via}:~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def operator_of(subject: str, grant: RoleGrant, issued_ms: int, expires_ms: int, login_id: str = "") -> Principal:
    return Principal(
        kind=PrincipalKind.OPERATOR,
        scopes=scopes_of(grant.role, is_for_all=grant.tenant == ALL_TENANTS),
        tenant=grant.tenant,
        subject=subject,
        login_id=login_id,
        issued_ms=issued_ms,
        expires_ms=expires_ms,
    )


def groups_of(claim: object) -> tuple[str, ...]:
    """Of a claim: a list of strings, or one."""
    found = claim if isinstance(claim, list) else [claim]
    return tuple(group for group in found[:MAX_GROUPS] if isinstance(group, str) and group)
