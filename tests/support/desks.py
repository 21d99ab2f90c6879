"""A scheduler at which everybody needs a key, and admins who make them over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import MadeKey, made_key, write_keys_file
from tests.support.schedulers import scheduler_on

KEYRING = Keyring([b"1" * 32])


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


class Answered(NamedTuple):
    status: int
    body: Any


class Desk:
    """Callers by name: `admin` of all tenants, `acme` and `beta` of theirs, and other roles of acme."""

    def __init__(self, scheduler: Scheduler, store: Store, http: aiohttp.ClientSession, keys: dict[str, MadeKey]):
        self.scheduler = scheduler
        self.store = store
        self.http = http
        self.keys = keys

    async def get(self, who: str, path: str) -> Answered:
        return await self.ask(who, "GET", path)

    async def post(self, who: str, path: str, body: Any = None) -> Answered:
        return await self.ask(who, "POST", path, **({} if body is None else {"json": body}))

    async def ask(self, who: str, method: str, path: str, **more: Any) -> Answered:
        """`who` is a name of `keys`, or a key or token itself."""
        text = self.keys[who].text if who in self.keys else who
        headers = bearer(text) if text else {}
        async with self.http.request(method, path, headers=headers, **more) as response:
            return Answered(response.status, await response.json())

    async def made(self, who: str, **wish: Any) -> Any:
        found = await self.post(who, "/v1/keys", wish)
        assert found.status == 200, found.body
        return found.body


@asynccontextmanager
async def desk_on(url: str, folder: Path, keyring: Keyring | None = KEYRING, **changes: Any) -> AsyncIterator[Desk]:
    keys = {
        "admin": made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*"),
        "acme": made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="acme"),
        "beta": made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="beta"),
        **{
            role.value: made_key(KeyKind.OPERATOR, role=role, tenant="acme")
            for role in (Role.VIEWER, Role.OPERATOR, Role.AUDITOR)
        },
        "service": made_key(KeyKind.SERVICE, tenant="acme"),
    }
    settings = {"auth__mode": "required", "auth__keys_file": write_keys_file(folder / "keys.toml", *keys.values())}
    async with (
        scheduler_on(url, None, keyring, **settings | changes) as (scheduler, store),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        yield Desk(scheduler, store, http, keys)
