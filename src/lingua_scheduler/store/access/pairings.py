"""Pairing codes in Redis, each under its digest. They expire by themselves, and each is taken once."""

from lingua_scheduler.store.access.logins import CodeOutcome
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys
from lingua_sdk.domain.pairing import CODE_MS, Pairing, digest_of_code


class PairingStore:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._call = line.call
        self._keys = keys
        self._scripts = scripts
        self._unreadable = unreadable

    async def add(self, code: str, pairing: Pairing) -> bool:
        """False if there is such a code already."""
        key = self._keys.pairing(digest_of_code(code))
        return await self._call("SET", key, str(pairing), "PX", CODE_MS, "NX") is not None

    async def take(self, code: str) -> Pairing | None:
        """The node that the code is for; None if it is unknown, used or too old."""
        key = self._keys.pairing(digest_of_code(code))
        outcome, *text = await self._scripts.run("login_code_take", code=key)
        if CodeOutcome(outcome) is CodeOutcome.UNKNOWN:
            return None
        found = Pairing.parse(text[0])
        if found is None:
            self._unreadable.met("pair", key)
        return found
