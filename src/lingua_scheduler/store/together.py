"""Calls that one script can carry out together: those of one tick, and those that come while others are under way.

Redis takes one command after the other: what would wait there waits here, and shares a script instead."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from lingua_scheduler.store.connection import Reply, Waiter
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
    """The calls for one shard that wait for the ones before them."""

    __slots__ = ("filling", "first", "others", "task")

    def __init__(self) -> None:
        self.first: list[_Party] = []
        self.others: list[_Party] = []
        self.filling: dict[tuple[str, Hashable], _Party] = {}
        self.task: asyncio.Task[None] | None = None


class Together:
    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._desks: dict[ShardKeys, _Desk] = {}

    def join(self, kind: Kind, shard: ShardKeys, group: Hashable, key: str, words: str) -> Waiter:
        """The future holds what the script replies for this call, or what the whole command failed with."""
        loop = asyncio.get_running_loop()
        desk = self._desks.get(shard)
        if desk is None:
            desk = self._desks[shard] = _Desk()
            # Its first step is in the next tick: until then others may join.
            desk.task = loop.create_task(self._serve(shard, desk))
        name = kind.script, group
        party = desk.filling.get(name)
        if party is None or key in party.members or len(party.members) >= MOST_TOGETHER:
            party = desk.filling[name] = _Party(kind, group, {})
            (desk.first if kind.goes_first else desk.others).append(party)
        waiter: Waiter = loop.create_future()
        party.members[key] = (words, waiter)
        return waiter

    async def _serve(self, shard: ShardKeys, desk: _Desk) -> None:
        while parties := desk.first + desk.others:
            desk.first, desk.others, desk.filling = [], [], {}
            if len(parties) == 1:
                await self._go(shard, parties[0])
            else:
                await asyncio.gather(*(self._go(shard, party) for party in parties))
        del self._desks[shard]

    async def _go(self, shard: ShardKeys, party: _Party) -> None:
        members = party.members
        try:
            try:
                await self._run(shard, party, members)
            except ResponseError:
                if len(members) == 1:
                    raise
                # One of them upset the script. All are safe to repeat, so each bears its own fate.
                await asyncio.gather(*(self._go(shard, party._replace(members={key: members[key]})) for key in members))
        except BaseException as error:
            for _, waiter in members.values():
                _fail(waiter, error)
            if not isinstance(error, Exception):
                raise

    async def _run(self, shard: ShardKeys, party: _Party, members: Members) -> None:
        kind = party.kind
        common = kind.common(shard, party.group)
        common[kind.keys] = [*members, *common[kind.keys]]
        common[kind.words] = [words for words, _ in members.values()]
        replies: list[Reply] = await self._scripts.run(kind.script, shard, **common)
        for (_, waiter), reply in zip(members.values(), replies, strict=True):
            if not waiter.done():
                waiter.set_result(reply)


def _fail(waiter: Waiter, error: BaseException) -> None:
    if not waiter.done():
        if isinstance(error, asyncio.CancelledError):
            waiter.cancel()
        else:
            waiter.set_exception(error)
            # Whoever asked may have gone; then nobody need hear of it.
            waiter.exception()
