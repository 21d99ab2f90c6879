"""What an instance counts of each node: added up, written in batches, and kept while Redis is away."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.watching.tallies import TalliedError, TallySums
from lingua_scheduler.services.attempts import tallies as module
from lingua_scheduler.services.attempts.meaning import Meaning
from lingua_scheduler.services.attempts.reports import Answered, Cancelled, LostAttempt, Report
from lingua_scheduler.services.attempts.tallies import NodeCounts
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.losses import Loss

ATTEMPT = Attempt("job-0-1", 1, "n1", 0)


def answer(reason: str = "") -> Report:
    return Answered(cast("Any", None), Meaning(JobEvent.LOSE_ATTEMPT if reason else JobEvent.FINISH, reason))


class Shelf:
    def __init__(self) -> None:
        self.is_away = False
        self.refused: set[str] = set()
        self.meanwhile: Callable[[], None] = lambda: None
        self.kept: dict[str, TallySums] = {}
        self.told: list[tuple[int, str, list[str]]] = []

    async def add(self, shard: int, node_id: str, sums: TallySums, errors: list[TalliedError]) -> None:
        self.meanwhile()
        if self.is_away:
            raise RedisAway("nobody there")
        if node_id in self.refused:
            raise ValueError(node_id)
        self.told.append((shard, node_id, [error.reason for error in errors]))
        self.kept[node_id] = self.kept.get(node_id, TallySums()).plus(sums)


async def test_attempts_are_counted_by_how_they_ended(store: Store) -> None:
    counts = NodeCounts(store.tallies)
    counts.ended(ATTEMPT, answer(), 0.5, 1_000)
    counts.ended(ATTEMPT, answer(), 1.5, 0)
    counts.ended(ATTEMPT, answer("PROCESSING_ERROR"), 0.1, 1_000)
    counts.ended(ATTEMPT, LostAttempt(Loss.JOB_TIMEOUT), 9.0, 1_000)
    # Neither good nor bad.
    counts.ended(ATTEMPT, LostAttempt(Loss.NO_ANSWER), 9.0, 1_000)
    counts.ended(ATTEMPT, Cancelled(), 9.0, 1_000)
    await counts.write()
    await counts.write()
    tally = await store.tallies.read(0, "n1", int(time.time() * 1000))
    assert (tally.done, tally.failed, tally.mean_ms, tally.slowest_ms) == (2, 2, 1_000, 1_500)
    assert tally.real_time_factor == 0.5
    assert {error.reason for error in tally.errors} == {"PROCESSING_ERROR", "job_timeout"}


async def test_nothing_that_was_counted_is_lost_while_redis_is_away() -> None:
    shelf = Shelf()
    counts = NodeCounts(cast("Any", shelf))
    shelf.is_away = True
    counts.ended(ATTEMPT, answer(), 0.5, 0)
    with pytest.raises(RedisAway):
        await counts.write()
    counts.ended(ATTEMPT, answer(), 0.7, 0)
    shelf.is_away = False
    await counts.write()
    assert shelf.kept == {"n1": TallySums(2, 0, 1_200, 700, 0, 0)}


async def test_the_newest_errors_are_told_and_those_of_a_failed_write_before_them() -> None:
    shelf = Shelf()
    counts = NodeCounts(cast("Any", shelf))
    shelf.is_away = True
    counts.ended(ATTEMPT, answer("first"), 0.5, 1_000)
    counts.ended(ATTEMPT, answer(), 0.9, 1_000)

    def meanwhile() -> None:
        counts.ended(ATTEMPT._replace(shard=4), answer("second"), 0.5, 1_000)
        counts.ended(ATTEMPT._replace(shard=4), answer(), 0.2, 2_000)

    shelf.meanwhile = meanwhile
    with pytest.raises(RedisAway):
        await counts.write()
    shelf.meanwhile = lambda: None
    # Neither good nor bad, so it is not written.
    counts.ended(ATTEMPT._replace(node_id="n2"), Cancelled(), 0.5, 0)
    shelf.is_away = False
    await counts.write()
    assert shelf.kept == {"n1": TallySums(2, 2, 1_100, 900, 3_000, 1_100)}
    assert shelf.told == [(4, "n1", ["second", "first"])]


async def test_one_node_that_cannot_be_written_is_no_loss_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOGETHER", 2)
    shelf = Shelf()
    shelf.refused = {"n1"}
    counts = NodeCounts(cast("Any", shelf))
    for name in ("n1", "n2", "n3"):
        counts.ended(ATTEMPT._replace(node_id=name), answer(), 0.5, 0)
    with pytest.raises(ValueError, match="n1"):
        await counts.write()
    assert list(shelf.kept) == ["n2"]
    shelf.refused = set()
    await counts.write()
    assert {name: sums.done for name, sums in shelf.kept.items()} == {"n2": 1, "n3": 1, "n1": 1}


async def test_of_too_many_nodes_the_first_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NODES", 1)
    shelf = Shelf()
    counts = NodeCounts(cast("Any", shelf))
    for name in ("n1", "n2", "n1"):
        counts.ended(ATTEMPT._replace(node_id=name), answer(), 0.5, 0)
    await counts.write()
    assert {name: sums.done for name, sums in shelf.kept.items()} == {"n1": 2}


@pytest.mark.parametrize("refused", [{"n1"}, {"n1", "n2"}])
async def test_the_first_write_that_fails_is_told_and_the_others_are_done(refused: set[str]) -> None:
    shelf = Shelf()
    shelf.refused = refused
    counts = NodeCounts(cast("Any", shelf))
    for node in ("n1", "n2", "n3"):
        counts.ended(ATTEMPT._replace(node_id=node), answer(), 0.5, 1_000)
    with pytest.raises(ValueError, match="n1"):
        await counts.write()
    assert set(shelf.kept) == {"n1", "n2", "n3"} - refused
    shelf.refused = set()
    await counts.write()
    assert {node: sums.done for node, sums in shelf.kept.items()} == {"n1": 1, "n2": 1, "n3": 1}


async def test_five_hundred_nodes_are_written_at_once() -> None:
    class Slow(Shelf):
        writing = most = 0

        async def add(self, shard: int, node_id: str, sums: TallySums, errors: list[TalliedError]) -> None:
            self.writing += 1
            self.most = max(self.most, self.writing)
            await asyncio.sleep(0)
            self.writing -= 1
            await super().add(shard, node_id, sums, errors)

    shelf = Slow()
    counts = NodeCounts(cast("Any", shelf))
    for number in range(1_100):
        counts.ended(ATTEMPT._replace(node_id=f"n{number}"), answer(), 0.5, 0)
    await counts.write()
    assert (shelf.most, len(shelf.kept)) == (500, 1_100)
