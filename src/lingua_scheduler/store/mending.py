"""A key of ours that holds another type than we keep there fails every command on it: it is set aside, and the command
is carried out after all. Costs nothing until Redis says WRONGTYPE."""

from redis.exceptions import RedisError

from lingua_scheduler.store.connection import Command, RedisAway, ServerLine, Waiter
from lingua_scheduler.store.keys import KeyFamily, Keys
from lingua_scheduler.store.servers.layout import key_of
from lingua_scheduler.store.unreadable import UnreadableKeys
from lingua_scheduler.telemetry.tasks import Nursery

# How long what was set aside is kept for a person to look at.
KEEP_MS = 86_400_000
MOST_TRIES = 5
_SCRIPTS = ("EVALSHA", "EVAL")


class Mender:
    def __init__(self, keys: Keys, source: str, unreadable: UnreadableKeys) -> None:
        self._keys = keys
        self._source = source
        self._unreadable = unreadable
        self._mends = Nursery("mending")
        # How often a command was made again; another type may be there again by then.
        self._tries: dict[Waiter, int] = {}

    def mend(self, line: ServerLine, waiter: Waiter, command: Command, error: RedisError) -> None:
        """The waiter gets its reply when the command was carried out, or the error when nothing could be done."""
        if waiter not in self._tries:
            waiter.add_done_callback(self._tries.pop)
        self._tries[waiter] = self._tries.get(waiter, 0) + 1
        self._mends.start(self._mend(line, waiter, command, error))

    async def _mend(self, line: ServerLine, waiter: Waiter, command: Command, error: RedisError) -> None:
        known = {key: family for key in _keys_of(command) if (family := self._keys.family_of(key)) is not None}
        try:
            # Another instance may have moved it aside in the meantime; then the way is clear.
            if not known or self._tries.get(waiter, 0) > MOST_TRIES or not await self._set_aside(line, known):
                raise error
            if not waiter.done():
                line.send(command, waiter)
        except (RedisAway, RedisError) as failure:
            if not waiter.done():
                waiter.set_exception(failure)

    async def _set_aside(self, line: ServerLine, known: dict[str, KeyFamily]) -> bool:
        asides = [self._keys.aside(key) for key in known]
        types = [family.type for family in known.values()]
        left, *moved = await line.send(("EVAL", self._source, 2 * len(known), *known, *asides, KEEP_MS, *types))
        for name in moved:
            key = name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name
            self._unreadable.met(known[key].name, key)
        return not left


def _keys_of(command: Command) -> list[str]:
    found = command[3 : 3 + int(command[2])] if command[0] in _SCRIPTS else (key_of(command),)
    return [key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else str(key) for key in found]
