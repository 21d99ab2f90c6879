"""Attacks on the making of keys and tokens (51 to 53, and the rows of 65 that depend on the tenant)."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.desks import Desk, desk_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until


@pytest.fixture
async def desk(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_on(server.url, tmp_path) as found:
        yield found


async def test_51_both_keys_work_during_the_overlap_then_only_the_later(desk: Desk) -> None:
    made = await desk.made("acme", kind="service")
    key_id = made["about"]["id"]
    rotated = (await desk.post("acme", f"/v1/keys/{key_id}/rotate", {"overlap_ms": 1_500})).body
    assert rotated["before"]["successor"] == rotated["about"]["id"]
    assert rotated["about"]["scopes"] == made["about"]["scopes"]
    assert rotated["about"]["last_used_ms"] == 0
    began_ms = int(time.time() * 1000)
    for text in (made["key"], rotated["key"]):
        assert (await desk.get(text, "/v1/pools")).status == 200
    for used in (key_id, rotated["about"]["id"]):
        assert began_ms <= (await desk.get("acme", f"/v1/keys/{used}")).body["last_used_ms"] <= time.time() * 1000
    seen_ms = (await desk.get("acme", f"/v1/keys/{key_id}")).body["last_used_ms"]

    await until(lambda: time.time() * 1000 >= rotated["before"]["expires_ms"], 10)
    ended = await desk.get(made["key"], "/v1/pools")
    assert (ended.status, ended.body["error"]) == (401, "TOKEN_EXPIRED")
    assert (await desk.get(rotated["key"], "/v1/pools")).status == 200
    # A refused try is no use.
    assert (await desk.get("acme", f"/v1/keys/{key_id}")).body["last_used_ms"] == seen_ms
    assert (await desk.get("acme", f"/v1/keys/{key_id}")).body["state"] == "expired"


async def test_51_a_rotated_key_is_the_same_at_another_instance(
    desk: Desk, server: RedisProcess, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    async with desk_on(server.url, tmp_path / "other") as other:
        made = await desk.made("acme", kind="service")
        rotated = (await desk.post("acme", f"/v1/keys/{made['about']['id']}/rotate", {"overlap_ms": 0})).body
        key_id = rotated["about"]["id"]
        await until(lambda: other.scheduler.credentials.find(key_id) is not None, 1)
        assert (await other.get(rotated["key"], "/v1/pools")).status == 200
        assert (await other.get(made["key"], "/v1/pools")).status == 401


@pytest.mark.parametrize(
    "more",
    [{"tenant": "beta"}, {"pairs": ["en:fr"], "tenant": "beta"}, {"tenant": "default"}],
    ids=["tenant", "pairs and tenant", "default"],
)
async def test_52_a_service_key_mints_nothing_that_it_has_not(desk: Desk, more: dict[str, Any]) -> None:
    found = await desk.post("service", "/v1/tokens", {"subject": "u"} | more)
    assert (found.status, found.body["error"]) == (403, "PERMISSION_DENIED")
    assert "token" not in found.body


async def test_52_a_service_that_acts_for_a_tenant_mints_for_that_one_alone(desk: Desk) -> None:
    acting = await desk.made("admin", kind="service", tenant="acme", act_for=["beta"])
    statuses = [
        (await desk.post(acting["key"], "/v1/tokens", {"subject": "u", "tenant": tenant})).status
        for tenant in ("acme", "beta", "gamma")
    ]
    assert statuses == [200, 200, 403]


async def test_52_a_token_makes_no_tokens_and_no_keys(desk: Desk) -> None:
    token = (await desk.post("service", "/v1/tokens", {"subject": "u", "grants": ["session", "dispatch"]})).body[
        "token"
    ]
    assert (await desk.post(token, "/v1/tokens", {"subject": "u"})).status == 403
    assert (await desk.post(token, "/v1/keys", {"kind": "client"})).status == 403
    assert (await desk.get(token, "/v1/keys")).status == 403


async def test_53_only_an_admin_makes_and_ends_keys(desk: Desk) -> None:
    key_id = desk.keys["service"].credential.id
    changes: tuple[tuple[str, Any], ...] = (
        ("/v1/keys", {"kind": "client"}),
        (f"/v1/keys/{key_id}/rotate", {}),
        (f"/v1/keys/{key_id}/revoke", None),
        ("/v1/revocations", {"tenant": "acme"}),
        ("/v1/issuers", {"id": "i", "issuer": "i", "jwks_url": "https://idp.example"}),
        ("/v1/issuers/i/revoke", None),
    )
    before = (await desk.get("admin", "/v1/keys?all=true")).body["keys"]
    for who in ("viewer", "operator", "auditor", "service"):
        for path, body in changes:
            found = await desk.post(who, path, body)
            assert (found.status, found.body["error"]) == (403, "PERMISSION_DENIED"), (who, path)
        assert (await desk.get(who, "/v1/keys")).status == 403
    after = (await desk.get("admin", "/v1/keys?all=true")).body["keys"]
    assert [one | {"last_used_ms": 0} for one in after] == [one | {"last_used_ms": 0} for one in before]


async def test_53_an_admin_of_one_tenant_neither_sees_nor_makes_keys_of_another(desk: Desk) -> None:
    theirs = await desk.made("beta", kind="service")
    seen = (await desk.get("acme", "/v1/keys?all=true")).body["keys"]
    assert seen
    assert {one["tenant"] for one in seen} == {"acme"}
    assert (await desk.get("acme", f"/v1/keys/{theirs['about']['id']}")).status == 404
    for wish in (
        {"kind": "client", "tenant": "beta"},
        {"kind": "operator", "role": "admin", "tenant": "*"},
        {"kind": "operator", "role": "viewer", "tenant": "beta"},
        {"kind": "service", "act_for": ["beta"]},
        {"kind": "service", "act_for": ["*"]},
    ):
        assert (await desk.post("acme", "/v1/keys", wish)).status == 403, wish
    for path in ("/v1/keys/{}/revoke", "/v1/keys/{}/rotate"):
        body: Any = {} if path.endswith("rotate") else None
        assert (await desk.post("acme", path.format(theirs["about"]["id"]), body)).status == 404
        # Nor the key of an operator of all tenants.
        assert (await desk.post("acme", path.format(desk.keys["admin"].credential.id), body)).status == 404
    assert (await desk.get(theirs["key"], "/v1/pools")).status == 200
    assert (await desk.get("admin", "/v1/keys")).status == 200


async def test_53_an_admin_of_one_tenant_gives_no_key_that_reaches_beyond_it(desk: Desk) -> None:
    # It sees no figures of all tenants itself, and a public node would hear what is said in all of them.
    assert (await desk.get("acme", "/metrics")).status == 403
    public = await desk.made("admin", kind="node", tenant="acme")
    for wish in ({"kind": "metrics"}, {"kind": "node"}, {"kind": "enrol"}):
        found = await desk.post("acme", "/v1/keys", wish)
        assert (found.status, found.body["error"]) == (403, "PERMISSION_DENIED"), wish
        assert (await desk.post("admin", "/v1/keys", wish | {"tenant": "acme"})).status == 200
    # The secret of a successor would be its own.
    path = f"/v1/keys/{public['about']['id']}/rotate"
    assert (await desk.post("acme", path, {})).status == 403
    assert (await desk.post("admin", path, {})).status == 200
    for kind in ("node", "enrol"):
        own = await desk.made("acme", kind=kind, is_private=True)
        assert own["about"]["tenant"] == "acme"
        assert own["about"]["is_private"]


async def test_53_an_admin_that_is_revoked_makes_nothing_more(desk: Desk) -> None:
    made = await desk.made("acme", kind="operator", role="admin")
    assert (await desk.post(made["key"], "/v1/keys", {"kind": "client"})).status == 200
    await desk.post("acme", f"/v1/keys/{made['about']['id']}/revoke")
    assert (await desk.post(made["key"], "/v1/keys", {"kind": "client"})).status == 401
