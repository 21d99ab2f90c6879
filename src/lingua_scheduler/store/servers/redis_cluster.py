"""A Redis Cluster as one line: every command goes to the master of its slot, and after it when the slot moves."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.store.connection import (
    Argument,
    Command,
    Mend,
    NotDone,
    RedisAway,
    ServerLine,
    Waiter,
    WritesRefused,
    answers,
    ask,
    probe_of,
)
from lingua_scheduler.store.servers.addresses import Address, ClusterUrl
from lingua_scheduler.store.servers.layout import SLOTS, Layout, key_of, read_layout, slot_of
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.backoff import Backoff

# Not carried out, and may be elsewhere or later. (To redis-py MOVED is an ASK, and MASTERDOWN a CLUSTERDOWN.)
NOT_HERE_OR_NOT_NOW = (AskError, ReadOnlyError, TryAgainError, ClusterDownError, BusyLoadingError)
# Redirects in a row without a delay; after that the servers disagree, and need time.
MAX_HOPS = 5
DETOURS = Backoff(0.005, 0.1)

LOOK_EVERY_S = 10.0
LOOK_AGAIN_S = 0.25
LOOK_AT_MOST_EVERY_S = 0.05
ASK_AT_ONCE = 3
# A slot whose commands were refused until we gave up counts as away for so long after the last refusal.
STUCK_S = 2.0
# Names to try for a key that a server has.
MOST_NAMES = 1_000


class Detour:
    """A command that was refused and is on its way to where it will be carried out."""

    __slots__ = ("give_up_at", "hops", "reason")

    def __init__(self, give_up_at: float) -> None:
        self.give_up_at = give_up_at
        self.hops = 0
        self.reason = ""


class ClusterLine:
    """One line to each master.

    A call returns the future of its master's line. A refused command is sent elsewhere for the same future, so only
    those who are refused pay for it. Calls for one slot stay in order while the slot stays where it is.
    """

    def __init__(
        self,
        url: ClusterUrl,
        *,
        timeout_ms: int,
        max_pending: int,
        prepare: Callable[[ServerLine], Awaitable[None]],
        mend: Mend | None = None,
        is_raw: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._url = url
        self._timeout_s = timeout_ms / 1000
        self._max_pending = max_pending
        self._is_raw = is_raw
        self._new_line = partial(
            ServerLine,
            timeout_ms=timeout_ms,
            max_pending=max_pending,
            prepare=prepare,
            mend=mend,
            is_raw=is_raw,
            clock=clock,
        )
        self._lines: dict[Address, ServerLine] = {}
        self._owners: list[ServerLine | None] = [None] * SLOTS
        self._nodes: frozenset[Address] = frozenset(url.seeds)
        self._detours: dict[Waiter, Detour] = {}
        # Slots that are being migrated, or without a server for too long: why, and until when that counts.
        self._stuck: dict[int, tuple[str, float]] = {}
        self._probe_prefix = ""
        # Something does not fit our map; the node named last knows best.
        self._outdated = asyncio.Event()
        self._ask_first: Address | None = None
        self._failure = "not connected yet"
        self._life = Nursery("redis_cluster")
        self._loop: asyncio.AbstractEventLoop
        self.up = asyncio.Event()
        self.on_up: Callable[[], None] | None = None
        self.on_down: Callable[[str], None] | None = None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            layout = await self._look()
            opened = await asyncio.gather(
                *(self._add_line(master).open() for master in layout.masters), return_exceptions=True
            )
            for failure in opened:
                if failure is not None:
                    raise failure
            self._follow(layout)
            if not self.up.is_set():
                raise RedisAway(self._gap())
        except BaseException as error:
            await self._leave(str(error))
            raise
        self._life.start(self._stay_informed())

    async def close(self) -> None:
        self.on_down = None
        await self._life.close()
        await self._leave("closed")

    def call(self, *command: Argument) -> Waiter:
        line = self._owners[slot_of(key_of(command))]
        if line is None:
            raise NotDone(self._failure)
        return line.call(*command)

    def watch_writes(self, key_prefix: str) -> None:
        self._probe_prefix = key_prefix
        for line in self._lines.values():
            line.probe = partial(self._probe, line)

    def _probe(self, line: ServerLine) -> Command | None:
        """A write to a key of this server, if it has any."""
        keys = (f"{self._probe_prefix}:{{probe:{number}}}" for number in range(MOST_NAMES))
        key = next((key for key in keys if self._owners[slot_of(key)] is line), None)
        return None if key is None else probe_of(key)

    async def another_connection(self) -> AbstractConnection:
        """To any node that is there."""
        there = [address for address, line in self._lines.items() if line.up.is_set()]
        return self._url.connect(random.choice(there or list(self._url.seeds)))

    def servers(self) -> list[ServerLine]:
        return list({line for line in self._owners if line is not None})

    # A command that was refused

    def _refused(self, asked: Address, waiter: Waiter, command: Command, error: RedisError) -> None:
        if not isinstance(error, NOT_HERE_OR_NOT_NOW):
            waiter.set_exception(error)
            return
        detour = self._detours.get(waiter)
        if detour is None:
            if len(self._detours) >= self._max_pending:
                # No line counts them: each has left the one that refused it.
                waiter.set_exception(RedisAway(f"{self._max_pending} commands are already waiting for their server"))
                return
            # Other callers have just waited here without success: fail immediately.
            patience_s = 0.0 if self._stuck and slot_of(key_of(command)) in self._stuck else self._timeout_s
            detour = self._detours[waiter] = Detour(self._clock() + patience_s)
            waiter.add_done_callback(self._detours.pop)
        detour.hops += 1
        detour.reason = f"{type(error).__name__} from {asked}: {error}"
        if isinstance(error, AskError):
            target = Address(asked.host if error.host in ("", "?") else error.host, error.port)
            is_moved = isinstance(error, MovedError)
            line = self._lines.get(target) or self._start_line(target)
            if is_moved:
                self._ask_first = target
                self._outdated.set()
                if line.up.is_set():
                    self._owners[error.slot_id] = line
            if line.up.is_set() and detour.hops <= MAX_HOPS:
                self._resend(line, waiter, command, is_asking=not is_moved)
                return
        elif not isinstance(error, TryAgainError):
            self._outdated.set()
        self._try_later(waiter, command, detour)

    def _resend(self, line: ServerLine, waiter: Waiter, command: Command, *, is_asking: bool = False) -> None:
        try:
            if is_asking:
                # It must be sent right before its command; its reply is ignored.
                line.send(("ASKING",)).cancel()
            line.send(command, waiter)
        except RedisAway as error:
            waiter.set_exception(error)

    def _try_later(self, waiter: Waiter, command: Command, detour: Detour) -> None:
        pause_s = DETOURS.pause_s(detour.hops + 1)
        if self._clock() + pause_s > detour.give_up_at:
            waiter.set_exception(WritesRefused(detour.reason))
            self._stick(slot_of(key_of(command)), detour.reason)
        else:
            self._loop.call_later(pause_s, self._try_again, waiter, command, detour)

    def _stick(self, slot: int, reason: str) -> None:
        if self._probe_prefix:
            self._stuck[slot] = (reason, self._clock() + STUCK_S)
            self._settle()
            self._loop.call_later(STUCK_S + DETOURS.longest_s, self._settle)

    def _try_again(self, waiter: Waiter, command: Command, detour: Detour) -> None:
        if waiter.done():
            return
        line = self._owners[slot_of(key_of(command))]
        if line is not None and line.up.is_set():
            self._resend(line, waiter, command)
        else:
            self._try_later(waiter, command, detour)

    # Who serves what

    async def _stay_informed(self) -> None:
        while True:
            is_quiet = False
            try:
                async with asyncio.timeout(LOOK_EVERY_S if self.up.is_set() else LOOK_AGAIN_S):
                    await self._outdated.wait()
            except TimeoutError:
                is_quiet = self.up.is_set()
            self._outdated.clear()
            try:
                self._follow(await self._look())
                if is_quiet:
                    await self._drop_unused()
            except Exception as error:
                self._failure = str(error) or type(error).__name__
            await asyncio.sleep(LOOK_AT_MOST_EVERY_S)

    async def _look(self) -> Layout:
        """The layout as the first node sees it that sees all of it; else as the one that sees most."""
        best: Layout | None = None
        failure: Exception = RedisAway("no node answers")
        for few in self._whom_to_ask():
            async with aclosing(answers(self._ask(node) for node in few)) as found:
                async for answer in found:
                    if isinstance(answer, Exception):
                        failure = answer
                    elif best is None or answer.covered > best.covered:
                        best = answer
                    if best is not None and best.covered == SLOTS:
                        return best
        if best is not None and best.covered:
            return best
        if best is not None:
            raise RedisAway("the Cluster has no slots assigned yet")
        if isinstance(failure, ResponseError | RedisAway):
            raise failure
        raise RedisAway(str(failure) or f"no node answered within {self._timeout_s:g} s") from failure

    def _whom_to_ask(self) -> Iterable[list[Address]]:
        """Nodes to ask, most reliable first, a few concurrently, so that one that hangs does not delay the rest."""
        first, self._ask_first = self._ask_first, None
        if first is not None:
            yield [first]
        there = [address for address, line in self._lines.items() if line.up.is_set()]
        others = list({*self._nodes, *self._url.seeds} - {*there})
        random.shuffle(there)
        random.shuffle(others)
        everybody = there + others
        for start in range(0, len(everybody), ASK_AT_ONCE):
            yield everybody[start : start + ASK_AT_ONCE]

    async def _ask(self, node: Address) -> Layout:
        line = self._lines.get(node)
        async with asyncio.timeout(self._timeout_s):
            if line is not None and line.up.is_set() and not self._is_raw:
                return read_layout(node, await line.call("CLUSTER", "SLOTS"))
            return read_layout(node, await ask(self._url.connect(node), "CLUSTER", "SLOTS"))

    def _follow(self, layout: Layout) -> None:
        """Slots stay with their former master, who knows where to send us, while the line to the next is set up."""
        owners: list[ServerLine | None] = [None] * SLOTS
        for first, last, master in layout.ranges:
            line = self._lines.get(master) or self._start_line(master)
            slots = slice(first, last + 1)
            if line.up.is_set():
                owners[slots] = [line] * (last + 1 - first)
            else:
                owners[slots] = [now if now is not None and now.up.is_set() else line for now in self._owners[slots]]
        self._owners = owners
        self._nodes = layout.nodes
        self._settle()

    # The lines

    def _add_line(self, address: Address) -> ServerLine:
        async def make_connection() -> AbstractConnection:
            return self._url.connect(address)

        line = self._lines[address] = self._new_line(make_connection, on_error=partial(self._refused, address))
        if self._probe_prefix:
            line.probe = partial(self._probe, line)
        line.on_up = self._settle
        line.on_down = lambda _: self._settle()
        return line

    def _start_line(self, address: Address) -> ServerLine:
        line = self._add_line(address)
        line.start()
        return line

    def _settle(self) -> None:
        """Say so when the last slot is covered, and when the first is not."""
        gap = self._gap()
        if not gap and not self.up.is_set():
            self.up.set()
            if self.on_up is not None:
                self.on_up()
        elif gap and self.up.is_set():
            self._failure = gap
            self._outdated.set()
            self.up.clear()
            if self.on_down is not None:
                self.on_down(gap)

    def _gap(self) -> str:
        owners = set(self._owners)
        if None in owners:
            return f"{self._owners.count(None)} of {SLOTS} slots have no server"
        down = (
            f"{node}: {line.failure}" for node, line in self._lines.items() if line in owners and not line.up.is_set()
        )
        if gap := next(down, ""):
            return gap
        now_s = self._clock()
        self._stuck = {slot: stuck for slot, stuck in self._stuck.items() if stuck[1] > now_s}
        return next((f"slot {slot}: {reason}" for slot, (reason, _) in self._stuck.items()), "")

    async def _drop_unused(self) -> None:
        """Close connections to servers that serve no hash slot any more, or were only asked during a redirect."""
        owners = set(self._owners)
        for node, line in list(self._lines.items()):
            if line not in owners and not line.pending:
                del self._lines[node]
                await line.close()

    async def _leave(self, reason: str) -> None:
        self._failure = reason
        self.up.clear()
        self._owners = [None] * SLOTS
        lines, self._lines = self._lines, {}
        await asyncio.gather(*(line.close() for line in lines.values()))
        for waiter in list(self._detours):
            if not waiter.done():
                waiter.set_exception(RedisAway(reason))
