"""Who may enter: attacks B34 and D63, by values."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.access.principals import LOCAL, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import OF_USERS, Scope
from lingua_scheduler.domain.guards import rates
from lingua_scheduler.domain.rooms.guesses import ALARM_S
from lingua_scheduler.domain.rooms.rooms import RoomErrorCode, RoomName
from lingua_scheduler.services.rooms.entry import RoomEntry, RoomRefusal, counted_as
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.store.store import Store
from tests.support.principals import user


class Now:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def session(principal: Principal = LOCAL, meter: str = "", session_id: str = "s") -> Session:
    peer = SimpleNamespace(meter=meter)
    return cast("Session", SimpleNamespace(caller=principal, peer=peer, session_id=session_id, address="10.0.0.1"))


def refusal_of(step: Any, *arguments: Any) -> RoomErrorCode:
    with pytest.raises(RoomRefusal) as refused:
        step(*arguments)
    return refused.value.code


def member(subject: str = "ann", **more: Any) -> Principal:
    return Principal(kind=user("x").kind, scopes=OF_USERS, tenant="acme", subject=subject, **more)


def test_a_token_for_one_room_joins_that_room_alone(store: Store) -> None:
    entry = RoomEntry(store.guesses, RoomsSettings())
    guest = session(member(room_code="483920"))
    entry.check_join(guest, "483920")
    assert refusal_of(entry.check_join, guest, "483921") is RoomErrorCode.DENIED
    assert refusal_of(entry.check_create, guest) is RoomErrorCode.DENIED


def test_a_credential_without_the_scope_enters_no_room(store: Store) -> None:
    entry = RoomEntry(store.guesses, RoomsSettings())
    other = session(user("bob"))
    assert Scope.ROOM_JOIN not in other.caller.scopes
    assert refusal_of(entry.check_join, other, "483920") is RoomErrorCode.DENIED
    assert refusal_of(entry.check_create, other) is RoomErrorCode.DENIED


def test_a_principal_joins_so_many_rooms_a_minute_and_others_are_not_affected(store: Store) -> None:
    now = Now()
    entry = RoomEntry(store.guesses, RoomsSettings(joins_per_min=3), now)
    for _ in range(3):
        entry.check_join(session(member()), "483920")
    assert refusal_of(entry.check_join, session(member()), "483920") is RoomErrorCode.TOO_OFTEN
    entry.check_join(session(member("bob")), "483920")
    now.s += 20.0
    entry.check_join(session(member()), "483920")


def test_visitors_with_one_key_do_not_use_up_the_joins_of_other_addresses(store: Store) -> None:
    entry = RoomEntry(store.guesses, RoomsSettings(joins_per_min=3), Now())
    shared = Principal(kind=PrincipalKind.CLIENT, scopes=OF_USERS, tenant="acme", key_id="k1")
    for number in range(3):
        entry.check_join(session(shared, "10.0.0.1", str(number)), "483920")
    # Another session is no other visitor.
    assert refusal_of(entry.check_join, session(shared, "10.0.0.1", "9"), "483920") is RoomErrorCode.TOO_OFTEN
    entry.check_join(session(shared, "10.0.0.2"), "483920")


def test_addresses_without_limits_are_told_apart_too() -> None:
    shared = Principal(kind=PrincipalKind.CLIENT, scopes=OF_USERS, tenant="acme", key_id="k1")
    one, other = session(shared), session(shared)
    other.address = "10.0.0.2"
    assert counted_as(one) == counted_as(session(shared, session_id="t")) != counted_as(other)


def test_without_a_credential_a_session_joins_so_many_rooms_a_minute(store: Store) -> None:
    entry = RoomEntry(store.guesses, RoomsSettings(joins_per_min=3), Now())
    for number in range(20):
        entry.check_join(session(session_id=str(number)), "483920")
    for _ in range(2):
        entry.check_join(session(session_id="0"), "483920")
    assert refusal_of(entry.check_join, session(session_id="0"), "483920") is RoomErrorCode.TOO_OFTEN
    assert refusal_of(entry.check_create, session(session_id="0")) is RoomErrorCode.TOO_OFTEN


NAME = RoomName("acme", "483920")


async def missed(entry: RoomEntry, who: Session) -> None:
    async with entry.trying(who, NAME):
        pass


async def joined(entry: RoomEntry, who: Session) -> None:
    async with entry.trying(who, NAME) as attempt:
        attempt.is_right = True


async def test_an_address_that_guesses_is_refused_for_a_while(store: Store) -> None:
    entry = RoomEntry(store.guesses, RoomsSettings(misses_per_min=5))
    for _ in range(5):
        await missed(entry, session(meter="10.0.0.1"))
    with capture_logs() as logged, pytest.raises(RoomRefusal) as refused:
        await joined(entry, session(meter="10.0.0.1"))
    assert refused.value.code is RoomErrorCode.TOO_OFTEN
    assert [event["event"] for event in logged] == ["rooms.guessing"]
    await joined(entry, session(meter="10.0.0.2"))
    assert entry.guessing() == {}
    for _ in range(50):
        await missed(entry, session())


async def test_right_codes_cost_an_address_nothing(store: Store) -> None:
    entry = RoomEntry(store.guesses, RoomsSettings(misses_per_min=1))
    for _ in range(5):
        await joined(entry, session(meter="10.0.0.1"))
    await asyncio.gather(*(joined(entry, session(meter="10.0.0.1")) for _ in range(20)))
    assert len(entry._turns) == 0


async def test_after_many_wrong_codes_of_all_addresses_each_has_one_try_and_a_token_for_the_room_opens_it(
    store: Store,
) -> None:
    now = Now()
    entry = RoomEntry(store.guesses, RoomsSettings(misses_per_min=5, all_misses_per_min=3), now)
    with capture_logs() as logged:
        for number in range(5):
            await missed(entry, session(meter=f"10.0.0.{number}"))
    assert [event["event"] for event in logged] == ["rooms.guarded"]
    assert entry.guessing() == {"acme": 5}
    with pytest.raises(RoomRefusal):
        await joined(entry, session(meter="10.0.0.1"))
    await joined(entry, session(meter="10.0.0.9"))
    await joined(entry, session(member(room_code=NAME.code), meter="10.0.0.1"))
    now.s += ALARM_S
    assert entry.guessing() == {}


def test_what_is_known_of_names_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_KNOWN", 3)
    entry = RoomEntry(store.guesses, RoomsSettings())
    for number in range(10):
        entry.check_create(session(member(str(number))))
    assert len(entry._joins._known) == 3
