"""The queue for slots: FIFO per pool, bounded, woken when a slot is released."""

import asyncio
from bisect import insort
from collections.abc import Callable, Collection
from itertools import count

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.domain.jobs.queue_control import QueueAdmission
from lingua_scheduler.domain.pools.names import public_name
from lingua_scheduler.telemetry import metrics


def node_queue(node_id: str) -> str:
    """The queue of jobs that wait for one particular node."""
    return f"node {node_id}"


def retry_queue(pool: str) -> str:
    """The queue of retries, which may not return to the nodes where they failed."""
    return f"retry {pool}"


def either_queue(private: str) -> str:
    """The queue of jobs for which a private node will do, and a public one that serves the same."""
    return f"{_EITHER}{private}"


_RETRY = "retry "
_EITHER = "either "


def _pool_of(queue: str) -> str:
    return queue.removeprefix(_RETRY).removeprefix(_EITHER)


# Dismissed jobs that are remembered in case they are only just beginning to wait.
DISMISSED_MAX = 1_000


class _Waiter:
    __slots__ = ("is_in_line", "job_id", "principal", "ticket", "woken")

    def __init__(self, ticket: int, woken: asyncio.Future[bool], job_id: str, principal: Principal) -> None:
        self.job_id = job_id
        self.principal = principal
        self.ticket = ticket
        self.woken = woken
        self.is_in_line = True

    def __lt__(self, other: "_Waiter") -> bool:
        return self.ticket < other.ticket


class WaitingRoom:
    """Queued jobs that found every candidate full. A woken job tries again and keeps its position if it must return."""

    def __init__(self, queue_max: int, queue_wait_s: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._queue_max = queue_max
        self._queue_wait_s = queue_wait_s
        self._clock = clock
        self._tickets = count()
        self._queues: dict[str, list[_Waiter]] = {}
        # Those of them whose jobs are served by slots of two pools. Usually there is none.
        self._either: set[str] = set()
        # How those queues move. Retries have waited once already: their line is never kept short.
        self._lines: dict[str, QueueAdmission] = {}
        # Woken jobs that are trying: newcomers still stand behind them.
        self._trying: dict[str, int] = {}
        # Lines whose head was woken without a release of ours.
        self._poked: set[str] = set()
        # Those that can be sent away by name.
        self._by_job: dict[str, _Waiter] = {}
        # Jobs that were dismissed and did not wait just then.
        self._dismissed: dict[str, None] = {}
        # Called with slots for which no job waits here.
        self.on_unclaimed: Callable[[Collection[str]], None] | None = None

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def ticket(self) -> int:
        return next(self._tickets)

    def must_queue(self, pool: str) -> bool:
        return pool in self._queues or pool in self._trying

    def is_full(self, pool: str) -> bool:
        """Load shedding: whether new jobs are rejected, because the queue is full, or long and not shrinking."""
        length, line = len(self._queues.get(pool, ())), self._lines.get(pool)
        # A job that is trying comes back if it finds no slot, so its place is not free.
        if length + self._trying.get(pool, 0) >= self._queue_max:
            return True
        return line is not None and line.is_full(length)

    async def wait(
        self, pool: str, ticket: int, timeout_s: float, job_id: str = "", principal: Principal = LOCAL
    ) -> bool:
        """Wait. True: try again, then call `tried`. False: the time is up, or the job was dismissed."""
        if job_id in self._dismissed:
            return False
        waiter = _Waiter(ticket, asyncio.get_running_loop().create_future(), job_id, principal)
        queue = self._queues.setdefault(pool, [])
        insort(queue, waiter)
        if _EITHER in pool:
            self._either.add(pool)
        if pool not in self._lines and not pool.startswith("retry "):
            self._lines[pool] = QueueAdmission(self._queue_wait_s, self._clock())
        if job_id:
            self._by_job[job_id] = waiter
        metrics.QUEUED.inc()
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter.woken
        except BaseException as error:
            if waiter.woken.done() and not waiter.woken.cancelled() and waiter.woken.result():
                # Woken in the same tick in which it left: wake another job instead.
                self.tried(pool)
                self._wake(pool)
            if isinstance(error, TimeoutError):
                return False
            raise
        finally:
            metrics.QUEUED.dec()
            self._by_job.pop(job_id, None)
            if waiter.is_in_line:
                queue.remove(waiter)
                if not queue and self._queues.get(pool) is queue:
                    self._is_empty(pool)

    def tried(self, pool: str, found_a_slot: bool = False) -> None:
        """A woken job has tried. If it got a slot after a poke, there may be more slots, so the next job is woken."""
        left = self._trying.get(pool, 0) - 1
        if left > 0:
            self._trying[pool] = left
        else:
            self._trying.pop(pool, None)
        if found_a_slot and (line := self._lines.get(pool)) is not None:
            line.served(len(self._queues[pool]), self._clock())
        if pool in self._poked:
            if found_a_slot:
                self._wake(pool)
            else:
                self._poked.discard(pool)

    def slot_freed(self, node_id: str, pools: Collection[str]) -> None:
        """One slot is free: wake the job that waits for this node, or that waits longest for one of its pools."""
        queues = self._queues
        if not queues:
            if self.on_unclaimed is not None:
                self.on_unclaimed(pools)
            return
        if node_queue(node_id) in queues:
            self._wake(node_queue(node_id))
            return
        if self._either:
            self._wake_either(pools)
        # There may be a line for each of a thousand nodes, or a thousand pools of one: whichever is less is looked at.
        if len(pools) < len(queues):
            wanted = [pool for pool in pools if pool in queues]
            retries = [name for name in map(retry_queue, pools) if name in queues]
        else:
            wanted = [name for name in queues if name in pools]
            retries = [name for name in queues if name.startswith("retry ") and name[6:] in pools]
        if wanted:
            self._wake(min(wanted, key=lambda pool: queues[pool][0].ticket))
        elif self.on_unclaimed is not None:
            self.on_unclaimed(pools)
        # Retries look too: whether this slot is of any use to them only Redis knows.
        for name in retries:
            self._wake(name)

    def _wake_either(self, pools: Collection[str]) -> None:
        """They look as retries do: others that wait for the same slot may be quicker."""
        for queue in [name for name in self._either if _pool_of(name) in pools or public_name(_pool_of(name)) in pools]:
            self._wake(queue)

    def poke(self) -> None:
        """Wake the head of every queue: the signal of a release elsewhere may have been lost."""
        self._poked = set(self._queues)
        for pool in self._poked:
            self._wake(pool)

    def poke_pool(self, pool: str) -> None:
        """A slot of this pool became free elsewhere."""
        for queue in (pool, retry_queue(pool)):
            if queue in self._queues:
                self._poked.add(queue)
                self._wake(queue)
        if self._either:
            self._wake_either((pool,))

    def dismiss(self, job_id: str) -> None:
        """The job is no longer wanted: remove it from its queue."""
        waiter = self._by_job.get(job_id)
        if waiter is None:
            # It may be about to wait.
            self._dismissed[job_id] = None
            if len(self._dismissed) > DISMISSED_MAX:
                del self._dismissed[next(iter(self._dismissed))]
        elif not waiter.woken.done():
            waiter.woken.set_result(False)

    def dismiss_of(self, is_meant: Callable[[Principal], bool]) -> list[str]:
        """Ids of the waiting jobs of these callers. Those that have none, and so no record, are removed at once."""
        found = [waiter for queue in self._queues.values() for waiter in queue if is_meant(waiter.principal)]
        for waiter in found:
            if not waiter.job_id and not waiter.woken.done():
                waiter.woken.set_result(False)
        return [waiter.job_id for waiter in found if waiter.job_id]

    def by_pool(self) -> dict[str, int]:
        """Number of waiting jobs per pool."""
        counts: dict[str, int] = {}
        for name, queue in self._queues.items():
            if not name.startswith("node "):
                pool = _pool_of(name)
                counts[pool] = counts.get(pool, 0) + len(queue)
        return counts

    def pools(self, most: int) -> list[str]:
        """Pools with waiting jobs, without the queues for particular nodes."""
        names = dict.fromkeys(_pool_of(queue) for queue in self._queues if not queue.startswith("node "))
        if self._either:
            names |= dict.fromkeys(public_name(_pool_of(queue)) for queue in self._either)
        return list(names)[:most]

    def _wake(self, pool: str) -> None:
        """Wake the first job that is still waiting."""
        queue = self._queues.get(pool, [])
        while queue:
            waiter = queue.pop(0)
            waiter.is_in_line = False
            if not queue:
                self._is_empty(pool)
            if not waiter.woken.done():
                self._trying[pool] = self._trying.get(pool, 0) + 1
                waiter.woken.set_result(True)
                return

    def _is_empty(self, pool: str) -> None:
        del self._queues[pool]
        self._either.discard(pool)
        self._lines.pop(pool, None)
