"""Tokens over HTTP: who may make them, what they open, and what ends them."""

from collections.abc import AsyncIterator
from pathlib import Path

import jwt
import pytest

from tests.support.desks import Desk, desk_on
from tests.support.servers import RedisProcess


@pytest.fixture
async def desk(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_on(server.url, tmp_path) as found:
        yield found


async def test_a_token_opens_what_it_grants_and_ends_with_the_key_that_made_it(desk: Desk) -> None:
    service = await desk.made("acme", kind="service")
    made = await desk.post(service["key"], "/v1/tokens", {"subject": "user-7", "ttl_ms": 60_000})
    assert made.status == 200
    assert (made.body["subject"], made.body["tenant"]) == ("user-7", "acme")
    assert made.body["key_id"] == service["about"]["id"]
    token = made.body["token"]
    assert (await desk.get(token, "/v1/pools")).status == 200
    assert (await desk.get(token, "/v1/nodes")).status == 403
    # It was not granted.
    assert (await desk.post(token, "/v1/dispatch/f2f", {})).status == 403
    await desk.post("acme", f"/v1/keys/{service['about']['id']}/revoke")
    assert (await desk.get(token, "/v1/pools")).status == 401


async def test_the_published_keys_verify_a_token(desk: Desk) -> None:
    made = await desk.post("service", "/v1/tokens", {"subject": "user-7", "pairs": ["zh:en"], "max_sessions": 2})
    published = await desk.get("", "/.well-known/jwks.json")
    assert published.status == 200
    key = jwt.PyJWKSet.from_dict(published.body)[jwt.get_unverified_header(made.body["token"])["kid"]]
    claims = jwt.decode(made.body["token"], key, ["EdDSA"], audience="lingua")
    assert claims["sub"] == "user-7"
    assert claims["exp"] * 1000 == made.body["expires_ms"]
    assert claims["lingua"] == {"tenant": "acme", "grants": ["session"], "pairs": ["zh:en"], "max_sessions": 2}
    assert {name for one in published.body["keys"] for name in one} == {"kty", "crv", "x", "kid", "use", "alg"}


async def test_an_operator_of_all_tenants_must_name_one(desk: Desk) -> None:
    found = await desk.post("admin", "/v1/tokens", {"subject": "u"})
    assert (found.status, found.body["error"]) == (400, "INVALID_MESSAGE")
    assert (await desk.post("admin", "/v1/tokens", {"subject": "u", "tenant": "beta"})).body["tenant"] == "beta"


async def test_the_talk_page_gets_a_short_token_for_sessions_and_rooms(desk: Desk) -> None:
    made = await desk.post("admin", "/v1/tokens/talk")
    assert made.status == 200
    claims = jwt.decode(made.body["token"], options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 600
    assert claims["lingua"]["grants"] == ["session", "room"]
    assert claims["lingua"]["tenant"] == "default"
    # A later one is of the same user, so that the page can go on with it.
    assert (await desk.post("admin", "/v1/tokens/talk")).body["subject"] == made.body["subject"]
    assert (await desk.post("acme", "/v1/tokens/talk")).body["tenant"] == "acme"
    assert (await desk.post("viewer", "/v1/tokens/talk")).status == 403
    assert (await desk.post("", "/v1/tokens/talk")).status == 401


async def test_one_token_or_one_user_can_be_revoked(desk: Desk) -> None:
    one, other, third = [
        (await desk.post("service", "/v1/tokens", {"subject": subject})).body for subject in ("a", "a", "b")
    ]
    named = {"token_id": one["token_id"], "key_id": one["key_id"]}
    assert (await desk.post("beta", "/v1/revocations", named)).status == 404
    assert (await desk.post("acme", "/v1/revocations", named)).status == 200
    assert [(await desk.get(made["token"], "/v1/pools")).status for made in (one, other, third)] == [401, 200, 200]
    assert (await desk.post("beta", "/v1/revocations", {"tenant": "acme", "subject": "a"})).status == 403
    assert (await desk.post("acme", "/v1/revocations", {"tenant": "acme", "subject": "a"})).status == 200
    assert [(await desk.get(made["token"], "/v1/pools")).status for made in (one, other, third)] == [401, 401, 200]


async def test_without_a_cluster_key_no_token_is_made_and_that_is_said(server: RedisProcess, tmp_path: Path) -> None:
    async with desk_on(server.url, tmp_path, None) as desk:
        for path, body in (("/v1/tokens", {"subject": "u"}), ("/v1/tokens/talk", None)):
            found = await desk.post("service", path, body)
            assert (found.status, found.body["error"]) == (503, "SERVICE_UNAVAILABLE")
            assert "privacy.cluster_key_file" in found.body["detail"]
        assert (await desk.get("", "/.well-known/jwks.json")).body == {"keys": []}
