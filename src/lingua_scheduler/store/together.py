"""Calls of one tick that one script can carry out together: one command, a reply for each of them."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from redis.exceptions import ResponseError

from lingua_scheduler.store.connection import Argument, Reply, Waiter
from lingua_scheduler.store.keys import ShardKeys
from lingua_scheduler.store.scripts import Scripts

G = TypeVar("G", bound=Hashable)
# By the names of the bind block; the list of keys holds those that follow the callers' own.
Common = dict[str, Any]

# A script holds up everybody else; so many jobs take it well below a millisecond.
MOST_TOGETHER = 32


class _Party:
    """Those who go together, by their key."""

    __slots__ = ("members", "shard")

    def __init__(self, shard: ShardKeys) -> None:
        self.shard = shard
        self.members: dict[str, tuple[tuple[Argument, ...], Waiter]] = {}


class Together(Generic[G]):
    """One script whose keys and arguments end in lists: a key and some words a call.

    `common` spells what the calls of a group have in common. A key comes once in a script, so that a script need not
    care about itself.
    """

    def __init__(
        self, scripts: Scripts, name: str, keys: str, words: str, common: Callable[[ShardKeys, G], Common]
    ) -> None:
        self._scripts = scripts
        self._name = name
        self._keys = keys
        self._words = words
        self._common = common
        self._waiting: dict[tuple[ShardKeys, G], _Party] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    def join(self, shard: ShardKeys, group: G, key: str, words: tuple[Argument, ...]) -> Waiter:
        """The future holds what the script replies for this call, or what the whole command failed with."""
        loop = asyncio.get_running_loop()
        at = shard, group
        party = self._waiting.get(at)
        if party is None or key in party.members or len(party.members) >= MOST_TOGETHER:
            party = self._waiting[at] = _Party(shard)
            # Its first step is in the next tick: until then others may join.
            task = loop.create_task(self._go(at, party))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        waiter: Waiter = loop.create_future()
        party.members[key] = (words, waiter)
        return waiter

    async def _go(self, at: tuple[ShardKeys, G], party: _Party) -> None:
        if self._waiting.get(at) is party:
            del self._waiting[at]
        shard, group = at
        common = self._common(shard, group)
        try:
            try:
                await self._run(shard, common, party.members)
            except ResponseError:
                if len(party.members) == 1:
                    raise
                # One of them upset the script. All are safe to repeat, so each bears its own fate.
                for key, member in party.members.items():
                    await self._alone(shard, common, key, member)
        except BaseException as error:
            for _, waiter in party.members.values():
                _fail(waiter, error)
            if not isinstance(error, Exception):
                raise

    async def _run(
        self, shard: ShardKeys, common: Common, members: dict[str, tuple[tuple[Argument, ...], Waiter]]
    ) -> None:
        words = [word for words, _ in members.values() for word in words]
        lists: dict[str, Any] = {self._keys: [*members, *common[self._keys]], self._words: words}
        replies: list[Reply] = await self._scripts.run(self._name, shard, **(common | lists))
        for (_, waiter), reply in zip(members.values(), replies, strict=True):
            if not waiter.done():
                waiter.set_result(reply)

    async def _alone(
        self, shard: ShardKeys, common: Common, key: str, member: tuple[tuple[Argument, ...], Waiter]
    ) -> None:
        try:
            await self._run(shard, common, {key: member})
        except Exception as error:
            _fail(member[1], error)


def _fail(waiter: Waiter, error: BaseException) -> None:
    if not waiter.done():
        if isinstance(error, asyncio.CancelledError):
            waiter.cancel()
        else:
            waiter.set_exception(error)
            # Whoever asked may have gone; then nobody need hear of it.
            waiter.exception()
