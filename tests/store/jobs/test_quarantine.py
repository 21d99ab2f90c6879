"""A node that keeps failing is left alone for a while, then proves itself with a single job."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules, QuarantineVerdict
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, POOL, RULES, RUN_MS, dispatch, entry, join, order

STRICT = QuarantineRules(failures=5, window=20, consecutive=3, first_ms=60_000, longest_ms=600_000)
ALIVE_MS = 100_000_000


class Ward:
    """A fleet whose nodes fail and succeed as the test says."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self._serial = 0

    async def join(self, *nodes: str, max_jobs: int = 2) -> None:
        for node in nodes:
            await join(self.store, entry(node, alive_ms=ALIVE_MS, max_jobs=max_jobs))

    async def give(self, *but: str, **more: Any) -> tuple[Attempt, str]:
        """A job to anybody else; its attempt, and the epoch its node must name."""
        self._serial += 1
        attempt, placed = await dispatch(self.store, order(self._serial, excluded=but, **more))
        return attempt, placed.epoch

    async def ask(self, *but: str, **more: Any) -> DispatchOutcome:
        self._serial += 1
        return (await self.store.jobs.dispatch(0, order(self._serial, excluded=but, **more), RULES)).outcome

    async def end(self, given: tuple[Attempt, str], is_good: bool) -> QuarantineVerdict:
        self.clock.pass_ms(1)
        event, reason = (JobEvent.FINISH, "") if is_good else (JobEvent.LOSE_ATTEMPT, "PROCESSING_ERROR")
        return (await self.store.jobs.end(*given, event, reason, quarantine=STRICT)).verdict

    async def live(self, outcomes: str) -> list[QuarantineVerdict]:
        """One job after the other, for whoever gets them."""
        return [await self.end(await self.give(), outcome == "o") for outcome in outcomes]

    async def until_ms(self, node: str) -> int | None:
        score = await self.store.line.call("ZSCORE", self.store.keys.shard(0).sick, node)
        return None if score is None else int(float(score))

    async def is_forgotten(self) -> bool:
        keys = self.store.keys.shard(0)
        return not await self.store.line.call("EXISTS", keys.sick, keys.trouble)


@pytest.fixture
def ward(store: Store, clock: Clock) -> Ward:
    return Ward(store, clock)


async def test_three_failures_in_a_row_quarantine_a_node(ward: Ward, clock: Clock) -> None:
    await ward.join("bad")
    assert await ward.live("ooxxoxxx") == [QuarantineVerdict.UNCHANGED] * 7 + [QuarantineVerdict.QUARANTINED]
    assert await ward.until_ms("bad") == clock.now_ms + 60_000


async def test_five_failures_among_the_last_twenty_do_too(ward: Ward) -> None:
    await ward.join("bad")
    verdicts = await ward.live("xooooxooooxooooxoooox")
    # The first failure is the twenty-first back when the fifth comes.
    assert set(verdicts) == {QuarantineVerdict.UNCHANGED}
    assert await ward.live("oox") == [
        QuarantineVerdict.UNCHANGED,
        QuarantineVerdict.UNCHANGED,
        QuarantineVerdict.QUARANTINED,
    ]


async def test_a_node_that_only_succeeds_leaves_no_trace(ward: Ward) -> None:
    await ward.join("good")
    await ward.live("o" * 30)
    assert await ward.is_forgotten()


async def test_old_failures_are_forgotten(ward: Ward) -> None:
    await ward.join("good")
    await ward.live("xx" + "o" * 19)
    assert not await ward.is_forgotten()
    await ward.live("o")
    assert await ward.is_forgotten()


async def test_a_quarantined_node_gets_no_work_while_a_healthy_one_exists(ward: Ward) -> None:
    await ward.join("bad")
    await ward.live("xxx")
    await ward.join("good", max_jobs=3)
    given = [await ward.give() for _ in range(3)]
    assert {attempt.node_id for attempt, _ in given} == {"good"}
    # Busy or not: the healthy one is worth waiting for.
    assert await ward.ask() is DispatchOutcome.FULL
    # But not when it has failed this very job, or is gone.
    assert (await ward.give("good"))[0].node_id == "bad"


async def test_a_fleet_of_quarantined_nodes_does_not_go_dark(ward: Ward) -> None:
    await ward.join("bad-1", "bad-2", max_jobs=4)
    await ward.live("xxxxxx")
    assert await ward.until_ms("bad-1")
    assert await ward.until_ms("bad-2")
    chosen = Counter([(await ward.give())[0].node_id for _ in range(8)])
    # The least loaded one each time.
    assert chosen == {"bad-1": 4, "bad-2": 4}
    assert await ward.ask() is DispatchOutcome.FULL


async def test_a_quarantine_that_ran_out_allows_a_single_probe(ward: Ward, clock: Clock) -> None:
    await ward.join("bad")
    await ward.live("xxx")
    await ward.join("good", max_jobs=1)
    clock.pass_ms(60_000 - 1)
    assert await ward.ask("good") is DispatchOutcome.DISPATCHED  # the last resort
    busy = await ward.give()
    assert busy[0].node_id == "good"
    assert await ward.ask() is DispatchOutcome.FULL
    clock.pass_ms(1)
    assert (await ward.give())[0].node_id == "bad"
    assert await ward.ask() is DispatchOutcome.FULL
    # Nobody heard of the probe again: another one, when its time is up.
    clock.pass_ms(RUN_MS)
    assert await ward.until_ms("bad") == clock.now_ms


async def test_fifty_racing_callers_make_one_probe(ward: Ward, clock: Clock) -> None:
    await ward.join("bad", max_jobs=50)
    await ward.live("xxx")
    await ward.join("good", max_jobs=1)
    await ward.give("bad")
    clock.pass_ms(60_000)
    outcomes = await asyncio.gather(*(ward.ask() for _ in range(50)))
    assert Counter(outcomes) == {DispatchOutcome.DISPATCHED: 1, DispatchOutcome.FULL: 49}


async def test_a_probe_that_succeeds_ends_it(ward: Ward, clock: Clock) -> None:
    await ward.join("bad", "good")
    await quarantine(ward, "bad")
    clock.pass_ms(60_000)
    assert await ward.end(await ward.give("good"), is_good=True) is QuarantineVerdict.RECOVERED
    assert await ward.is_forgotten()


async def test_each_probe_that_fails_doubles_the_time_up_to_ten_times(ward: Ward, clock: Clock) -> None:
    await ward.join("bad", "good")
    await quarantine(ward, "bad")
    lasted = []
    for _ in range(6):
        clock.pass_ms((await ward.until_ms("bad") or 0) - clock.now_ms)
        assert await ward.end(await ward.give("good"), is_good=False) is QuarantineVerdict.QUARANTINED
        lasted.append((await ward.until_ms("bad") or 0) - clock.now_ms)
    assert lasted == [120_000, 240_000, 480_000, 600_000, 600_000, 600_000]


async def test_what_was_given_before_the_quarantine_proves_nothing(ward: Ward) -> None:
    await ward.join("bad", max_jobs=8)
    given = [await ward.give() for _ in range(6)]
    verdicts = [await ward.end(one, is_good) for one, is_good in zip(given, [False] * 4 + [True, False], strict=True)]
    assert (
        verdicts
        == [QuarantineVerdict.UNCHANGED] * 2 + [QuarantineVerdict.QUARANTINED] + [QuarantineVerdict.UNCHANGED] * 3
    )
    assert await ward.until_ms("bad")
    # What it was given since, as the last resort, does.
    assert await ward.end(await ward.give(), is_good=True) is QuarantineVerdict.RECOVERED


async def test_a_message_that_is_stale_is_no_evidence(ward: Ward) -> None:
    await ward.join("bad")
    await ward.live("xx")
    given = await ward.give()
    await ward.end(given, is_good=True)
    assert await ward.end(given, is_good=False) is QuarantineVerdict.UNCHANGED
    assert await ward.until_ms("bad") is None


async def test_a_bound_node_in_quarantine_is_not_waited_for(ward: Ward) -> None:
    await ward.join("bad")
    await ward.live("xxx")
    await ward.join("good")
    assert await ward.ask(preferred="bad", only_preferred=True) is DispatchOutcome.UNFIT
    assert (await ward.give(preferred="bad"))[0].node_id == "good"


async def test_a_nodes_entries_go_with_it(ward: Ward, store: Store) -> None:
    await ward.join("bad")
    await ward.live("xxx")
    late = await ward.give()
    await store.nodes.remove(0, HERE, "bad", frozenset({POOL}))
    assert await ward.is_forgotten()
    # A verdict about a node that is not there any more leaves nothing behind.
    await store.jobs.end(late[0], "", JobEvent.LOSE_ATTEMPT, "job_timeout", quarantine=STRICT)
    assert await ward.is_forgotten()


async def test_a_view_tells_how_long_a_quarantine_lasts(ward: Ward, store: Store, clock: Clock) -> None:
    await ward.join("bad", "good")
    await quarantine(ward, "bad")
    views = {view.node_id: view for view in await store.node_views.all()}
    assert views["bad"].quarantined_until_ms == clock.now_ms + 60_000
    assert views["good"].quarantined_until_ms is None


async def quarantine(ward: Ward, node: str, others: tuple[str, ...] = ("good",)) -> None:
    for _ in range(3):
        given = await ward.give(*others)
        assert given[0].node_id == node
        await ward.end(given, is_good=False)
