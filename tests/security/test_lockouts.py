"""Guesses from an address must not lock out the honest callers that share it, nor cost Redis a question each."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lingua_sdk.domain.key_texts import KeyText, fresh_key
from tests.support.desks import Desk, desk_on
from tests.support.servers import RedisProcess

OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
async def desk(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_on(server.url, tmp_path, server__unmetered_addresses=()) as found:
        yield found


async def token_of(desk: Desk, subject: str) -> str:
    made = await desk.post("service", "/v1/tokens", {"subject": subject})
    text: str = made.body["token"]
    return text


def forged(token: str) -> str:
    head, claims, _ = token.split(".")
    return f"{head}.{claims}.{secrets.token_urlsafe(64)}"


async def statuses(desk: Desk, texts: list[str]) -> list[int]:
    return [(await desk.get(text, "/v1/whoami")).status for text in texts]


async def test_forged_tokens_lock_out_no_valid_token_of_the_same_address(desk: Desk) -> None:
    known = await token_of(desk, "ada")
    assert await statuses(desk, [known]) == [200]
    assert await statuses(desk, [forged(known) for _ in range(25)]) == [401] * 20 + [429] * 5
    fresh = await token_of(desk, "bob")
    assert await statuses(desk, [known, fresh]) == [200, 200]
    # Those that are wrong still wait, and learn nothing from it.
    refused = await desk.get(forged(fresh), "/v1/whoami")
    assert (refused.status, refused.body["error"]) == (429, "RATE_LIMITED")


async def test_guesses_at_a_key_lock_out_no_owner_of_it_at_the_same_address(desk: Desk) -> None:
    right = desk.keys["viewer"].text
    found = KeyText.parse(right)
    guesses = [str(found._replace(secret=fresh_key(found.kind).secret)) for _ in range(25)]
    assert await statuses(desk, guesses) == [401] * 20 + [429] * 5
    assert await statuses(desk, [right, guesses[0]]) == [200, 429]


async def test_logouts_of_strangers_are_limited_like_logins(server: RedisProcess, tmp_path: Path) -> None:
    """Each of them asks Redis, and none of them needs a credential."""
    few: dict[str, Any] = {"server__unmetered_addresses": (), "server__handshakes_per_address_s": 1}
    async with desk_on(server.url, tmp_path, **few) as desk:
        told = []
        for _ in range(30):
            headers = OWN_PAGE | {"Cookie": f"lingua={secrets.token_urlsafe(32)}"}
            async with desk.http.post("/v1/logout", headers=headers) as response:
                told.append(response.status)
        assert told[0] == 200
        assert 429 in told


async def test_login_codes_are_made_only_so_fast(server: RedisProcess, tmp_path: Path) -> None:
    """Each is an entry in Redis, and a viewer may make them."""
    few: dict[str, Any] = {"server__unmetered_addresses": (), "server__handshakes_per_address_s": 1}
    async with desk_on(server.url, tmp_path, **few) as desk:
        told = [(await desk.post("viewer", "/v1/login/codes")).status for _ in range(30)]
        assert told[0] == 200
        assert 429 in told


async def test_a_known_token_comes_in_while_its_address_sends_a_flood_of_forged_ones(desk: Desk) -> None:
    known = await token_of(desk, "ada")
    assert await statuses(desk, [known]) == [200]
    answers = await asyncio.gather(*(desk.get(forged(known), "/v1/whoami") for _ in range(300)))
    assert {one.status for one in answers} == {401, 429}
    assert await statuses(desk, [known] * 20) == [200] * 20
    # One that was never shown before comes in as soon as there are fewer.
    fresh = await token_of(desk, "bob")
    async with asyncio.timeout(30):
        while await statuses(desk, [fresh]) != [200]:
            pass
