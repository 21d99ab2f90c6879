"""When keys were last used: noted in memory, and shared with the other instances now and then."""

from collections.abc import Callable, Container

from lingua_scheduler.store.access.credentials import CredentialStore

# The use of a key that no longer exists is removed so long after: the key may also be too new to be known here.
FORGET_UNKNOWN_MS = 86_400_000


class KeyUses:
    def __init__(self, store: CredentialStore, wall_ms: Callable[[], int]) -> None:
        self._store = store
        self._wall_ms = wall_ms
        self._used_ms: dict[str, int] = {}
        # Used here since they were last written.
        self._unwritten: set[str] = set()

    def note(self, key_id: str) -> None:
        self._used_ms[key_id] = self._wall_ms()
        self._unwritten.add(key_id)

    def last_ms(self, key_id: str) -> int:
        """0: never, as far as is known."""
        return self._used_ms.get(key_id, 0)

    async def read(self) -> dict[str, int]:
        """Learn of uses elsewhere. Returns what Redis has; raises RedisAway."""
        stored = await self._store.uses()
        for key_id, used_ms in stored.items():
            self._used_ms[key_id] = max(used_ms, self.last_ms(key_id))
        return stored

    async def share(self, known: Container[str]) -> None:
        """Write what was used here, a periodic chore; `known` are the keys that exist. Raises RedisAway.

        Another instance may write an earlier use of the same key at the same moment. It does no harm: a key in
        use is written again a minute later, and every instance keeps the latest time that it has seen.
        """
        stored = await self.read()
        mine = {name: self._used_ms[name] for name in self._unwritten if name in self._used_ms}
        old_ms = self._wall_ms() - FORGET_UNKNOWN_MS
        gone = [name for name, used_ms in stored.items() if name not in known and used_ms < old_ms]
        later = {name: used_ms for name, used_ms in mine.items() if used_ms > stored.get(name, 0)}
        await self._store.note_uses(later, gone)
        # One that was used again meanwhile is written the next time.
        self._unwritten -= {name for name, used_ms in mine.items() if self._used_ms.get(name) == used_ms}
        for name in gone:
            self._used_ms.pop(name, None)
