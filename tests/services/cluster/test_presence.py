"""Who is there: looks that callers share, beats, and what silence proves."""

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.cluster.instances import Instance, PresenceOutcome
from lingua_scheduler.services.cluster.presence import IdTaken, Presence
from lingua_scheduler.setting_sections.instances import InstancesSettings
from lingua_scheduler.store.cluster.instances import Me
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from tests.support.mail import who
from tests.support.servers import RedisProcess
from tests.support.waiting import until

# As plain values: a limit that changes is noticed.
COPY_LASTS_S = 1.0
LOOK_AGAIN_S = 0.05


async def test_a_look_that_fails_when_its_callers_have_left_is_nobodys_surprise(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence, asked, go_on = Presence(who("a"), store, InstancesSettings()), asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        asked.set()
        await go_on.wait()
        raise RedisAway("closed")

    monkeypatch.setattr(store.instances, "known", fail)
    caller = asyncio.create_task(presence.look())
    await asked.wait()
    caller.cancel()
    await asyncio.wait([caller])
    go_on.set()
    await until(lambda: not presence.looking.is_running)


# By hand: beats, and what silence proves

SETTINGS = InstancesSettings(beat_ms=1_000, dead_ms=6_000)


def presence_of(store: Store, name: str, incarnation: str = "life-1") -> Presence:
    return Presence(who(name, incarnation), store, SETTINGS)


async def test_two_lives_of_one_id_cannot_be_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = presence_of(store, "a"), presence_of(store, "a", "life-2")
    await first.join()
    pauses: list[float] = []

    async def beat_meanwhile(seconds: float) -> None:
        pauses.append(seconds)
        await first.beat()

    monkeypatch.setattr(asyncio, "sleep", beat_meanwhile)
    with pytest.raises(IdTaken, match="named a is already running"):
        await second.join()
    assert set(pauses) == {SETTINGS.beat_ms / 4000}


async def test_an_instance_that_comes_back_after_a_loss_of_data_takes_no_other_for_dead(
    store: Store, server: RedisProcess
) -> None:
    """Letters to one that has not sent its next heartbeat would be dropped."""
    first, second = presence_of(store, "a"), presence_of(store, "b")
    await first.join()
    await second.join()
    await first.look()
    server.flush()
    await first.beat()
    assert "b" not in await first.look()
    assert await first.is_alive("b")
    assert not first.may_judge
    await second.beat()
    assert "b" in await first.look()


async def test_an_address_is_announced(store: Store) -> None:
    presence = presence_of(store, "a")
    await presence.join("host:1")
    assert (await presence.look())["a"].address == "host:1"
    await presence.join()
    assert (await presence.look())["a"].address == "host:1"


async def test_who_came_back_from_the_dead_joins_again_and_is_told(store: Store) -> None:
    presence, told = presence_of(store, "a"), list[str]()

    async def lost() -> None:
        told.append("lost")

    presence.on_lost = lost
    await presence.join()
    await presence.beat()
    assert told == []
    await store.line.call("FLUSHALL")
    await presence.beat()
    assert told == ["lost"]
    assert await presence.is_alive("a")


@pytest.mark.expects_surprise("instance.superseded")
async def test_who_is_superseded_gives_way_once(store: Store) -> None:
    first, told = presence_of(store, "a"), list[str]()
    first.on_superseded = lambda: told.append("superseded")
    await first.join()
    await store.line.call("FLUSHALL")
    await presence_of(store, "a", "life-2").join()
    with capture_logs() as logged:
        await first.beat()
        await first.beat()
    assert first.is_superseded
    assert told == ["superseded"]
    assert [line["event"] for line in logged] == ["instance.superseded"]
    assert await first.is_alive("a", "life-2")
    assert not await first.is_alive("a", "life-1")


async def known_as(presence: Presence, monkeypatch: pytest.MonkeyPatch, **silent_ms: int) -> dict[str, Instance]:
    """A look that finds these, silent for so long."""
    everybody = await presence._store.instances.known()
    some = next(iter(everybody.values()))
    found = {name: some._replace(instance_id=name, silent_ms=ms) for name, ms in silent_ms.items()}

    async def known() -> dict[str, Instance]:
        return found

    with monkeypatch.context() as patch:
        patch.setattr(presence._store.instances, "known", known)
        return {one.instance_id: one for one in await presence.dead()}


async def test_the_silent_are_dead_unless_silence_proves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    presence = presence_of(store, "a")
    await presence.join()
    assert set(await known_as(presence, monkeypatch, a=0, b=5_999, c=6_000)) == {"c"}
    assert [presence.counts_as_alive(name) for name in "abcd"] == [True, True, False, False]
    assert [one.instance_id for one in presence.living] == ["a", "b"]
    presence.suspend_judgement()
    # Who was alive before gets time to beat.
    assert set(await known_as(presence, monkeypatch, a=0, b=7_000, c=7_000)) == set()
    assert [presence.counts_as_alive(name) for name in "abc"] == [True, True, False]
    presence._judge_from = 0.0
    assert set(await known_as(presence, monkeypatch, a=0, b=7_000, c=7_000)) == {"b", "c"}
    assert [presence.counts_as_alive(name) for name in "abc"] == [True, False, False]


@pytest.mark.parametrize("found", [{"b": 9_000}, {"a": 4_000, "b": 9_000}], ids=["data lost", "clock jumped"])
async def test_a_redis_that_is_wrong_about_us_is_wrong_about_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch, found: dict[str, int]
) -> None:
    presence = presence_of(store, "a")
    await presence.join()
    await known_as(presence, monkeypatch, a=0, b=0)
    assert await known_as(presence, monkeypatch, **found) == {}
    assert presence.counts_as_alive("b")
    # While it leaves, that it is missing proves nothing of the kind.
    presence._judge_from = 0.0
    await presence.leave()
    assert set(await known_as(presence, monkeypatch, b=9_000)) == {"b"}


async def test_who_beat_too_late_does_not_judge_the_others_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence = presence_of(store, "a")
    await presence.join()
    await presence.beat()
    assert presence._judge_from == 0.0
    presence._beaten_at -= 3.6
    await presence.beat()
    assert await known_as(presence, monkeypatch, a=0, b=9_000) == {}


async def test_who_leaves_while_redis_is_away_is_found_out_by_its_silence(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence = presence_of(store, "a")
    await presence.join()

    async def fail(*_: object) -> None:
        raise RedisAway("gone at that moment")

    monkeypatch.setattr(store.instances, "leave", fail)
    with capture_logs() as logged:
        await presence.leave()
    assert [line["event"] for line in logged] == ["instance.left_silently"]


async def test_all_can_what_each_of_the_living_announced(store: Store) -> None:
    one, other = Presence(who("a", seals="x y"), store, SETTINGS), Presence(who("b", seals="y z"), store, SETTINGS)
    await one.join()
    await one.look()
    assert (one.all_can("x"), one.all_can("y"), one.all_can("z")) == (True, True, False)
    await other.join()
    await one.look()
    assert (one.all_can("x"), one.all_can("y"), one.all_can("z")) == (False, True, False)


# By a clock and a Redis of our own


class Registry:
    """The instances that Redis knows; it counts how often it is asked."""

    def __init__(self) -> None:
        self.instances = self.inboxes = self
        self.silent_ms: dict[str, int] = {}
        self.lives: dict[str, str] = {}
        self.looks = 0
        self.outcome = PresenceOutcome.ALIVE
        self.told: list[str] = []
        self.is_away = False

    async def known(self) -> dict[str, Instance]:
        self.looks += 1
        return {name: Instance(name, ms, self.lives.get(name, "life-1")) for name, ms in self.silent_ms.items()}

    async def prepare(self, instance: str) -> None:
        self.told.append(f"prepare {instance}")

    async def join(self, me: Me, dead_ms: int) -> tuple[PresenceOutcome, int]:
        self.told.append(f"join {me.instance_id} {dead_ms}")
        return PresenceOutcome.JOINED, 0

    async def beat(self, me: Me, dead_ms: int) -> PresenceOutcome:
        assert (me.instance_id, dead_ms) == ("a", 6_000)
        return self.outcome

    async def leave(self, me: Me, dead_ms: int) -> None:
        self.told.append(f"leave {me.instance_id} {dead_ms}")
        if self.is_away:
            raise RedisAway("nobody there")


class Watch:
    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.redis = Registry()
        self.presence = Presence(who("a"), cast("Any", self.redis), SETTINGS, lambda: self.now_s)

    async def look(self, **silent_ms: int) -> Presence:
        self.redis.silent_ms = silent_ms
        await self.presence.look()
        return self.presence


@pytest.fixture
def watch() -> Watch:
    return Watch()


async def test_an_inbox_is_ready_before_an_instance_is_announced(watch: Watch) -> None:
    await watch.presence.join()
    assert watch.redis.told == ["prepare a", "join a 6000"]


async def test_a_copy_is_believed_for_a_while_and_less_long_of_who_is_missing(watch: Watch) -> None:
    await watch.look(a=0, b=0)
    for past_s, name, looks in (
        (COPY_LASTS_S, "b", 1),
        (0.01, "b", 2),
        # Unknown: the copy is read again, twice more if others had begun a look.
        (0.0, "c", 4),
    ):
        watch.now_s += past_s
        await watch.presence.is_alive(name)
        assert watch.redis.looks == looks
    await watch.look(a=0, b=6_000)
    looks = watch.redis.looks
    watch.now_s += LOOK_AGAIN_S
    assert not await watch.presence.is_alive("b")
    assert watch.redis.looks == looks
    watch.now_s += 0.01
    assert not await watch.presence.is_alive("b")
    assert watch.redis.looks == looks + 1


async def test_another_life_of_an_instance_is_not_that_process(watch: Watch) -> None:
    presence = await watch.look(a=0, b=0)
    assert await presence.is_alive("b", "life-1")
    assert not await presence.is_alive("b", "life-0")
    assert (presence.incarnation_of("b"), presence.incarnation_of("x")) == ("life-1", "")
    assert [found.instance_id for found in presence.living] == ["a", "b"]


async def test_who_is_silent_too_long_is_dead(watch: Watch) -> None:
    presence = await watch.look(a=0, b=5_999, c=6_000)
    assert [found.instance_id for found in await presence.dead()] == ["c"]
    assert (presence.counts_as_alive("b"), presence.counts_as_alive("c"), presence.counts_as_alive("x")) == (
        *(True, False),
        False,
    )


async def test_while_nobody_could_beat_silence_proves_nothing(watch: Watch) -> None:
    presence = await watch.look(a=0, b=0, c=9_000)
    presence.suspend_judgement()
    watch.now_s += 5.9
    await watch.look(a=0, b=9_000, c=9_000, d=9_000)
    assert await presence.dead() == []
    assert [found.instance_id for found in presence.living] == ["a", "b"]
    # One whose entry is gone gets time as well.
    await watch.look(a=0)
    assert presence.counts_as_alive("b")
    watch.now_s += 0.1
    await watch.look(a=0, b=9_000)
    assert [found.instance_id for found in await presence.dead()] == ["b", "c", "d"]


async def test_whose_entry_is_lost_in_silence_is_dead_and_is_not_forgotten_before_its_time(watch: Watch) -> None:
    """Redis lost the list after it died, so that it cannot be written again; its letters wait all the same."""
    await watch.look(a=0, b=2_000)
    presence = await watch.look(a=0)
    assert await presence.dead() == []
    watch.now_s += 3.9
    assert await presence.dead() == []
    watch.now_s += 0.1
    assert [(found.instance_id, found.silent_ms) for found in await presence.dead()] == [("b", 6_000)]
    await watch.look(a=0, b=0)
    assert await presence.dead() == []  # it lives
    await watch.look(a=0)
    watch.now_s += SETTINGS.forget_ms / 1000
    await watch.look(a=0)
    # Long enough to be forgotten by the adopter of its inbox, and then by us.
    assert [found.silent_ms for found in await presence.dead()] == [SETTINGS.forget_ms]
    watch.now_s += 2 * SETTINGS.dead_ms / 1000
    await watch.look(a=0)
    assert await presence.dead() == []


async def test_who_was_forgotten_on_purpose_is_not_remembered(watch: Watch) -> None:
    await watch.look(a=0, b=SETTINGS.forget_ms + 1)
    presence = await watch.look(a=0)
    assert await presence.dead() == []


async def test_after_a_standstill_of_our_own_nobody_is_judged_for_a_while(watch: Watch) -> None:
    presence = watch.presence
    await presence.join()
    watch.redis.silent_ms = {"a": 0, "b": 9_000}
    watch.now_s += 3.5
    watch.redis.silent_ms["a"] = 3_500
    await presence.beat()
    watch.redis.silent_ms["a"] = 0
    assert [found.instance_id for found in await presence.dead()] == ["b"]
    watch.now_s += 3.6
    await presence.beat()
    assert await presence.dead() == []
    watch.now_s += 6.0
    watch.redis.silent_ms["a"] = 6_000
    assert [found.instance_id for found in await presence.dead()] == ["a", "b"]


async def test_when_our_own_entry_is_gone_redis_has_lost_its_data(watch: Watch) -> None:
    await watch.look(b=9_000)
    assert len(await watch.presence.dead()) == 1
    await watch.presence.join()
    assert await watch.presence.dead() == []


@pytest.mark.parametrize(("silent_ms", "is_judged"), [(3_000, True), (3_001, False), (0, True)])
async def test_when_redis_says_another_time_of_our_beat_its_clock_has_jumped(
    watch: Watch, silent_ms: int, is_judged: bool
) -> None:
    await watch.presence.join()
    await watch.look(a=silent_ms, b=9_000)
    assert bool(await watch.presence.dead()) is is_judged


async def test_who_left_expects_no_entry_of_its_own(watch: Watch) -> None:
    await watch.presence.join()
    watch.redis.is_away = True
    await watch.presence.leave()
    assert watch.redis.told[-1] == "leave a 6000"
    await watch.look(b=9_000)
    assert len(await watch.presence.dead()) == 1


async def test_what_all_of_the_living_can_do_is_known(watch: Watch) -> None:
    presence = watch.presence
    presence.me = presence.me._replace(seals="k1 k2")
    known = {"a": Instance("a", 0, "l", seals="k1 k2"), "b": Instance("b", 0, "l", seals="k1", abilities="x")}

    async def told() -> dict[str, Instance]:
        return known

    watch.redis.known = told  # type: ignore[method-assign]
    await presence.look()
    assert (presence.all_can("k1"), presence.all_can("k2"), presence.all_can("x")) == (True, False, False)


@pytest.mark.expects_surprise("instance.superseded")
async def test_who_came_back_and_finds_its_id_taken_gives_way(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    async def lost() -> None:
        told.append("lost")

    async def taken(_address: str = "") -> None:
        raise IdTaken

    watch.presence.on_lost = lost
    watch.presence.on_superseded = lambda: told.append("superseded")
    await watch.presence.join()
    watch.redis.outcome = PresenceOutcome.WAS_DEAD
    await watch.presence.beat()
    assert (told, watch.presence.is_superseded) == (["lost"], False)
    monkeypatch.setattr(watch.presence, "join", taken)
    await watch.presence.beat()
    assert (told, watch.presence.is_superseded) == (["lost", "superseded"], True)
    watch.redis.outcome = PresenceOutcome.SUPERSEDED
    await watch.presence.beat()
    assert told == ["lost", "superseded"]
