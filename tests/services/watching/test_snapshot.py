"""One builder for all: who waits gets the same picture, who watches gets every change, and nobody waits for Redis."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from lingua_scheduler.domain.watching.chronicle import FleetMemory
from lingua_scheduler.domain.watching.picture import Picture
from lingua_scheduler.services.watching.chronicle import Chronicle
from lingua_scheduler.services.watching.snapshot import Snapshots, TooManyOfAddress, TooManyWatchers
from lingua_scheduler.setting_sections.watching import WatchSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.store.watching.chronicle import EVENTS_MAX, MOMENTS_KEEP_MS
from tests.support.pictures import AT_MS, alarm, instance, moment, node, picture
from tests.support.waiting import until

# As plain values: a limit that changes is noticed.
COLD_BUILD_S = 30.0
REST_FACTOR = 20
SOON_REST_FACTOR = 4
SOON_S = 0.1
STEPS_KEPT = 8


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

    def memory(self, picture: Picture) -> FleetMemory:
        return FleetMemory(at_ms=picture.at_ms, made_by="i1", alarms=picture.alarms)

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
def chronicle(store: Store) -> Chronicle:
    return Chronicle(store.chronicle, lambda: True)


@pytest.fixture
def snapshots(studio: Studio, chronicle: Chronicle, seconds: Seconds) -> Snapshots:
    return Snapshots(studio, WatchSettings(max_watchers=3), chronicle, seconds)


@pytest.fixture
async def running(studio: Studio, chronicle: Chronicle) -> AsyncIterator[Snapshots]:
    """By the real clock, and quick."""
    snapshots = Snapshots(studio, WatchSettings(interval_ms=60_000, watched_interval_ms=100), chronicle)
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
    with pytest.raises(RedisAway, match="the last attempt to read it failed"):
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
        assert (await snapshots.build()).is_stale
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


async def test_history_and_events_are_bounded(studio: Studio, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_scheduler.services.watching.chronicle.MOMENTS_MAX", 5)
    snapshots = Snapshots(studio, WatchSettings(), Chronicle(store.chronicle, lambda: True))
    studio.shows = lambda serial: {"instances": [instance(f"i{serial}-{number}") for number in range(60)]}
    for _ in range(12):
        await snapshots.build()
    assert [one.at_ms for one in snapshots.history] == [AT_MS + 1_000 * number for number in range(8, 13)]
    assert len(snapshots.events) == EVENTS_MAX < snapshots.events_total


async def test_alarms_that_come_and_go_do_not_displace_what_happened(studio: Studio, snapshots: Snapshots) -> None:
    studio.shows = lambda serial: {
        "nodes": [] if serial > 1 else [node("n1")],
        "alarms": [alarm("pair.lost", f"x{serial}:y{number}") for number in range(50)],
    }
    for _ in range(14):
        await snapshots.build()
    assert "node.left" in {event.kind for event in snapshots.events}


async def test_the_curves_reach_back_half_an_hour(studio: Studio, snapshots: Snapshots) -> None:
    await snapshots.build()
    studio.made += MOMENTS_KEEP_MS // 1_000
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


async def test_a_slow_build_is_followed_by_a_long_rest(studio: Studio, chronicle: Chronicle, seconds: Seconds) -> None:
    snapshots = Snapshots(studio, WatchSettings(interval_ms=1_000, watched_interval_ms=1_000), chronicle, seconds)
    studio.may_go.clear()
    building = asyncio.create_task(snapshots.build())
    await until(lambda: studio.made)
    seconds.now += 2
    studio.may_go.set()
    await building
    assert snapshots._interval_s() == 2 * REST_FACTOR


@pytest.mark.expects_surprise("snapshot.failed")
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


# The return of Redis


async def away(studio: Studio, snapshots: Snapshots) -> None:
    await snapshots.read()
    studio.is_away = True
    snapshots.build_soon()
    assert (await snapshots.build()).is_stale


async def test_when_redis_is_back_a_reader_is_not_told_that_it_is_away(studio: Studio, snapshots: Snapshots) -> None:
    await away(studio, snapshots)
    assert (await snapshots.read()).is_stale
    studio.is_away = False
    snapshots.build_soon()
    assert not (await snapshots.read()).is_stale


async def test_a_build_that_began_while_redis_was_away_is_not_the_answer(studio: Studio, snapshots: Snapshots) -> None:
    await away(studio, snapshots)
    studio.may_go.clear()
    failing = asyncio.create_task(snapshots.build())
    await until(lambda: snapshots.building.is_running)
    reading = asyncio.create_task(snapshots.read())
    await asyncio.sleep(0)
    snapshots.build_soon()
    studio.may_go.set()
    assert (await failing).is_stale
    studio.is_away = False
    assert not (await reading).is_stale


async def test_a_picture_waits_for_the_nodes_that_are_written_again(studio: Studio, snapshots: Snapshots) -> None:
    await away(studio, snapshots)
    studio.is_away = False
    made = studio.made
    snapshots.settled.clear()
    snapshots.build_soon()
    readers = [asyncio.create_task(snapshots.read()) for _ in range(3)]
    await until(lambda: snapshots.building.is_running)
    assert studio.made == made
    snapshots.settled.set()
    assert not any(picture.is_stale for picture in await asyncio.gather(*readers))
    assert studio.made == made + 1


async def test_while_redis_is_away_readers_are_answered_from_memory(studio: Studio, snapshots: Snapshots) -> None:
    await away(studio, snapshots)
    made = studio.made
    assert (await snapshots.read()).is_stale
    assert studio.made == made


# Pace


@pytest.mark.parametrize(
    ("is_due", "is_watched", "took_s", "interval_s"),
    [
        (False, False, 0.0, 5.0),
        (False, True, 0.0, 1.0),
        (False, True, 2.0, 2.0 * REST_FACTOR),
        (False, False, 0.1, 5.0),
        (True, False, 0.0, SOON_S),
        (True, True, 3.0, 3.0 * SOON_REST_FACTOR),
    ],
)
def test_the_pause_depends_on_who_watches_and_on_what_a_picture_costs(
    studio: Studio, chronicle: Chronicle, is_due: bool, is_watched: bool, took_s: float, interval_s: float
) -> None:
    snapshots = Snapshots(studio, WatchSettings(interval_ms=5_000, watched_interval_ms=1_000), chronicle)
    assert snapshots._interval_s() == 5.0
    snapshots._is_due, snapshots._took_s = is_due, took_s
    if is_watched:
        snapshots.subscribe()
    assert snapshots._interval_s() == interval_s


async def test_what_redis_went_through_is_shown_soon_also_in_a_long_pause(studio: Studio, chronicle: Chronicle) -> None:
    snapshots = Snapshots(studio, WatchSettings(interval_ms=60_000), chronicle)
    task = asyncio.create_task(snapshots.run())
    await until(lambda: snapshots.latest is not None)
    snapshots.build_soon()
    await until(lambda: studio.made == 2)
    assert not snapshots._is_due
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_watchers_of_an_address_are_counted_until_they_leave(studio: Studio, chronicle: Chronicle) -> None:
    snapshots = Snapshots(studio, WatchSettings(max_watchers=10, max_watchers_per_address=1), chronicle)
    first = snapshots.subscribe("a")
    assert snapshots.is_watched
    with pytest.raises(TooManyOfAddress):
        snapshots.subscribe("a")
    snapshots.subscribe("b")
    for _ in range(2):
        snapshots.subscribe()
    snapshots.leave(first)
    snapshots.leave(first)
    again = snapshots.subscribe("a")
    with pytest.raises(TooManyOfAddress):
        snapshots.subscribe("a")
    snapshots.leave(again)
    assert "a" not in snapshots._of_address


async def test_without_watchers_none_is_counted(studio: Studio, snapshots: Snapshots) -> None:
    with snapshots.subscribe("a"), snapshots.subscribe("a"), snapshots.subscribe():
        assert snapshots._of_address == {"a": 2}
        assert snapshots.is_watched
    assert not snapshots.is_watched
    assert len(snapshots._of_address) == 0


async def test_every_picture_is_told_and_kept_as_a_step(studio: Studio, snapshots: Snapshots, seconds: Seconds) -> None:
    told: list[int] = []
    snapshots.on_picture.append(lambda found: told.append(found.serial))
    watcher = snapshots.subscribe()
    studio.shows = lambda serial: {"nodes": [node(f"n{serial}")]}
    await snapshots.build()
    assert watcher.news.is_set()
    assert not snapshots.steps
    await snapshots.build()
    assert told == [1, 2]
    (step,) = snapshots.steps
    assert (step.before.serial, step.after.serial) == (1, 2)
    assert snapshots.events_total == len(step.events) > 0
    seconds.now += 3
    assert snapshots.age_s == 3.0
    watcher.news.clear()
    snapshots.close()
    assert (snapshots.is_closed, watcher.news.is_set()) == (True, True)


async def test_before_the_first_picture_a_watcher_has_nothing_to_follow(snapshots: Snapshots) -> None:
    watcher = snapshots.subscribe()
    assert watcher.steps() == []
    assert watcher.events() == []
    await snapshots.build()
    assert watcher.steps() is None
