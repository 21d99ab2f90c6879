"""Batches of script calls: those of one tick, and those that come while others are under way, share one script.

Redis takes one command after the other: what would wait there waits here, and shares a script instead."""

import asyncio
from collections.abc import Callable, Hashable
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar

from redis.exceptions import NoScriptError, ResponseError

from lingua_scheduler.store.connection import RedisAway, Reply, Waiter
from lingua_scheduler.store.keys import ShardKeys
from lingua_scheduler.store.scripts import ScriptError, Scripts

# A script blocks all other clients of Redis; this many jobs take well below a millisecond.
MOST_TOGETHER = 32

Members = dict[str, tuple[Any, asyncio.Future[Any]]]
T = TypeVar("T")


class BatchedScript(NamedTuple, Generic[T]):
    """A script that serves many calls: `spell` makes its arguments, by the names of the bind block.

    `spell` gets the place, what the calls of a group have in common, and of each call its key and its words.
    `read` makes a value of the reply to one call.
    """

    script: str
    spell: Callable[[Any, Any, list[str], list[Any]], dict[str, Any]]
    read: Callable[[Reply], T]
    # Before all others that wait with it.
    goes_first: bool = False


class _Party(NamedTuple):
    """Those who go together, by their key: no key comes twice, so that a script need not care about itself."""

    kind: BatchedScript[Any]
    group: Hashable
    members: Members


class _Desk:
    """The calls for one place that wait for those under way, and how many scripts these are."""

    __slots__ = ("filling", "first", "others", "under_way")

    def __init__(self) -> None:
        self.under_way = 0
        self.first: list[_Party] = []
        self.others: list[_Party] = []
        self.filling: dict[tuple[str, Hashable], _Party] = {}

    def take(self) -> list[_Party]:
        """All waiting calls; the batch is closed to further ones."""
        parties = self.first + self.others
        self.first, self.others, self.filling = [], [], {}
        return parties


class Batcher:
    """Works by callbacks alone: a task would cost more than all else here, and could be cancelled."""

    def __init__(self, scripts: Scripts, max_pending: int) -> None:
        self._scripts = scripts
        self._max_pending = max_pending
        self._desks: dict[ShardKeys | str, _Desk] = {}
        # Calls in all batches, including cancelled ones, until their script is done.
        self.pending = 0

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Kept, because looking it up costs a call of the system each time."""
        return asyncio.get_running_loop()

    def submit(
        self, kind: BatchedScript[T], place: ShardKeys | str, group: Hashable, key: str, words: Any
    ) -> asyncio.Future[T]:
        """The future holds what the script replied to this call, or what the whole command failed with.

        The place is a shard, or any other name of what one server has. Raises RedisAway when too many wait already.
        """
        if self.pending >= self._max_pending:
            raise RedisAway(f"{self._max_pending} calls are already waiting for a reply (redis.max_pending)")
        desk = self._desks.get(place)
        if desk is None:
            desk = self._desks[place] = _Desk()
            # In the next tick: until then others may join.
            self._loop.call_soon(self._serve, place, desk)
        name = kind.script, group
        party = desk.filling.get(name)
        if party is None or key in party.members or len(party.members) >= MOST_TOGETHER:
            party = desk.filling[name] = _Party(kind, group, {})
            (desk.first if kind.goes_first else desk.others).append(party)
        waiter: asyncio.Future[T] = self._loop.create_future()
        party.members[key] = (words, waiter)
        self.pending += 1
        return waiter

    def _serve(self, place: ShardKeys | str, desk: _Desk) -> None:
        """Nothing is under way: send what waits, if anything does."""
        parties = desk.take()
        if not parties:
            del self._desks[place]
            return
        desk.under_way = len(parties)
        for party in parties:
            self._send(place, desk, party)

    def _send(self, place: ShardKeys | str, desk: _Desk, party: _Party, *, with_source: bool = False) -> None:
        kind, members = party.kind, party.members
        values = kind.spell(place, party.group, list(members), [words for words, _ in members.values()])
        shard = place if isinstance(place, ShardKeys) else None
        try:
            answer = self._scripts.ask(kind.script, shard, values, with_source=with_source)
        except Exception as error:
            _fail(members, error)
            self._done(place, desk, party)
        else:
            answer.add_done_callback(partial(self._answered, place, desk, party))

    def _answered(self, place: ShardKeys | str, desk: _Desk, party: _Party, answer: Waiter) -> None:
        members, error = party.members, answer.exception()
        if isinstance(error, NoScriptError):
            self._send(place, desk, party, with_source=True)
            return
        if isinstance(error, ResponseError) and len(members) > 1:
            # One of them upset the script. All are safe to repeat, so each bears its own fate. (A server that takes no
            # writes is away: that is no error of one of them.)
            desk.under_way += len(members) - 1
            for key in members:
                self._send(place, desk, party._replace(members={key: members[key]}))
            return
        if error is not None:
            _fail(members, error)
        elif len(replies := answer.result()) != len(members):
            _fail(members, ScriptError(f"{party.kind.script} has {len(replies)} answers for {len(members)} calls"))
        else:
            read = party.kind.read
            for (_, waiter), reply in zip(members.values(), replies, strict=True):
                if not waiter.done():
                    try:
                        waiter.set_result(read(reply))
                    except Exception as unreadable:
                        waiter.set_exception(unreadable)
        self._done(place, desk, party)

    def _done(self, place: ShardKeys | str, desk: _Desk, party: _Party) -> None:
        self.pending -= len(party.members)
        desk.under_way -= 1
        if not desk.under_way:
            self._serve(place, desk)


def _fail(members: Members, error: BaseException) -> None:
    for _, waiter in members.values():
        if not waiter.done():
            waiter.set_exception(error)
            # The caller may have gone; an exception that is never retrieved would be logged.
            waiter.exception()
