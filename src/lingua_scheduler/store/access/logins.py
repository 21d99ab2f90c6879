"""Logins and one-time login codes in Redis, each under the digest of its secret. They expire by themselves."""

from enum import StrEnum

import msgspec

from lingua_scheduler.domain.access.logins import CODE_MS, Login
from lingua_scheduler.domain.access.oidc_flows import FLOW_MS
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import login_of
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys

# What is kept of a login that has begun at an identity provider: all else is in the browser.
_BEGUN = "begun"


class CodeOutcome(StrEnum):
    TAKEN = "taken"
    UNKNOWN = "unknown"


class LoginStore:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._call = line.call
        self._keys = keys
        self._scripts = scripts
        self._unreadable = unreadable

    async def add(self, digest: str, login: Login, ttl_ms: int) -> None:
        text = msgspec.json.encode(login).decode()
        await self._call("SET", self._keys.login(digest), text, "PX", ttl_ms)

    async def find(self, digest: str) -> Login | None:
        text = await self._call("GET", self._keys.login(digest))
        login = None if text is None else login_of(text)
        if text is not None and login is None:
            self._unreadable.met("login", self._keys.login(digest))
        return login

    async def keep(self, digest: str, ttl_ms: int) -> bool:
        """Let it live on for so long; False if it has ended."""
        return bool(await self._call("PEXPIRE", self._keys.login(digest), ttl_ms))

    async def remove(self, digest: str) -> None:
        await self._call("DEL", self._keys.login(digest))

    async def add_code(self, digest: str, key_id: str) -> None:
        await self._call("SET", self._keys.login_code(digest), key_id, "PX", CODE_MS)

    async def take_code(self, digest: str) -> str | None:
        """The id of the key that asked for the code; None if it is unknown, used or too old."""
        outcome, *key_id = await self._scripts.run("login_code_take", code=self._keys.login_code(digest))
        return str(key_id[0]) if CodeOutcome(outcome) is CodeOutcome.TAKEN else None

    async def add_flow(self, digest: str) -> None:
        await self._call("SET", self._keys.login_flow(digest), _BEGUN, "PX", FLOW_MS)

    async def take_flow(self, digest: str) -> bool:
        """Whether it was begun, is not too old, and comes back for the first time."""
        outcome, *_ = await self._scripts.run("login_code_take", code=self._keys.login_flow(digest))
        return CodeOutcome(outcome) is CodeOutcome.TAKEN
