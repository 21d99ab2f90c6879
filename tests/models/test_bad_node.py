"""A node that fails fast always looks idle. A simulated fleet on the real scripts shows how much work it draws."""

import heapq
import random
from collections import Counter
from itertools import count
from typing import NamedTuple

from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules, QuarantineVerdict
from lingua_scheduler.domain.jobs.retry_budget import pause_s
from lingua_scheduler.services.attempts.ending import LONGEST
from lingua_scheduler.setting_sections.jobs import JobSettings
from lingua_scheduler.setting_sections.nodes import NodesSettings
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.errors import ErrorCode
from tests.support.clocks import Clock
from tests.support.fleet import RULES, entry, join, order
from tests.support.servers import RedisProcess

BAD = "bad"
GOOD = tuple(f"good-{i}" for i in range(20))
GOOD_MS, BAD_MS = 500, 50
SLOTS = 4
# Three quarters of what the good ones can do.
JOBS_A_SECOND = 120
FIRST_JOBS = 20


class Figures(NamedTuple):
    jobs: int
    lost: int
    taken: Counter[str]
    verdicts: Counter[QuarantineVerdict]

    @property
    def share_later(self) -> float:
        """What the bad node drew after its first jobs, of all work."""
        return max(0, self.taken[BAD] - FIRST_JOBS) / self.taken.total()

    @property
    def hurt(self) -> float:
        """The share of utterances that lost time to the bad node, or everything; none meets it twice."""
        return self.taken[BAD] / self.jobs

    def __str__(self) -> str:
        return (
            f"{self.jobs} utterances, {self.taken.total()} attempts, {self.taken[BAD]} of them on the bad node "
            f"({self.share_later:.2%} of all work after its first {FIRST_JOBS}), "
            f"{self.verdicts[QuarantineVerdict.QUARANTINED]} quarantines, "
            f"{self.hurt:.2%} of utterances delayed, {self.lost} lost"
        )


class Fleet:
    """Time goes from event to event: jobs arrive, attempts end, retries begin."""

    def __init__(self, store: Store, clock: Clock, rules: QuarantineRules | None, seed: int) -> None:
        self._store = store
        self._clock = clock
        self._rules = rules
        self._dice = random.Random(seed)
        self._order = count()
        self._events: list[tuple[float, int, str, tuple[object, ...]]] = []
        self.lost = 0
        self.taken: Counter[str] = Counter()
        self.verdicts: Counter[QuarantineVerdict] = Counter()

    async def run(self, jobs: int) -> Figures:
        for node in (*GOOD, BAD):
            await join(self._store, entry(node, max_jobs=SLOTS, alive_ms=10**9))
        at_ms = float(self._clock.now_ms)
        for serial in range(jobs):
            at_ms += self._dice.expovariate(JOBS_A_SECOND / 1000)
            self._at(at_ms, "begin", serial, 1, ())
        while self._events:
            at_ms, _, what, about = heapq.heappop(self._events)
            self._clock.now_ms = int(at_ms)
            await getattr(self, f"_{what}")(*about)
        return Figures(jobs, self.lost, self.taken, self.verdicts)

    def _at(self, at_ms: float, what: str, *about: object) -> None:
        heapq.heappush(self._events, (at_ms, next(self._order), what, about))

    async def _begin(self, serial: int, number: int, tried: tuple[str, ...]) -> None:
        placed = await self._store.jobs.dispatch(0, order(serial, attempt=number, excluded=tried), RULES)
        if placed.outcome is DispatchOutcome.FULL:
            self._at(self._clock.now_ms + 10, "begin", serial, number, tried)
            return
        assert placed.outcome is DispatchOutcome.DISPATCHED
        self.taken[placed.node_id] += 1
        lasts_ms = BAD_MS if placed.node_id == BAD else GOOD_MS * self._dice.uniform(0.8, 1.2)
        attempt = Attempt(f"job-0-{serial}", number, placed.node_id, 0)
        self._at(self._clock.now_ms + lasts_ms, "end", serial, attempt, placed.epoch, tried)

    async def _end(self, serial: int, attempt: Attempt, epoch: str, tried: tuple[str, ...]) -> None:
        reason = ErrorCode.PROCESSING_ERROR.value if attempt.node_id == BAD else ""
        event = JobEvent.LOSE_ATTEMPT if reason else JobEvent.FINISH
        ended = await self._store.jobs.end(attempt, epoch, event, reason, quarantine=self._rules)
        self.verdicts[ended.verdict] += 1
        if not reason:
            return
        if attempt.number > JobSettings().max_retries:
            self.lost += 1
            return
        pause = pause_s(reason, attempt.number, self._dice.random()) * 1000
        self._at(self._clock.now_ms + pause, "begin", serial, attempt.number + 1, (*tried, attempt.node_id))


async def figures(server: RedisProcess, jobs: int, rules: QuarantineRules | None) -> Figures:
    server.flush()
    clock = Clock()
    store = Store(server.url, key_prefix="sim:v1", clock=clock)
    await store.open()
    try:
        return await Fleet(store, clock, rules, seed=7).run(jobs)
    finally:
        await store.close()


async def test_a_node_that_fails_fast_draws_next_to_nothing(shipped_server: RedisProcess) -> None:
    settings = NodesSettings()
    rules = QuarantineRules(
        settings.quarantine_failures,
        settings.quarantine_window,
        settings.quarantine_consecutive,
        settings.quarantine_ms,
        LONGEST * settings.quarantine_ms,
    )
    guarded = await figures(shipped_server, 10_000, rules)
    print(f"\nwith quarantine:    {guarded}")
    without = await figures(shipped_server, 2_000, None)
    print(f"without quarantine: {without}")
    assert guarded.share_later < 0.01
    assert guarded.hurt < 0.005
    assert guarded.lost == 0
    # Left alone, but not for ever: it had its probes.
    assert guarded.verdicts[QuarantineVerdict.QUARANTINED] >= 2
    assert min(without.share_later, without.hurt) > 0.05, "the world is too kind to show the fault"
