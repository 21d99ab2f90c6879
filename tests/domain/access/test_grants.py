"""The grants of a token: everything in them restricts, so what is not understood makes it invalid."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.access.grants import Grant, Grants, RoomGrant, are_within, with_implied
from lingua_scheduler.domain.access.scopes import Scope


def grants(**fields: Any) -> Grants:
    return msgspec.json.decode(msgspec.json.encode({"tenant": "acme"} | fields), type=Grants)


def test_a_token_that_says_nothing_may_open_sessions() -> None:
    assert grants() == Grants(tenant="acme")
    assert grants().scopes == {Scope.SESSION_OPEN}
    assert (grants().pairs, grants().max_sessions) == ((), 0)


def test_each_grant_is_a_scope() -> None:
    assert grants(grants=["dispatch"]).scopes == {Scope.DISPATCH_CALL}
    assert grants(grants=["session", "dispatch"]).scopes == {Scope.SESSION_OPEN, Scope.DISPATCH_CALL}
    assert grants(grants=["room"]).scopes == {Scope.ROOM_CREATE, Scope.ROOM_JOIN}
    assert grants(grants=["room"], room={"code": "483920"}).scopes == {Scope.ROOM_JOIN}
    assert grants(grants=[]).scopes == set()


@pytest.mark.parametrize(
    ("wanted", "room", "given"),
    [
        (("session",), None, ("session",)),
        (("dispatch",), None, ("dispatch",)),
        (("room",), None, ("session", "room")),
        (("dispatch", "room", "session"), None, ("session", "dispatch", "room")),
        (("session",), RoomGrant(code="483920"), ("session", "room")),
    ],
)
def test_rooms_are_entered_from_a_session(
    wanted: tuple[Grant, ...], room: RoomGrant | None, given: tuple[Grant, ...]
) -> None:
    assert with_implied(wanted, room) == given


@pytest.mark.parametrize("pair", ["zh:en", "*:fr", "zh-Hans-CN:*", "*:*"])
def test_a_pair(pair: str) -> None:
    assert grants(pairs=[pair]).pairs == (pair,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"room": "r1"},
        {"max_session": 1},
        {"Tenant": "acme"},
        {"tenant": "*"},
        {"tenant": ""},
        {"tenant": "Acme"},
        {"tenant": "acme\n"},
        {"tenant": None},
        {"grants": ["admin"]},
        {"grants": "session"},
        {"grants": None},
        {"grants": ["session"] * 9},
        {"pairs": ["zh"]},
        {"pairs": ["zh:en:fr"]},
        {"pairs": ["zh:en\n"]},
        {"pairs": [":en"]},
        {"pairs": ["z h:en"]},
        {"pairs": ["zh:en"] * 65},
        {"max_sessions": -1},
        {"max_sessions": "1"},
        {"max_sessions": 1.5},
    ],
    ids=str,
)
def test_what_is_not_understood_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        grants(**wrong)


def test_the_tenant_must_be_named() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"grants":["session"]}', type=Grants)


@pytest.mark.parametrize(
    ("pairs", "limits", "expected"),
    [
        ((), (), True),
        (("*:*",), (), True),
        ((), ("zh:en",), True),
        (("zh:en",), ("zh:en",), True),
        (("zh:en",), ("zh:*",), True),
        (("zh:en",), ("*:en",), True),
        (("zh:*",), ("*:*",), True),
        (("zh:en", "en:zh"), ("en:*", "zh:*"), True),
        (("zh:*",), ("zh:en",), False),
        (("*:en",), ("zh:en",), False),
        (("zh:en", "zh:fr"), ("zh:en",), False),
        (("en:zh",), ("zh:en",), False),
    ],
)
def test_pairs_are_within_limits(pairs: tuple[str, ...], limits: tuple[str, ...], expected: bool) -> None:
    assert are_within(pairs, limits) is expected
