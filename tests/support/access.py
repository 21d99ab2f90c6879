"""Keys for tests, and a book of them without Redis."""

import json
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.credentials import Credential, Revocation
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.services.access.doorkeeper import Doorkeeper, ReadsTokens
from lingua_scheduler.services.access.live import LiveCallers
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind, fresh_key
from tests.support.schedulers import scheduler_on


class MadeKey(NamedTuple):
    """A key as its owner has it, and as the scheduler knows it."""

    text: str
    credential: Credential

    @property
    def header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.text}"}


def made_key(kind: KeyKind, **about: Any) -> MadeKey:
    key = fresh_key(kind)
    about.setdefault("created_ms", int(time.time() * 1000))
    return MadeKey(str(key), Credential(id=key.id, kind=kind, digest=key.digest, **about))


# One of each kind that callers have.
CALLERS: dict[str, Callable[[], MadeKey]] = {
    **{role.value: lambda role=role: made_key(KeyKind.OPERATOR, role=role) for role in Role},  # type: ignore[misc]
    **{
        f"{role.value} of all": lambda role=role: made_key(KeyKind.OPERATOR, role=role, tenant="*")  # type: ignore[misc]
        for role in Role
    },
    "client": lambda: made_key(KeyKind.CLIENT),
    "service": lambda: made_key(KeyKind.SERVICE),
    "node": lambda: made_key(KeyKind.NODE),
    "metrics": lambda: made_key(KeyKind.METRICS),
}


class FakeBook:
    """What the doorkeeper reads of a CredentialBook."""

    def __init__(self, *keys: MadeKey) -> None:
        self.credentials = {key.credential.id: key.credential for key in keys}
        self.revocations: dict[str, Revocation] = {}
        self.uses: list[str] = []

    def find(self, key_id: str) -> Credential | None:
        return self.credentials.get(key_id)

    def issuers(self) -> Collection[Issuer]:
        return ()

    def void_before(self, name: str) -> int:
        found = self.revocations.get(name)
        return 0 if found is None else found.before_ms

    def used(self, key_id: str) -> None:
        self.uses.append(key_id)

    def change(self, key: MadeKey, **changes: Any) -> None:
        known = self.credentials[key.credential.id]
        self.credentials[key.credential.id] = msgspec.structs.replace(known, **changes)


class Times:
    """A wall clock and a monotonic one that stand still until they are moved."""

    def __init__(self, now_s: float = 1_000_000.0) -> None:
        self.now_s = now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s


def doorkeeper_of(
    book: FakeBook, times: Times | None = None, tokens: ReadsTokens | None = None, **settings: Any
) -> Doorkeeper:
    at = times or Times()
    return Doorkeeper(book, tokens, AuthSettings(**settings), at.wall_ms, at.monotonic)


def nobody_live() -> LiveCallers:
    return LiveCallers(doorkeeper_of(FakeBook()))


def write_keys_file(path: Path, *keys: MadeKey) -> str:
    """A keys file as an operator keeps it. Returns its path as a setting."""
    rows = []
    for key in keys:
        about = {
            name: value for name, value in msgspec.to_builtins(key.credential).items() if value not in ("", 0, (), [])
        }
        rows.append("[[keys]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in about.items()))
    path.write_text("\n".join(rows))
    path.chmod(0o600)
    return str(path)


@asynccontextmanager
async def guarded_scheduler(
    url: str, folder: Path, *keys: MadeKey, **changes: Any
) -> AsyncIterator[tuple[Scheduler, Store]]:
    """One at which everybody needs a key, with these in its keys file."""
    path = write_keys_file(folder / "keys.toml", *keys)
    keyring: Keyring | None = changes.pop("keyring", None)
    required = {"auth__mode": "required", "auth__keys_file": path}
    async with scheduler_on(url, None, keyring, **required | changes) as both:
        yield both
