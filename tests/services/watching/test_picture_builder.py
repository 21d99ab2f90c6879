"""The picture of the whole deployment: every figure of it, from what instances, nodes and Redis tell."""

import asyncio
import time
from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.watching.alarms import LostNode
from lingua_scheduler.domain.watching.chronicle import FleetMemory
from lingua_scheduler.domain.watching.demanded import DemandMemory, PairMemory
from lingua_scheduler.domain.watching.failures import FailedJob
from lingua_scheduler.domain.watching.figures import Figures
from lingua_scheduler.domain.watching.handling import AlarmAction, alarm_id
from lingua_scheduler.domain.watching.latency import LatencyTally
from lingua_scheduler.domain.watching.pair_work import PairWork
from lingua_scheduler.domain.watching.picture import Level, Picture
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.watching.chronicle import Chronicle
from lingua_scheduler.services.watching.picture_builder import PictureMaker
from lingua_scheduler.setting_sections.instances import InstancesSettings
from lingua_scheduler.store.cluster.instances import Me
from lingua_scheduler.store.store import Store
from tests.support.fleet import HERE as OWNER
from tests.support.fleet import POOL, dispatch, entry, join, order, wide_entry
from tests.support.mail import ROOMY, letter
from tests.support.pictures import alarm, job, moment, node
from tests.support.schedulers import settings_with

HERE, THERE, DEAD = "i-here", "i-there", "i-dead"


def me(instance: str) -> Me:
    return Me(instance, "life-1", "host", 7, "1.2", 11, seals="results", address="host:1")


def figures(**more: Any) -> Figures:
    about: dict[str, Any] = {"life": "life-1", "at_ms": 1_000}
    return Figures(**(about | more))


class Site:
    """One instance that makes pictures, and others that only tell their figures."""

    def __init__(self, store: Store, **settings: Any) -> None:
        self.store = store
        self.own = figures()
        self.is_leading = True
        self.presence = Presence(me(HERE), store, InstancesSettings())
        self.chronicle = Chronicle(store.chronicle, lambda: self.is_leading)
        self.maker = PictureMaker(self.presence, store, settings_with(**settings), self.chronicle, lambda: self.own)

    async def join(self, *others: str) -> None:
        for name in (HERE, *others):
            await self.store.inboxes.prepare(name)
            await self.store.instances.join(me(name), 6_000)

    async def tell(self, instance: str, told: Figures) -> None:
        await self.store.instances.show(instance, msgspec.json.encode(told))

    async def remember(self, at_ms: int, **more: Any) -> None:
        memory = FleetMemory(at_ms=at_ms, made_by=THERE, **more)
        await self.store.chronicle.write([], moment(at_ms), memory)


@pytest.fixture
def site(store: Store) -> Site:
    return Site(store)


def codes(picture: Picture) -> dict[str, str]:
    return {one.code: one.subject for one in picture.alarms}


async def test_a_picture_sums_what_the_living_tell_and_counts_the_slots(store: Store, site: Site) -> None:
    await site.join(THERE)
    await join(store, entry("n1", max_jobs=3))
    await join(store, entry("n2", max_jobs=2))
    await dispatch(store, order(1))
    latency = LatencyTally()
    for ms in (100.0,) * 90 + (250.0,) * 8 + (900.0,) * 2:
        latency.add(ms)
    before = {"DONE": 1, "FAILED": 0}
    site.own = figures(jobs_ended=before)
    await site.tell(THERE, figures(jobs_ended=before))
    first = await site.maker.make(None)
    ended = {"DONE": 21, "NO_TEXT": 4, "FAILED": 6, "CANCELLED": 2}
    site.own = figures(
        at_ms=3_000, sessions=2, jobs_waiting=3, session_languages={"en": 2}, jobs_ended=ended, retries=4
    )
    told = site.own
    await site.tell(
        THERE, msgspec.structs.replace(told, session_languages={"en": 1, "zh": 1}, latency=list(latency.counts))
    )
    # Nobody knows who this is.
    await site.tell("i-nobody", msgspec.structs.replace(told, sessions=100))
    picture = await site.maker.make(first)
    now = picture.now
    assert (first.serial, picture.serial, picture.is_stale) == (1, 2, False)
    assert (now.at_ms, abs(picture.at_ms - time.time() * 1000) < 60_000) == (picture.at_ms, True)
    assert (picture.made_by, picture.release, picture.key_prefix) == (HERE, "1.2", "lingua:v1")
    assert picture.redis_version == store.version
    assert (now.sessions, now.jobs_waiting, now.slots_taken, now.slots_total) == (4, 6, 1, 5)
    assert (now.done_per_s, now.no_text_per_s, now.failed_per_s, now.cancelled_per_s) == (20.0, 4.0, 6.0, 2.0)
    assert now.retries_per_s == 4.0
    assert now.p50_ms is not None
    assert now.p95_ms is not None
    assert now.p99_ms is not None
    assert 0 < now.p50_ms < now.p95_ms < now.p99_ms
    assert [round(value, 1) for value in (now.p50_ms, now.p95_ms)] == [now.p50_ms, now.p95_ms]
    assert picture.jobs_ended == {state: 2 * count for state, count in ended.items()}
    assert list(picture.session_languages.items()) == [("en", 3), ("zh", 1)]
    assert [node.node_id for node in picture.nodes] == ["n1", "n2"]
    assert [(pair.src, pair.tgt, pair.nodes, pair.slots) for pair in picture.pairs] == [("en", "zh", 2, 5)]
    assert picture.verdict is not None


async def test_an_instance_is_shown_with_its_inbox_its_nodes_and_whether_it_lives(store: Store, site: Site) -> None:
    await site.join(THERE, DEAD)
    await join(store, entry("n1"))
    await join(store, entry("n2"))
    await store.inboxes.post(THERE, letter("u1"), ROOMY)
    await store.line.call("ZADD", store.keys.instances_alive, 1, DEAD)
    await store.pools.claim(THERE, 60_000)
    site.own = figures(sessions=2, jobs_waiting=3)
    await site.tell(DEAD, figures(sessions=9))
    dead, here, there = (await site.maker.make(None)).instances
    assert (dead.instance_id, dead.is_alive, dead.has_left, dead.sessions) == (DEAD, False, False, 0)
    assert (dead.nodes, dead.jobs_waiting) == (0, 0)
    assert (here.instance_id, here.is_alive, here.has_left, here.is_leader) == (HERE, True, False, False)
    assert (here.nodes, here.sessions, here.jobs_waiting, here.inbox_letters) == (2, 2, 3, 0)
    assert (here.host, here.pid, here.version, here.address) == ("host", 7, "1.2", "host:1")
    assert (here.started_at_ms, here.seals, here.dead_letters) == (11, "results", 0)
    assert (there.is_leader, there.nodes, there.sessions, there.jobs_waiting, there.inbox_letters) == (True, 0, 0, 0, 1)


async def test_one_that_left_properly_did_not_die(store: Store, site: Site) -> None:
    await site.join(THERE)
    await site.tell(THERE, figures())
    await store.line.call("ZADD", store.keys.instances_alive, 1, THERE)
    assert [one.has_left for one in (await site.maker.make(None)).instances] == [False, False]
    await store.line.call("HDEL", store.keys.figures, THERE)
    assert [one.has_left for one in (await site.maker.make(None)).instances] == [False, True]


async def test_the_leader_and_its_map_are_named(store: Store, site: Site) -> None:
    await site.join()
    assert (await site.maker.make(None)).leader is None
    _, term = await store.pools.claim(HERE, 60_000)
    await store.pools.publish(term, await store.pools.build_map())
    picture = await site.maker.make(None)
    published = await store.pools.published()
    assert picture.leader == HERE
    assert (picture.map_version, picture.map_made_at_ms) == (published.version, published.generated_at_ms)
    assert picture.map_version > 0


async def test_figures_that_cannot_be_read_are_passed_over(store: Store, site: Site) -> None:
    await site.join(THERE)
    await store.instances.show(THERE, b'{"life": 1}')
    site.own = figures(sessions=1)
    assert (await site.maker.make(None)).now.sessions == 1


async def test_pairs_that_did_not_change_are_the_same_value(store: Store, site: Site) -> None:
    await site.join()
    await join(store, entry("n1"))
    first = await site.maker.make(None)
    second = await site.maker.make(first)
    assert second.pairs is first.pairs
    await join(store, entry("n2"))
    assert [pair.nodes for pair in (await site.maker.make(second)).pairs] == [2]


# What is missed


async def test_a_wanted_pair_that_nobody_serves_is_an_alarm(store: Store) -> None:
    site = Site(store, pools__wanted=["en:fr"])
    await site.join()
    await join(store, entry("n1"))
    picture = await site.maker.make(None)
    assert codes(picture)["pair.lost"] == "en:fr"
    assert {f"{pair.src}:{pair.tgt}": pair.nodes for pair in picture.pairs} == {"en:zh": 1, "en:fr": 0}


async def test_a_pair_that_sessions_of_another_instance_want_is_missed_here(store: Store, site: Site) -> None:
    await site.join(THERE)
    await join(store, entry("n1"))
    await site.tell(THERE, figures(wanted=["en:fr:speech"], waiting={"en:de:speech": 2}))
    picture = await site.maker.make(None)
    assert [one.subject for one in picture.alarms if one.code == "pair.unserved"] == ["en:fr"]
    assert {f"{pair.src}:{pair.tgt}" for pair in picture.pairs} == {"en:zh", "en:fr", "en:de"}


async def test_a_pair_that_was_never_served_is_a_warning_and_one_that_was_is_critical(store: Store, site: Site) -> None:
    await site.join()
    await join(store, entry("n1"))
    await join(store, entry("n2", pools=frozenset({"en:fr:speech", "en:fr:text"})))
    before = await site.maker.make(None)
    # It leaves unasked, and both are asked for afterwards.
    await store.nodes.remove(0, OWNER, "n2", frozenset({"en:fr:speech", "en:fr:text"}))
    before = await site.maker.make(before)
    site.own = figures(asked=["en:fr:speech", "en:ko:speech"])
    picture = await site.maker.make(before)
    found = {one.code: (one.subject, one.level) for one in picture.alarms}
    assert found["pair.lost"] == ("en:fr", Level.CRITICAL)
    assert found["pair.unserved"] == ("en:ko", Level.WARNING)
    assert {one.tgt: one.level for one in picture.pairs} == {"zh": None, "fr": Level.CRITICAL, "ko": Level.WARNING}


async def test_what_was_asked_for_is_noted_as_served_or_missed(store: Store, site: Site) -> None:
    await site.join()
    await join(store, entry("n1", pools=frozenset({"en:zh:speech", "en:zh:text"})))
    first = await site.maker.make(None)
    site.own = figures(asked=["en:zh:speech", "en:fr:speech"])
    await site.maker.make(first)
    demand = await store.demand.note([], [])
    assert (set(demand.asked), set(demand.missed)) == ({"en:zh:speech"}, {"en:fr:speech"})


async def test_a_node_that_vanished_is_named_unless_it_said_goodbye(store: Store, site: Site) -> None:
    await site.join()
    site.own = figures(wanted=["en:zh:speech"])
    await join(store, entry("n1"))
    await join(store, entry("n2", pools=frozenset({"en:fr:speech"})))
    await join(store, entry("n3", pools=frozenset({"en:de:speech"})))
    before = await site.maker.make(None)
    for name in ("n1", "n2"):
        await store.nodes.remove(0, OWNER, name, frozenset({POOL}))
    gone = await site.maker.make(before)
    assert [node.node_id for node in gone.nodes] == ["n3"]
    # It left after the figures were read, in which it would have said so.
    assert "node.lost" not in codes(gone)
    site.own = figures(wanted=["en:zh:speech"], goodbyes=["n2"])
    after = await site.maker.make(gone)
    assert codes(after)["node.lost"] == "n1"
    memory = site.maker.memory(after)
    assert list(memory.lost) == ["n1"]
    assert memory.served_by["en:zh"] == "n1"
    assert (memory.at_ms, memory.made_by, memory.alarms) == (after.at_ms, HERE, after.alarms)


async def test_jobs_that_wait_for_a_pair_whose_slots_are_taken_are_an_alarm(store: Store, site: Site) -> None:
    await site.join()
    await join(store, entry("n1", max_jobs=1))
    await dispatch(store, order(1))
    site.own = figures(waiting={"en:zh:speech": 3})
    full = next(one for one in (await site.maker.make(None)).alarms if one.code == "pair.full")
    assert (full.subject, full.values["jobs"]) == ("en:zh", 3)


async def test_many_failures_and_a_long_wait_are_alarms(store: Store) -> None:
    site = Site(store, watch__slow_ms=200)
    await site.join()
    before = await site.maker.make(None)
    latency = LatencyTally()
    for _ in range(10):
        latency.add(250.0)
    site.own = figures(at_ms=3_000, jobs_ended={"DONE": 10, "FAILED": 10}, latency=list(latency.counts))
    raised = {one.code: one for one in (await site.maker.make(before)).alarms}
    assert {"jobs.failing", "latency.high"} <= set(raised)
    assert raised["jobs.failing"].values["failed"] == 10


async def test_what_fails_for_want_of_a_node_has_one_alarm_also_when_it_is_silenced(store: Store) -> None:
    site = Site(store, pools__wanted=["en:fr"])
    await site.join()
    await join(store, entry("n1"))
    before = await site.maker.make(None)
    await store.alarms.handle(alarm_id("pair.lost", "en:fr"), AlarmAction.SILENCE, 3_600_000, "me")
    failed = {"jobs_ended": {"FAILED": 10}, "failed_for": {"NO_CAPABLE_NODE": 8, "SCHEDULER_DEPENDENCY_DOWN": 2}}
    site.own = figures(at_ms=3_000, **failed)
    picture = await site.maker.make(before)
    assert "jobs.failing" not in codes(picture)
    assert picture.verdict is not None
    assert picture.verdict.level is not Level.CRITICAL
    # A node came, and the jobs of the last minute are still counted.
    site.maker._settings = settings_with()
    picture = await site.maker.make(picture)
    assert not {"pair.lost", "jobs.failing"} & set(codes(picture))


async def test_nodes_that_are_not_written_again_yet_are_not_missed(store: Store, site: Site) -> None:
    await site.join()
    await join(store, entry("n1"))
    before = await site.maker.make(None)
    await store.nodes.remove(0, OWNER, "n1", frozenset(before.nodes[0].speech))
    site.presence.suspend_judgement()
    assert "nodes.none" not in codes(await site.maker.make(before))
    site.presence._judge_from = 0.0
    assert "nodes.none" in codes(await site.maker.make(before))


async def test_after_an_outage_nodes_and_the_leader_get_time_to_be_heard_again(store: Store, site: Site) -> None:
    await site.join()
    await store.pools.claim(HERE, 60_000)
    await join(store, entry("n1"))
    before = await site.maker.make(None)
    at_ms = before.at_ms
    # No heartbeat was written for longer than two intervals of 15 s, and the leader's lease is over.
    await store.line.call("ZADD", store.keys.shard(0).seen, at_ms + 5_000, "n1")
    await store.line.call("DEL", store.keys.leader)
    site.presence.suspend_judgement()
    settling = await site.maker.make(site.maker.stale(before, at_ms))
    assert not {"node.silent", "leader.none"} & set(codes(settling))
    site.presence._judge_from = 0.0
    assert {"node.silent", "leader.none"} <= set(codes(await site.maker.make(settling)))


async def test_a_silence_is_as_old_as_the_last_heartbeat_allows(store: Store, site: Site) -> None:
    await site.join()
    await join(store, entry("n1"))
    before = await site.maker.make(None)
    # It was raised in a former outage, and cleared since.
    await store.alarms.note([("node.silent/n1", before.at_ms - 58_000)])
    await store.line.call("ZADD", store.keys.shard(0).seen, before.at_ms + 5_000, "n1")
    (silent,) = [one for one in (await site.maker.make(before)).alarms if one.code == "node.silent"]
    assert silent.since_ms == silent.values["seen_at_ms"] == before.at_ms - 40_000


async def test_a_forgotten_alarm_about_a_pair_is_shown_again_when_the_pair_is_asked_for(store: Store) -> None:
    site = Site(store, pools__wanted=["en:fr"])
    await site.join()
    await join(store, entry("n1"))
    before = await site.maker.make(None)
    assert codes(before)["pair.lost"] == "en:fr"
    await store.alarms.handle(alarm_id("pair.lost", "en:fr"), AlarmAction.FORGET, 0, "me")
    assert "pair.lost" not in codes(await site.maker.make(before))
    site.own = figures(asked=["en:fr:speech"])
    await asyncio.sleep(0.002)
    assert codes(await site.maker.make(before))["pair.lost"] == "en:fr"


async def test_a_wide_node_is_shown_as_such_and_what_cannot_be_read_is_told(store: Store, site: Site) -> None:
    await site.join()
    await join(store, wide_entry("w1"))
    store.unreadable.met("x", "y")
    picture = await site.maker.make(None)
    assert [one.nodes for one in picture.wide] == [1]
    assert "data.unreadable" in codes(picture)


# Jobs


async def test_slow_jobs_are_kept_from_the_picture_before_and_failures_come_from_history(
    store: Store, site: Site
) -> None:
    await site.join(THERE)
    old = job("j-old", ended_at_ms=1)
    site.own = figures(slow=[job("j-slow", ended_at_ms=int(time.time() * 1000)), old])
    await site.tell(THERE, figures(failures=[job("j-told")]))
    failed = FailedJob(
        at_ms=int(time.time() * 1000), job_id="j-kept", session_id="s", utterance_index=1, src="en", tgt="zh", code="x"
    )
    await store.failures.add([failed], 10, 60_000)
    first = await site.maker.make(None)
    assert [one.job_id for one in first.slow] == ["j-slow"]
    assert {one.job_id for one in first.failures} == {"j-told", "j-kept"}
    site.own = figures(at_ms=3_000)
    assert [one.job_id for one in (await site.maker.make(first)).slow] == ["j-slow"]


# Alarms: the leader's on all instances


async def test_who_does_not_lead_shows_the_alarms_of_the_leader(store: Store, site: Site) -> None:
    await site.join()
    first = await site.maker.make(None)
    site.is_leading = False
    lost = {"n9": LostNode(node("n9"), first.at_ms)}
    await site.remember(first.at_ms, alarms=[alarm("pair.lost", subject="xx:yy")], lost=lost)
    picture = await site.maker.make(first)
    assert [one.subject for one in picture.alarms if one.code == "pair.lost"] == ["xx:yy"]
    # It goes on with what the leader knows, should it become the leader.
    assert site.maker.memory(picture).lost == lost


@pytest.mark.parametrize(("age_ms", "is_leading"), [(31_000, False), (0, True)])
async def test_alarms_are_its_own_when_the_leaders_are_old_or_it_leads(
    store: Store, site: Site, age_ms: int, is_leading: bool
) -> None:
    await site.join()
    first = await site.maker.make(None)
    site.is_leading = is_leading
    await site.remember(first.at_ms - age_ms, alarms=[alarm("pair.lost", subject="xx:yy")])
    picture = await site.maker.make(first)
    assert set(codes(picture)) == {"nodes.none", "leader.none"}


async def test_an_alarm_keeps_the_time_it_was_raised_over_a_new_instance(store: Store, site: Site) -> None:
    await site.join()
    await site.remember(1, alarms=[alarm("nodes.none", subject="", since_ms=77)])
    fresh = Site(store)
    picture = await fresh.maker.make(None)
    assert [one.since_ms for one in picture.alarms if one.code == "nodes.none"] == [77]
    again = await fresh.maker.make(picture)
    assert [one.since_ms for one in again.alarms if one.code == "nodes.none"] == [77]


async def test_a_stale_picture_says_that_redis_is_away(store: Store, site: Site) -> None:
    await site.join()
    before = await site.maker.make(None)
    stale = site.maker.stale(before, before.at_ms + 5_000)
    assert (stale.serial, stale.is_stale, stale.at_ms) == (2, True, before.at_ms)
    raised = {one.code: one.since_ms for one in stale.alarms}
    assert raised == {"redis.away": before.at_ms + 5_000, "nodes.none": before.at_ms, "leader.none": before.at_ms}
    assert stale.verdict is not None


async def test_one_that_makes_pictures_knows_by_itself_since_when_an_alarm_is_raised(store: Store, site: Site) -> None:
    await site.join()
    await site.remember(1, alarms=[alarm("nodes.none", subject="", since_ms=77)])
    first = await site.maker.make(None)
    raised = [msgspec.structs.replace(one, since_ms=55) for one in first.alarms]
    again = await site.maker.make(msgspec.structs.replace(first, alarms=raised))
    assert [one.since_ms for one in again.alarms if one.code == "nodes.none"] == [55]


def worked(jobs: int, waiting: int = 0, at_ms: int = 1_000) -> Figures:
    """Each job took a second at its node, and brought two of speech."""
    work = {"en:zh": PairWork(jobs, jobs, jobs * 1_000, jobs * 2_000, jobs * 1_000)} if jobs else {}
    return figures(at_ms=at_ms, work=work, waiting={POOL: waiting} if waiting else {})


async def test_the_load_is_what_all_instances_tell(store: Store) -> None:
    site = Site(store, scaling__window_ms=10_000)
    await site.join(THERE)
    await site.tell(THERE, worked(0))
    site.own = worked(0)
    first = await site.maker.make(None)
    assert (first.scaling.is_settled, first.scaling.headroom, first.scaling.pairs) == (False, 1.5, [])
    await site.tell(THERE, worked(6, at_ms=3_000))
    site.own = worked(2, waiting=10, at_ms=3_000)
    (row,) = (await site.maker.make(first)).scaling.pairs
    assert (row.src, row.tgt, row.arrivals_per_s, row.waiting) == ("en", "zh", 4.0, 10)
    # Four slots are busy with what arrives, and one clears the queue in ten seconds.
    assert (row.node_s_per_job, row.real_time_factor, row.load) == (1.0, 0.5, 5.0)


def remembered_load(at_ms: int, load: float) -> DemandMemory:
    return DemandMemory(is_settled=True, pairs={"en:zh": PairMemory(1.0, ((at_ms, load),))})


async def test_all_instances_hold_the_load_that_the_leader_holds(store: Store, site: Site) -> None:
    await site.join(THERE)
    site.is_leading = False
    first = await site.maker.make(None)
    now_ms = first.at_ms
    await site.remember(now_ms, demand=remembered_load(now_ms, 8.0))
    second = await site.maker.make(first)
    assert (second.scaling.is_settled, [row.load for row in second.scaling.pairs]) == (True, [8.0])
    # What it would hold itself, should it lead next.
    assert site.maker.memory(second).demand.pairs["en:zh"].load == 8.0


async def test_after_a_restart_the_load_that_was_held_is_held_on_however_long_that_took(store: Store) -> None:
    site = Site(store, scaling__hold_ms=1_000)
    await site.join()
    hour_ago_ms = int(time.time() * 1000) - 3_600_000
    await site.remember(hour_ago_ms, demand=remembered_load(hour_ago_ms, 8.0))
    picture = await site.maker.make(None)
    assert (picture.scaling.is_settled, [row.load for row in picture.scaling.pairs]) == (False, [8.0])
