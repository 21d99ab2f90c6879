"""One builder for all: who waits gets the same picture, who watches gets every change, and nobody waits for Redis."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from lingua_scheduler.domain.watching.picture import Picture
from lingua_scheduler.services.watching.snapshot import (
    COLD_BUILD_S,
    EVENTS_KEPT,
    HISTORY_MS,
    REST_FACTOR,
    STEPS_KEPT,
    Snapshots,
    TooManyWatchers,
)
from lingua_scheduler.settings import WatchSettings
from lingua_scheduler.store.connection import RedisAway
from tests.support.pictures import AT_MS, alarm, moment, node, picture
from tests.support.waiting import until


class Studio:
    """Makes pictures as the test says: at once or when it is let, or not at all."""

    def __init__(self) -> None:
        self.made = 0
        self.may_go = asyncio.Event()
        self.may_go.set()
        self.is_away = False
        self.shows: Callable[[int], dict[str, Any]] = lambda serial: {}

    async def make(self, before: Picture | None) -> Picture:
        self.made += 1
        await self.may_go.wait()
        if self.is_away:
            raise RedisAway("nobody there")
        at_ms = AT_MS + 1_000 * self.made
        serial = before.serial + 1 if before else 1
        return picture(serial, at_ms=at_ms, now=moment(at_ms), **self.shows(serial))

    def stale(self, before: Picture, now_ms: int) -> Picture:
        return picture(before.serial + 1, is_stale=True, nodes=before.nodes, alarms=[alarm("redis.away")])


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def studio() -> Studio:
    return Studio()


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def snapshots(studio: Studio, seconds: Seconds) -> Snapshots:
    return Snapshots(studio, WatchSettings(max_watchers=3), seconds)


@pytest.fixture
async def running(studio: Studio) -> AsyncIterator[Snapshots]:
    """By the real clock, and quick."""
    snapshots = Snapshots(studio, WatchSettings(interval_ms=60_000, watched_interval_ms=100))
    task = asyncio.create_task(snapshots.run())
    yield snapshots
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# Reading


async def test_fifty_who_wait_for_the_first_picture_get_one_build(studio: Studio, snapshots: Snapshots) -> None:
    studio.may_go.clear()
    waiting = [asyncio.create_task(snapshots.read()) for _ in range(50)]
    await until(lambda: studio.made)
    studio.may_go.set()
    pictures = await asyncio.gather(*waiting)
    assert studio.made == 1
    assert all(one is pictures[0] for one in pictures)


async def test_when_there_is_a_picture_nobody_builds_for_a_reader(studio: Studio, snapshots: Snapshots) -> None:
    first = await snapshots.read()
    for _ in range(1_000):
        assert await snapshots.read() is first
    assert studio.made == 1


async def test_one_who_leaves_while_waiting_does_not_stop_the_build(studio: Studio, snapshots: Snapshots) -> None:
    studio.may_go.clear()
    leaving, staying = asyncio.create_task(snapshots.read()), asyncio.create_task(snapshots.read())
    await until(lambda: studio.made)
    leaving.cancel()
    studio.may_go.set()
    assert (await staying).serial == 1


async def test_readers_start_at_most_one_build_in_thirty_seconds(
    studio: Studio, snapshots: Snapshots, seconds: Seconds
) -> None:
    studio.is_away = True
    for _ in range(3):
        with pytest.raises(RedisAway):
            await snapshots.read()
    assert studio.made == 1
    seconds.now += COLD_BUILD_S - 0.1
    with pytest.raises(RedisAway, match="a moment ago"):
        await snapshots.read()
    assert studio.made == 1
    seconds.now += 0.1
    studio.is_away = False
    assert (await snapshots.read()).serial == 1
    assert studio.made == 2


async def test_when_redis_is_away_the_last_picture_stays_and_is_marked_once(
    studio: Studio, snapshots: Snapshots, seconds: Seconds
) -> None:
    studio.shows = lambda _: {"nodes": [node("n1")]}
    await snapshots.build()
    studio.is_away = True
    seconds.now += 7
    for _ in range(3):
        await snapshots.build()
    stale = await snapshots.read()
    assert (stale.serial, stale.is_stale, [one.node_id for one in stale.nodes]) == (2, True, ["n1"])
    assert snapshots.age_s == 7
    assert [event.kind for event in snapshots.events] == ["alarm.raised"]
    studio.is_away = False
    await snapshots.build()
    assert (await snapshots.read()).is_stale is False
    assert [event.kind for event in snapshots.events] == ["alarm.raised", "alarm.cleared"]
    # A time of which nothing is known is a gap in the curves.
    assert len(snapshots.history) == 2


async def test_what_holds_from_the_start_is_told_once(studio: Studio, snapshots: Snapshots) -> None:
    studio.shows = lambda _: {"alarms": [alarm("nodes.none")]}
    for _ in range(3):
        await snapshots.build()
    assert [(event.kind, event.values["code"]) for event in snapshots.events] == [("alarm.raised", "nodes.none")]


async def test_history_and_events_are_bounded(studio: Studio) -> None:
    snapshots = Snapshots(studio, WatchSettings(history=5))
    studio.shows = lambda serial: {"nodes": [node(f"n{serial}-{number}") for number in range(60)]}
    for _ in range(12):
        await snapshots.build()
    assert [one.at_ms for one in snapshots.history] == [AT_MS + 1_000 * number for number in range(8, 13)]
    assert len(snapshots.events) == EVENTS_KEPT < snapshots.events_total


async def test_the_curves_reach_back_half_an_hour(studio: Studio, snapshots: Snapshots) -> None:
    await snapshots.build()
    studio.made += HISTORY_MS // 1_000
    await snapshots.build()
    assert len(snapshots.history) == 1


# Watching


async def test_a_watcher_starts_over_once_and_then_follows_step_by_step(snapshots: Snapshots) -> None:
    await snapshots.build()
    with snapshots.subscribe() as watcher:
        assert watcher.steps() is None
        assert watcher.steps() == []
        await snapshots.build()
        await snapshots.build()
        steps = watcher.steps()
        assert steps is not None
        assert [(step.before.serial, step.after.serial) for step in steps] == [(1, 2), (2, 3)]


async def test_a_watcher_that_falls_behind_starts_over(snapshots: Snapshots) -> None:
    await snapshots.build()
    with snapshots.subscribe() as watcher:
        watcher.steps()
        for _ in range(STEPS_KEPT):
            await snapshots.build()
        steps = watcher.steps()
        assert steps is not None
        assert len(steps) == STEPS_KEPT
        for _ in range(STEPS_KEPT + 1):
            await snapshots.build()
        assert watcher.steps() is None
        assert watcher.steps() == []


async def test_events_reach_a_watcher_once_even_if_it_looks_seldom(studio: Studio, snapshots: Snapshots) -> None:
    studio.shows = lambda serial: {"nodes": [node(f"n{serial}")]}
    await snapshots.build()
    with snapshots.subscribe() as watcher:
        assert watcher.events() == []
        for _ in range(STEPS_KEPT * 2):
            await snapshots.build()
        assert len(watcher.events()) == STEPS_KEPT * 4
        assert watcher.events() == []


async def test_only_so_many_may_watch_and_who_leaves_makes_room(snapshots: Snapshots) -> None:
    watchers = [snapshots.subscribe() for _ in range(3)]
    with pytest.raises(TooManyWatchers):
        snapshots.subscribe()
    snapshots.leave(watchers[0])
    with snapshots.subscribe():
        pass


async def test_pictures_come_faster_while_somebody_watches(studio: Studio, running: Snapshots) -> None:
    await until(lambda: running.latest)
    assert studio.made == 1
    with running.subscribe():
        await until(lambda: studio.made >= 3)


async def test_a_slow_build_is_followed_by_a_long_rest(studio: Studio, seconds: Seconds) -> None:
    snapshots = Snapshots(studio, WatchSettings(interval_ms=1_000, watched_interval_ms=1_000), seconds)
    studio.may_go.clear()
    building = asyncio.create_task(snapshots.build())
    await until(lambda: studio.made)
    seconds.now += 2
    studio.may_go.set()
    await building
    assert snapshots._interval_s() == 2 * REST_FACTOR


async def test_a_build_that_fails_does_not_end_the_builder(studio: Studio, running: Snapshots) -> None:
    await until(lambda: running.latest)

    def broken(_: int) -> dict[str, Any]:
        raise ValueError("a surprise")

    studio.shows = broken
    with running.subscribe():
        await until(lambda: studio.made >= 3)
        studio.shows = lambda _: {}
        await until(lambda: running.latest and running.latest.serial >= 3)


async def test_those_who_watch_hear_that_it_is_over(snapshots: Snapshots) -> None:
    with snapshots.subscribe() as watcher:
        watcher.news.clear()
        snapshots.close()
        await watcher.news.wait()
        assert snapshots.is_closed
