"""A connection to the master that the Sentinels name."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.store.connection import Mend, RedisAway, Reply, ServerLine, answers, ask
from lingua_scheduler.store.servers.addresses import Address, SentinelUrl

CHECK_EVERY_S = 1.0


class SentinelLine(ServerLine):
    def __init__(
        self,
        url: SentinelUrl,
        *,
        timeout_ms: int,
        max_pending: int,
        prepare: Callable[[ServerLine], Awaitable[None]],
        mend: Mend | None = None,
        is_raw: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(
            self._connect_to_master,
            timeout_ms=timeout_ms,
            max_pending=max_pending,
            prepare=prepare,
            mend=mend,
            is_raw=is_raw,
            clock=clock,
        )
        self._url = url
        self._master: Address | None = None

    async def _connect_to_master(self) -> AbstractConnection:
        self._master = await self._find_master()
        return self._url.connect(self._master)

    async def another_connection(self) -> AbstractConnection:
        return self._url.connect(await self._find_master())

    def _watches(self) -> list[Coroutine[Any, Any, None]]:
        return [*super()._watches(), self._watch_master()]

    async def _watch_master(self) -> None:
        """After a failover by hand the former master takes writes for seconds more, and all of them are lost."""
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            with suppress(RedisAway):
                master = await self._find_master()
                if master != self._master:
                    break
        raise RedisAway(f"{master} has become the master")

    async def _find_master(self) -> Address:
        """The master that most Sentinels name, so that a Sentinel that is cut off from the others is outvoted."""
        sentinels = self._url.sentinels
        votes: Counter[Address] = Counter()
        failure = ""
        async with aclosing(answers(self._ask(sentinel) for sentinel in sentinels)) as found:
            async for answer in found:
                if isinstance(answer, Exception):
                    failure = failure or str(answer)
                elif answer is None:
                    failure = f"no Sentinel knows a master named {self._url.master_name}"
                else:
                    master = Address(answer[0], int(answer[1]))
                    votes[master] += 1
                    if votes[master] > len(sentinels) / 2:
                        return master
        if not votes:
            raise RedisAway(failure or "no Sentinel answers in time")
        return max(votes, key=lambda address: (votes[address], address == self._master))

    async def _ask(self, sentinel: Address) -> Reply:
        connection = self._url.connect_to_sentinel(sentinel)
        # Some time must be left to connect to the master.
        async with asyncio.timeout(self._timeout_s / 2):
            return await ask(connection, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._url.master_name)
