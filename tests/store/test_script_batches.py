"""Calls of one tick share a script, and nobody can tell by the answers."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis.exceptions import ResponseError

from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, EndOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import Dispatched
from lingua_scheduler.store.script_batches import MOST_TOGETHER
from lingua_scheduler.store.store import Store
from tests.support.clusters import Server
from tests.support.fleet import POOL, RULES, dispatch, entry, history, join, ledger, order
from tests.support.scripts import Call, around_scripts
from tests.support.servers import binaries
from tests.support.waiting import until

STRICT = QuarantineRules(failures=2, window=10, consecutive=2, first_ms=60_000, longest_ms=600_000)
OTHER = "zh:en:speech"
# More than the scripts that are loaded on a new connection.
MOST_PENDING = 100


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each script was called."""
    counted: Counter[str] = Counter()

    async def counting(name: str, call: Call) -> Any:
        counted[name] += 1
        return await call()

    around_scripts(monkeypatch, counting)
    return counted


def pending(store: Store) -> int:
    return store.jobs._batches.pending


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that may hang and die."""
    server = Server(str(binaries()["valkey"]), "--save", "")
    yield server
    server.stop()


async def place(store: Store, count: int, first: int = 0) -> list[Attempt]:
    placed = await asyncio.gather(*(dispatch(store, order(serial)) for serial in range(first, first + count)))
    return [attempt for attempt, _ in placed]


async def test_jobs_of_one_tick_are_placed_by_one_script_and_spread_over_the_nodes(
    store: Store, calls: Counter[str]
) -> None:
    for name in "abcd":
        await join(store, entry(name, max_jobs=4))
    attempts = await place(store, 16)
    assert calls["job_dispatch"] == 1
    # Sixteen slots for sixteen jobs: each is taken once, whoever was looked at first.
    assert Counter(attempt.node_id for attempt in attempts) == dict.fromkeys("abcd", 4)
    for name in "abcd":
        assert await ledger(store, name) == (4, 0, 4)


async def test_what_was_ended_in_one_tick_frees_every_slot(store: Store, calls: Counter[str]) -> None:
    for name in "abcd":
        await join(store, entry(name, max_jobs=4))
    attempts = await place(store, 16)
    ended = await asyncio.gather(*(store.jobs.end(attempt, "", JobEvent.FINISH) for attempt in attempts))
    assert calls["attempt_end"] == 1
    assert {one.outcome for one in ended} == {EndOutcome.ENDED}
    for name in "abcd":
        assert await ledger(store, name) == (0, 4, 0)


async def test_more_than_a_script_may_take_go_in_several(store: Store, calls: Counter[str]) -> None:
    await join(store, entry("a", max_jobs=MOST_TOGETHER + 8))
    assert len(await place(store, MOST_TOGETHER + 8)) == MOST_TOGETHER + 8
    assert calls["job_dispatch"] == 2


async def test_each_call_hears_its_own_answer(store: Store) -> None:
    await join(store, entry("a", max_jobs=1))
    await join(store, entry("b", max_jobs=1, pools=frozenset({OTHER})))
    await dispatch(store, order(0))
    answers = await asyncio.gather(
        store.jobs.dispatch(0, order(1), RULES),
        store.jobs.dispatch(0, order(2, excluded=("a",)), RULES),
        store.jobs.dispatch(0, order(3, preferred="a", only_preferred=True), RULES),
        store.jobs.dispatch(0, order(4, preferred="b", only_preferred=True), RULES),
        store.jobs.dispatch(0, order(0), RULES),
        store.jobs.dispatch(0, order(5, pools=(OTHER,)), RULES),
        store.jobs.dispatch(0, order(6, pools=(OTHER, POOL)), RULES),
    )
    assert [answer.outcome.value for answer in answers] == [
        *("full", "exhausted", "busy", "unfit", "dispatched", "dispatched", "nobody")
    ]
    assert [answer.node_id for answer in answers] == ["", "", "", "", "a", "b", ""]


async def test_the_same_job_asked_for_twice_in_one_tick_gets_one_slot(store: Store, calls: Counter[str]) -> None:
    await join(store, entry("a", max_jobs=2))
    twice = await asyncio.gather(*(dispatch(store, order(1)) for _ in range(2)))
    assert twice[0] == twice[1]
    assert await ledger(store, "a") == (1, 1, 1)
    assert calls["job_dispatch"] == 2


async def test_an_attempt_that_is_ended_twice_in_one_tick_ends_once(store: Store) -> None:
    await join(store, entry("a", max_jobs=2))
    first, second = await place(store, 2)
    ended = await asyncio.gather(*(store.jobs.end(one, "", JobEvent.FINISH) for one in (first, first, second)))
    assert [one.outcome for one in ended] == [EndOutcome.ENDED, EndOutcome.STALE, EndOutcome.ENDED]
    assert await ledger(store, "a") == (0, 2, 0)


async def test_what_a_node_says_of_a_job_in_one_tick_is_taken_in_its_order(store: Store) -> None:
    epoch = (await join(store, entry("a", max_jobs=3, acknowledges=True))).epoch
    one, two, three = await place(store, 3)
    said: list[asyncio.Future[Any]] = [
        store.jobs.end(one, epoch, JobEvent.FINISH),
        *(store.jobs.advance(two, epoch, event) for event in (JobEvent.ACCEPT, JobEvent.START)),
        store.jobs.end(two, epoch, JobEvent.FINISH),
        store.jobs.advance(three, epoch, JobEvent.ACCEPT),
        store.jobs.end(three, epoch, JobEvent.FINISH),
    ]
    heard: list[Any] = await asyncio.gather(*said)
    assert [str(getattr(reply, "outcome", reply)) for reply in heard] == [
        *("ended", "advanced", "advanced", "ended", "advanced", "ended")
    ]
    assert [step.state for step in await history(store, two.job_id)] == ["DISPATCHED", "ACCEPTED", "RUNNING", "DONE"]


async def test_failures_of_one_tick_are_counted_one_by_one(store: Store) -> None:
    await join(store, entry("a", max_jobs=3))
    attempts = await place(store, 3)
    events = JobEvent.LOSE_ATTEMPT, JobEvent.LOSE_ATTEMPT, JobEvent.FINISH
    ended = await asyncio.gather(
        *(
            store.jobs.end(attempt, "", event, "JOB_TIMEOUT", quarantine=STRICT)
            for attempt, event in zip(attempts, events, strict=True)
        )
    )
    assert [one.verdict.value for one in ended] == ["", "quarantined", ""]


async def test_what_upsets_a_script_hurts_nobody_else(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else the key is set aside, and nothing upsets the script.
    monkeypatch.setattr("lingua_scheduler.store.mending.MOST_TRIES", 0)
    await join(store, entry("a", max_jobs=8))
    await store.line.call("LPUSH", store.keys.shard(0).job("job-0-1"), "no string")
    answers = await asyncio.gather(
        *(store.jobs.dispatch(0, order(serial), RULES) for serial in range(3)), return_exceptions=True
    )
    assert isinstance(answers[1], ResponseError)
    placed = [answers[0], answers[2]]
    assert [answer.outcome for answer in placed] == [DispatchOutcome.DISPATCHED] * 2  # type: ignore[union-attr]
    assert await ledger(store, "a") == (2, 6, 2)
    attempts = [Attempt(f"job-0-{serial}", 1, "a", 0) for serial in range(3)]
    ended = await asyncio.gather(
        *(store.jobs.end(attempt, "", JobEvent.FINISH) for attempt in attempts), return_exceptions=True
    )
    assert isinstance(ended[1], ResponseError)
    assert [ended[0].outcome, ended[2].outcome] == [EndOutcome.ENDED] * 2  # type: ignore[union-attr]
    assert await ledger(store, "a") == (0, 8, 0)
    assert pending(store) == 0


def kind_of(answer: object) -> type:
    """Whether it was certainly not carried out makes no difference here."""
    return RedisAway if isinstance(answer, RedisAway) else type(answer)


async def test_all_hear_that_redis_is_away(store: Store) -> None:
    await store.close()
    answers = await asyncio.gather(
        *(store.jobs.dispatch(0, order(serial), RULES) for serial in range(3)), return_exceptions=True
    )
    assert [isinstance(answer, RedisAway) for answer in answers] == [True] * 3
    assert pending(store) == 0


async def test_one_who_left_takes_nobody_along(store: Store) -> None:
    await join(store, entry("a", max_jobs=8))
    tasks = [asyncio.ensure_future(store.jobs.dispatch(0, order(serial), RULES)) for serial in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers[1], asyncio.CancelledError)
    assert [answers[0].outcome, answers[2].outcome] == [DispatchOutcome.DISPATCHED] * 2  # type: ignore[union-attr]
    assert pending(store) == 0


@pytest.mark.parametrize("comes_back", [True, False], ids=["comes back", "dies"])
async def test_while_redis_hangs_so_many_may_wait_and_no_more(own_server: Server, comes_back: bool) -> None:
    store = Store(f"redis://{own_server.address}", key_prefix="x", timeout_ms=30_000, max_pending=MOST_PENDING)
    await store.open()
    await join(store, entry("a", max_jobs=MOST_PENDING))
    own_server.signal(signal.SIGSTOP)
    # Of two shards; some are under way, the others wait for them.
    calls = [store.jobs.dispatch(serial % 2, order(serial), RULES) for serial in range(MOST_PENDING // 2)]
    await until(lambda: store.line.servers()[0].pending)
    calls += [
        store.jobs.dispatch(serial % 2, order(serial), RULES) for serial in range(MOST_PENDING // 2, MOST_PENDING)
    ]
    attempt = Attempt("job-0-1", 1, "a", 0)
    asks: list[Callable[[], object]] = [
        lambda: store.jobs.dispatch(2, order("more"), RULES),
        lambda: store.jobs.advance(attempt, "1", JobEvent.ACCEPT),
        lambda: store.jobs.end(attempt, "1", JobEvent.FINISH),
    ]
    for ask in asks:
        with pytest.raises(RedisAway, match="100 calls are already waiting for a reply"):
            ask()
    # Those who left take up their room until it is known what became of their calls.
    for gone in (calls[0], calls[-1]):
        gone.cancel()
    assert pending(store) == MOST_PENDING
    if comes_back:
        own_server.signal(signal.SIGCONT)
    else:
        own_server.kill()
    answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)
    assert Counter(kind_of(answer) for answer in answers) == {
        asyncio.CancelledError: 2,
        Dispatched if comes_back else RedisAway: MOST_PENDING - 2,
    }
    await until(lambda: pending(store) == 0)
    if not comes_back:
        own_server.launch()
        await until(lambda: store.is_ready)
        await join(store, entry("a", max_jobs=MOST_PENDING))
    placed = await asyncio.gather(*(store.jobs.dispatch(0, order(serial), RULES) for serial in range(MOST_PENDING)))
    assert {answer.outcome for answer in placed} == {DispatchOutcome.DISPATCHED}
    assert pending(store) == 0
    await store.close()


async def test_a_server_that_forgot_its_scripts_gets_those_that_are_shared_again(store: Store) -> None:
    await join(store, entry("a", max_jobs=100))
    for server in store.line.servers():
        await server.call("SCRIPT", "FLUSH")
    placed = await asyncio.gather(*(dispatch(store, order(serial)) for serial in range(MOST_TOGETHER + 8)))
    assert len(placed) == MOST_TOGETHER + 8
    assert await ledger(store, "a") == (40, 60, 40)
    assert (pending(store), store.jobs._batches._desks) == (0, {})


async def test_who_waits_when_the_line_is_closed_hears_of_it(store: Store) -> None:
    await join(store, entry("a", max_jobs=100))
    calls = [store.jobs.dispatch(0, order(serial), RULES) for serial in range(MOST_TOGETHER + 8)]
    await asyncio.sleep(0)
    await store.line.close()
    calls += [store.jobs.dispatch(0, order(serial), RULES) for serial in range(50, 52)]
    answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
    assert {kind_of(answer) for answer in answers} <= {RedisAway, Dispatched}
    assert {kind_of(answer) for answer in answers[-2:]} == {RedisAway}
    assert (pending(store), store.jobs._batches._desks) == (0, {})
