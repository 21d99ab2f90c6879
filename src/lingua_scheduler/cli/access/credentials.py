"""Credentials as commands read, change and show them, directly in Redis."""

import asyncio
import getpass
import re
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from lingua_scheduler.cli.options import Exit, Failure, fail
from lingua_scheduler.cli.redis_access import with_store
from lingua_scheduler.cli.wording import now_ms
from lingua_scheduler.domain.access.credential_sets import TooManyCredentials
from lingua_scheduler.domain.access.credentials import ALL_TENANTS, Credential
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.key_wishes import KIND_NAMES
from lingua_scheduler.domain.access.principals import Denied, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import EVERYTHING
from lingua_scheduler.protocol.signals import CredentialsChanged
from lingua_scheduler.services.access.book import (
    CredentialBook,
    CredentialIdTaken,
    KeyOfFile,
)
from lingua_scheduler.services.access.key_desk import KeyDesk
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_scheduler.store.access.credentials import Stored
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import ID_CHARS, KeyKind, looks_like_a_key, shown

T = TypeVar("T")

_SHOWN = re.compile(rf"(?:lk_[a-z]{{2}}_)?([0-9A-Za-z]{{{ID_CHARS}}})")
# In signals: no instance has this name.
_SENDER = "command"


class RedisPlace(NamedTuple):
    """As the options of the command name it."""

    redis_url: str | None
    data_dir: str | None
    config: Path | None


def read(place: RedisPlace) -> Stored:
    return with_store(lambda store: store.credentials.read(), *place)


def change(
    place: RedisPlace,
    work: Callable[[CredentialBook], Coroutine[Any, Any, T]],
    notes: tuple[str, str],
    *,
    starts_server: bool = False,
) -> T:
    """Every instance hears of the change at once. `notes` is for the audit log: the action, and what it is done to."""

    async def run(store: Store) -> T:
        told: list[Any] = []

        def publish(version: int) -> None:
            told.append(store.signals.publish(CredentialsChanged(instance=_SENDER, version=version)))

        book = CredentialBook(store.credentials, wall_ms=now_ms, publish=publish)
        try:
            await book.refresh()
            return await work(book)
        finally:
            await asyncio.gather(*told, return_exceptions=True)

    try:
        return with_store(run, *place, writes=True, notes=notes, starts_server=starts_server)
    except (TooManyCredentials, CredentialIdTaken, KeyOfFile, ValueError) as error:
        fail(str(error), Exit.SETTINGS)


# One who has Redis may do everything, for all tenants.
ROOT = Principal(kind=PrincipalKind.LOCAL, scopes=EVERYTHING, tenant=ALL_TENANTS)


def at_desk(
    place: RedisPlace,
    work: Callable[[KeyDesk], Coroutine[Any, Any, T | Denied]],
    notes: tuple[str, str],
    *,
    starts_server: bool = False,
) -> T:
    """A change as HTTP operations make it, but directly in Redis. A refusal ends the command."""

    async def run(book: CredentialBook) -> T | Denied:
        return await work(KeyDesk(book, AuthSettings().max_token_ms, now_ms, me()))

    found = change(place, run, notes, starts_server=starts_server)
    return granted(found)


def granted(found: T | Denied) -> T:
    if not isinstance(found, Denied):
        return found
    # What the desk says of lists is for callers of HTTP.
    detail, _, advice = found.detail.partition("; GET /v1/")
    noun = "keys issuer" if advice.startswith("issuers") else "keys"
    words = f"{detail} in Redis; lingua {noun} list shows them" if advice else detail
    raise Failure(words, Exit.SETTINGS)


def key_id_of(text: str) -> str:
    """The id of a key as one types it: alone, or as lists show it."""
    if (found := _SHOWN.fullmatch(text)) is not None:
        return found[1]
    if looks_like_a_key(text) and len(text) > len(shown(KeyKind.CLIENT, "")) + ID_CHARS:
        fail(
            "that is a whole key, and other users of this machine can see arguments; name its id alone, such as "
            f"{text[: len(shown(KeyKind.CLIENT, '')) + ID_CHARS]}",
            Exit.SETTINGS,
        )
    raise Failure(f"{text!r} is not the id of a key; lingua keys list shows them", Exit.SETTINGS)


def unknown_key(key_id: str) -> NoReturn:
    fail(f"there is no key {key_id} in Redis; lingua keys list shows them", Exit.SETTINGS)


def me() -> str:
    """Who makes a change directly in Redis, for the record."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without names
        user = "?"
    return f"redis:{user}@{socket.gethostname()}"[:128]


def state_of(one: Credential | Issuer, at_ms: int) -> str:
    if one.revoked_ms:
        return "revoked"
    if isinstance(one, Credential) and one.is_pending and one.is_live(at_ms):
        return "pending"
    return "live" if one.is_live(at_ms) else "expired"


def described(one: Credential, at_ms: int) -> dict[str, Any]:
    """For scripts: everything but what proves the key."""
    return {
        "id": one.id,
        "shown": shown(one.kind, one.id),
        "kind": KIND_NAMES[one.kind],
        "state": state_of(one, at_ms),
        "name": one.name,
        "tenant": one.tenant,
        "role": one.role,
        "scopes": sorted(one.scopes),
        "act_for": one.act_for,
        "signs": bool(one.signing_key),
        "node_id": one.node_id,
        "max_slots": one.max_slots,
        "labels": one.labels,
        "is_private": one.is_private,
        "is_ephemeral": one.is_ephemeral,
        "needs_approval": one.needs_approval,
        "approved_ms": one.approved_ms,
        "public_key": one.public_key,
        "enrolled_with": one.enrolled_with,
        "max_nodes": one.max_nodes,
        "nodes_live_ms": one.nodes_live_ms,
        "origins": one.origins,
        "pairs": one.pairs,
        "networks": one.networks,
        "created_ms": one.created_ms,
        "created_by": one.created_by,
        "expires_ms": one.expires_ms,
        "revoked_ms": one.revoked_ms,
        "successor": one.successor,
        "line": one.line,
    }


def described_issuer(one: Issuer, at_ms: int) -> dict[str, Any]:
    return {
        "id": one.id,
        "state": state_of(one, at_ms),
        "tenant": one.tenant,
        "act_for": one.act_for,
        "issuer": one.issuer,
        "algorithm": one.algorithm,
        "public_key": one.public_key,
        "jwks_url": one.jwks_url,
        "created_ms": one.created_ms,
        "created_by": one.created_by,
        "expires_ms": one.expires_ms,
        "revoked_ms": one.revoked_ms,
    }
