"""Logging in and out over HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import made_key
from tests.support.logins import OWN_PAGE, Guarded, logging_in
from tests.support.servers import RedisProcess


@pytest.fixture
async def guarded(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Guarded]:
    async with logging_in(server.url, tmp_path) as found:
        yield found


@pytest.mark.parametrize("kind", [KeyKind.SERVICE, KeyKind.CLIENT, KeyKind.NODE, KeyKind.METRICS])
async def test_only_operators_log_in(guarded: Guarded, kind: KeyKind) -> None:
    key = made_key(kind)
    await guarded.scheduler.credentials.add(key.credential)
    assert (await guarded.ask("POST", "/v1/login", json={"key": key.text}))[0] == 403
    assert (await guarded.ask("POST", "/v1/login/codes", headers=key.header))[0] == 403


@pytest.mark.parametrize("body", [{}, {"key": "", "code": ""}, {"key": "a", "code": "b"}, {"other": 1}])
async def test_a_login_needs_a_key_or_a_code(guarded: Guarded, body: dict[str, Any]) -> None:
    assert (await guarded.ask("POST", "/v1/login", json=body))[0] == 400


async def test_logging_in_again_ends_the_login_before(guarded: Guarded) -> None:
    before = await guarded.log_in()
    await guarded.log_in(headers=OWN_PAGE | {"Cookie": before})
    assert (await guarded.ask("GET", "/v1/nodes", before))[0] == 401


async def test_a_caller_by_cookie_is_who_the_key_says(guarded: Guarded) -> None:
    cookie = await guarded.log_in()
    _, by_key = await guarded.ask("GET", "/v1/whoami", headers=guarded.operator.header)
    _, by_cookie = await guarded.ask("GET", "/v1/whoami", cookie)
    assert (by_key["is_login"], by_cookie["is_login"]) == (False, True)
    assert (by_cookie["role"], by_cookie["key_id"]) == ("operator", guarded.operator.credential.id)
    assert by_cookie["expires_ms"] > 0
    assert by_cookie | {"is_login": False, "expires_ms": 0} == by_key


async def test_a_logout_without_a_login_does_nothing(guarded: Guarded) -> None:
    assert await guarded.ask("POST", "/v1/logout") == (200, {"logged_out": True})
