"""Whose mail is looked after, and what of it must not hold up the rest."""

import asyncio
from typing import Any, cast

import pytest

from lingua_scheduler.domain.cluster.instances import Instance
from lingua_scheduler.services.cluster import adoption
from lingua_scheduler.services.cluster.adoption import Adopter
from lingua_scheduler.services.cluster.letter_desk import Desk
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.store.cluster.inbox import InboxEntry
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.mail import ROOMY, who, written
from tests.support.schedulers import settings_with


class Known:
    """Who counts as dead, in the eyes of an instance that may be dead itself."""

    instance = "me"

    def __init__(self, *dead: str) -> None:
        self.is_superseded = False
        self.silent_ms = 0
        self._dead = dead

    async def dead(self) -> list[Instance]:
        return [cast("Instance", cast("Any", _Dead(name, self.silent_ms))) for name in self._dead]


class _Dead:
    def __init__(self, name: str, silent_ms: int) -> None:
        self.instance_id = name
        self.silent_ms = silent_ms


class Hands:
    """Takes letters; those in `held` it has in hand already."""

    def __init__(self, *held: str) -> None:
        self._held = held
        self.taken: list[tuple[str, str]] = []

    async def wait_for_room(self) -> int:
        return 1_000

    def take(self, inbox: str, entry: InboxEntry) -> asyncio.Future[None] | None:
        if entry.uid in self._held:
            return None
        self.taken.append((inbox, entry.uid))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class DoingHands(Hands):
    """Letters are done at once."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def take(self, inbox: str, entry: InboxEntry) -> asyncio.Future[None]:
        self.taken.append((inbox, entry.uid))
        return asyncio.ensure_future(self._store.inboxes.done(inbox, [entry.entry_id]))


class SlowHands(DoingHands):
    """A letter takes longer than asking for more of them, and than releasing the inbox."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.events: list[str] = []

    def take(self, inbox: str, entry: InboxEntry) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._handle(inbox, entry))

    async def _handle(self, inbox: str, entry: InboxEntry) -> None:
        for _ in range(50):
            await self._store.line.call("PING")
        self.events.append("handled")
        await self._store.inboxes.done(inbox, [entry.entry_id])


def adoptions() -> float:
    return metrics.REGISTRY.get_sample_value("lingua_inbox_adoptions_total") or 0.0


def adopter(store: Store, known: Known, hands: Hands) -> Adopter:
    presence, desk = cast("Presence", cast("Any", known)), cast("Desk", cast("Any", hands))
    return Adopter(presence, desk, store, settings_with())


async def letters_for(store: Store, instance: str, count: int) -> None:
    await store.inboxes.prepare(instance)
    for number in range(count):
        await store.inboxes.post(instance, written(number), ROOMY)


async def test_the_mail_of_others_is_taken_and_ones_own_is_not(store: Store) -> None:
    for instance in ("me", "a", "b"):
        await letters_for(store, instance, 1)
    known, hands = Known("a", "me", "b"), Hands()
    await adopter(store, known, hands).look_after_the_dead()
    assert hands.taken == [("a", "u0"), ("b", "u0")]


async def test_who_is_superseded_adopts_nothing(store: Store) -> None:
    await letters_for(store, "a", 1)
    known, hands = Known("a"), Hands()
    known.is_superseded = True
    await adopter(store, known, hands).look_after_the_dead()
    assert hands.taken == []


async def test_an_inbox_is_not_released_before_its_letters_are_handled(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another instance would adopt it, and handle them beside us."""
    await letters_for(store, "a", 1)
    hands, release = SlowHands(store), store.inboxes.release

    async def told(*given: Any, **named: Any) -> Any:
        hands.events.append("released")
        return await release(*given, **named)

    monkeypatch.setattr(store.inboxes, "release", told)
    await adopter(store, Known("a"), hands).look_after_the_dead()
    assert hands.events == ["handled", "released"]


async def test_a_letter_that_is_in_hand_already_does_not_hold_up_the_others(store: Store) -> None:
    await letters_for(store, "a", 3)
    hands = Hands("u1")
    await adopter(store, Known("a"), hands).look_after_the_dead()
    assert hands.taken == [("a", "u0"), ("a", "u2")]


async def test_an_inbox_that_cannot_be_reached_does_not_hold_up_the_next(store: Store, monkeypatch: Any) -> None:
    for instance in ("a", "b"):
        await letters_for(store, instance, 1)
    depth = store.inboxes.depth

    async def reach(instance: str) -> Any:
        if instance == "a":
            raise RedisAway("of a Cluster this server")
        return await depth(instance)

    monkeypatch.setattr(store.inboxes, "depth", reach)
    hands = Hands()
    await adopter(store, Known("a", "b"), hands).look_after_the_dead()
    assert hands.taken == [("b", "u0")]


async def test_an_inbox_is_forgotten_with_its_instance_when_that_is_long_dead_and_not_before(store: Store) -> None:
    forget_ms = settings_with().instances.forget_ms
    for silent_ms, is_known in ((forget_ms, True), (forget_ms + 1, False)):
        await letters_for(store, "a", 1)
        await store.instances.join(who("a"), 6_000)
        await store.line.call("ZADD", store.keys.instances_alive, 1, "a")
        known = Known("a")
        known.silent_ms = silent_ms
        before = adoptions()
        hands = DoingHands(store)
        await adopter(store, known, hands).look_after_the_dead()
        assert ("a" in await store.instances.known()) is is_known
        assert len(hands.taken) == 1
        assert adoptions() == before + 1


async def test_an_empty_inbox_of_one_that_died_lately_is_left_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopted: list[str] = []

    async def adopt(instance: str, *_: object) -> None:
        adopted.append(instance)

    await store.inboxes.prepare("a")
    monkeypatch.setattr(store.inboxes, "adopt", adopt)
    known, forget_ms = Known("a"), settings_with().instances.forget_ms
    looking = adopter(store, known, Hands())
    await looking.look_after_the_dead()
    assert adopted == []
    known.silent_ms = forget_ms + 1
    await looking.look_after_the_dead()
    assert adopted == ["a"]
    # Dead letters are kept for people, however long ago it was.
    await letters_for(store, "a", 1)
    for entry in await store.inboxes.read(store.line, "a", 1, 1):
        await store.inboxes.bury("a", entry, "failed", ROOMY, subject="", keeps_body=True)
    await looking.look_after_the_dead()
    assert adopted == ["a"]


async def test_all_pages_of_an_inbox_are_handled(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adoption, "PAGE", 2)
    await letters_for(store, "a", 5)
    hands = DoingHands(store)
    await adopter(store, Known("a"), hands).look_after_the_dead()
    assert len(hands.taken) == 5
    assert (await store.inboxes.depth("a")).letters == 0


async def test_an_inbox_is_held_for_longer_than_its_letters_may_take(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await letters_for(store, "a", 1)
    held: list[tuple[object, ...]] = []

    async def adopt(*given: object) -> None:
        held.append(given)

    monkeypatch.setattr(store.inboxes, "adopt", adopt)
    settings = settings_with(instances__dead_ms=6_000, inbox__handle_timeout_ms=5_000)
    presence, desk = cast("Presence", cast("Any", Known("a"))), cast("Desk", cast("Any", Hands()))
    await Adopter(presence, desk, store, settings).look_after_the_dead()
    assert held == [("a", "me", 16_000)]
