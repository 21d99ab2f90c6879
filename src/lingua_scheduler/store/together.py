"""Calls that one script can carry out together: those of one tick, and those that come while others are under way.

Redis takes one command after the other: what would wait there waits here, and shares a script instead."""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from functools import cached_property, partial
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from lingua_scheduler.store.connection import RedisAway, Reply, Waiter
from lingua_scheduler.store.keys import ShardKeys
from lingua_scheduler.store.scripts import Scripts

# A script holds up everybody else; so many jobs take it well below a millisecond.
MOST_TOGETHER = 32

# By the names of the bind block; the list of keys holds those that follow the callers' own.
Common = dict[str, Any]
Members = dict[str, tuple[str, Waiter]]


class Kind(NamedTuple):
    """A script whose keys and arguments end in lists: a key and a line of words a call.

    `common` spells what the calls of a group have in common.
    """

    script: str
    keys: str
    words: str
    common: Callable[[ShardKeys, Any], Common]
    # Before all others that wait with it.
    goes_first: bool = False


class _Party(NamedTuple):
    """Those who go together, by their key: no key comes twice, so that a script need not care about itself."""

    kind: Kind
    group: Hashable
    members: Members


class _Desk:
    """The calls for one shard: those under way, and those that wait for them."""

    __slots__ = ("filling", "first", "others", "task", "under_way")

    def __init__(self) -> None:
        self.under_way: list[_Party] = []
        self.first: list[_Party] = []
        self.others: list[_Party] = []
        self.filling: dict[tuple[str, Hashable], _Party] = {}
        self.task: asyncio.Task[None] | None = None

    def take(self) -> list[_Party]:
        """All who wait are under way from now on."""
        self.under_way = self.first + self.others
        self.first, self.others, self.filling = [], [], {}
        return self.under_way


class Together:
    def __init__(self, scripts: Scripts, max_pending: int) -> None:
        self._scripts = scripts
        self._max_pending = max_pending
        self._desks: dict[ShardKeys, _Desk] = {}
        # Calls at all desks; also of those who left meanwhile, until their script is done.
        self.pending = 0

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Kept, because looking it up costs a call of the system each time."""
        return asyncio.get_running_loop()

    def join(self, kind: Kind, shard: ShardKeys, group: Hashable, key: str, words: str) -> Waiter:
        """The future holds what the script replies for this call, or what the whole command failed with.

        Raises RedisAway when too many wait already.
        """
        if self.pending >= self._max_pending:
            raise RedisAway(f"{self._max_pending} calls are waiting for an answer already")
        loop = self._loop
        desk = self._desks.get(shard)
        if desk is None:
            desk = self._desks[shard] = _Desk()
            # Its first step is in the next tick: until then others may join.
            desk.task = loop.create_task(self._serve(shard, desk))
            desk.task.add_done_callback(partial(self._left, shard, desk))
        name = kind.script, group
        party = desk.filling.get(name)
        if party is None or key in party.members or len(party.members) >= MOST_TOGETHER:
            party = desk.filling[name] = _Party(kind, group, {})
            (desk.first if kind.goes_first else desk.others).append(party)
        waiter: Waiter = loop.create_future()
        party.members[key] = (words, waiter)
        self.pending += 1
        return waiter

    async def _serve(self, shard: ShardKeys, desk: _Desk) -> None:
        while parties := desk.take():
            if len(parties) == 1:
                await self._go(shard, parties[0])
            else:
                await asyncio.gather(*(self._go(shard, party) for party in parties))
            self._forget(parties)
        # Before anybody else can come: who does finds a desk that is served.
        del self._desks[shard]

    def _left(self, shard: ShardKeys, desk: _Desk, _task: asyncio.Task[None]) -> None:
        """Nobody waits where nobody serves: the task may have been called off, even before its first step.

        Those who wait were not called off themselves, and may ask again.
        """
        if self._desks.get(shard) is not desk:
            return  # it served to the end
        del self._desks[shard]
        parties = [*desk.under_way, *desk.first, *desk.others]
        for party in parties:
            _fail(party.members, RedisAway("the call was called off; nobody knows whether it was carried out"))
        self._forget(parties)

    def _forget(self, parties: Iterable[_Party]) -> None:
        for party in parties:
            self.pending -= len(party.members)

    async def _go(self, shard: ShardKeys, party: _Party) -> None:
        members = party.members
        try:
            await self._run(shard, party, members)
        except Exception as error:
            if isinstance(error, ResponseError) and len(members) > 1:
                # One of them upset the script. All are safe to repeat, so each bears its own fate.
                await asyncio.gather(*(self._go(shard, party._replace(members={key: members[key]})) for key in members))
            else:
                _fail(members, error)

    async def _run(self, shard: ShardKeys, party: _Party, members: Members) -> None:
        kind = party.kind
        common = kind.common(shard, party.group)
        common[kind.keys] = [*members, *common[kind.keys]]
        common[kind.words] = [words for words, _ in members.values()]
        replies: list[Reply] = await self._scripts.run(kind.script, shard, **common)
        for (_, waiter), reply in zip(members.values(), replies, strict=True):
            if not waiter.done():
                waiter.set_result(reply)


def _fail(members: Members, error: Exception) -> None:
    for _, waiter in members.values():
        if not waiter.done():
            waiter.set_exception(error)
            # Whoever asked may have gone; then nobody need hear of it.
            waiter.exception()
