"""Keys over HTTP, with a real Redis and real sockets."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.services.access.signing import signing_key_of
from lingua_sdk.domain.key_texts import KeyText
from tests.support.desks import Desk, desk_on
from tests.support.servers import RedisProcess
from tests.support.tokens import ED25519, pem

ISSUER = {"id": "app-1", "issuer": "https://app.example", "public_key": pem(ED25519)}


@pytest.fixture
async def desk(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_on(server.url, tmp_path) as found:
        yield found


async def test_a_key_is_created_used_shown_and_revoked(desk: Desk) -> None:
    made = await desk.made("acme", kind="service", name="backend", networks=["127.0.0.0/8"], expires_in_ms=60_000)
    about = made["about"]
    assert (about["kind"], about["tenant"], about["state"], about["name"]) == ("service", "acme", "live", "backend")
    assert about["scopes"] == ["dispatch:call", "room:create", "room:join", "session:open", "tokens:mint"]
    assert about["shown"] == f"lk_sv_{about['id']}"
    assert about["created_by"] == f"lk_op_{desk.keys['acme'].credential.id}"
    assert about["expires_ms"] == about["created_ms"] + 60_000
    assert about["last_used_ms"] == 0
    assert (await desk.get(made["key"], "/v1/pools")).status == 200
    shown = await desk.get("acme", f"/v1/keys/{about['id']}")
    assert shown.body | {"last_used_ms": 0} == about
    assert shown.body["last_used_ms"] >= about["created_ms"]
    revoked = await desk.post("acme", f"/v1/keys/{about['id']}/revoke")
    assert (revoked.status, revoked.body["state"]) == (200, "revoked")
    assert (await desk.get(made["key"], "/v1/pools")).status == 401
    assert (await desk.post("acme", f"/v1/keys/{about['id']}/revoke")).body == revoked.body


async def test_a_list_has_what_lives_and_on_request_what_ended(desk: Desk) -> None:
    before = {one["id"] for one in (await desk.get("acme", "/v1/keys")).body["keys"]}
    made = await desk.made("acme", kind="client")
    await desk.post("acme", f"/v1/keys/{made['about']['id']}/revoke")
    assert {one["id"] for one in (await desk.get("acme", "/v1/keys")).body["keys"]} == before
    everything = (await desk.get("acme", "/v1/keys?all=true")).body["keys"]
    assert {one["id"] for one in everything} == before | {made["about"]["id"]}


async def test_no_answer_has_a_digest_or_a_signing_key(desk: Desk) -> None:
    made = await desk.made("acme", kind="service", signs=True)
    rotated = (await desk.post("acme", f"/v1/keys/{made['about']['id']}/rotate", {})).body
    answers = [made, rotated]
    answers += [
        (await desk.get("acme", path)).body for path in ("/v1/keys?all=true", f"/v1/keys/{made['about']['id']}")
    ]
    answers.append((await desk.post("acme", f"/v1/keys/{made['about']['id']}/revoke")).body)
    said = json.dumps(answers)
    for text in (made["key"], rotated["key"]):
        key = KeyText.parse(text)
        assert key.digest not in said
        assert signing_key_of(key.secret) not in said
        # Once, in the answer that made it.
        assert said.count(key.secret) == 1
    assert made["about"]["signs"]


async def test_a_key_of_another_tenant_is_like_none(desk: Desk) -> None:
    theirs = (await desk.made("beta", kind="client"))["about"]["id"]
    none = "0" * 12
    for method, path, body in (
        ("GET", "/v1/keys/{}", None),
        ("POST", "/v1/keys/{}/revoke", None),
        ("POST", "/v1/keys/{}/rotate", {}),
    ):
        more: dict[str, Any] = {} if body is None else {"json": body}
        foreign = await desk.ask("acme", method, path.format(theirs), **more)
        unknown = await desk.ask("acme", method, path.format(none), **more)
        assert (foreign.status, foreign.body["error"]) == (404, "UNKNOWN_KEY")
        assert foreign.body["detail"].replace(theirs, none) == unknown.body["detail"]
    assert (await desk.get("admin", f"/v1/keys/{theirs}")).body["state"] == "live"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"kind": "operator"}, "an operator needs a role"),
        ({"kind": "service", "scope": ["x"]}, 'unknown field "scope"'),
        ({"kind": "service", "networks": ["nowhere"]}, "networks"),
        ({"kind": "root"}, "kind"),
    ],
)
async def test_a_wish_that_cannot_be_met_names_the_field(desk: Desk, body: dict[str, object], told: str) -> None:
    found = await desk.post("acme", "/v1/keys", body)
    assert (found.status, found.body["error"]) == (400, "INVALID_MESSAGE")
    assert told in found.body["detail"]


async def test_while_redis_is_away_keys_are_listed_and_none_is_changed(desk: Desk, server: RedisProcess) -> None:
    made = await desk.made("acme", kind="client")
    key_id = made["about"]["id"]
    await desk.store.close()
    for path, body in (
        ("/v1/keys", {"kind": "client"}),
        (f"/v1/keys/{key_id}/rotate", {}),
        (f"/v1/keys/{key_id}/revoke", None),
        ("/v1/revocations", {"tenant": "acme"}),
        ("/v1/issuers", ISSUER),
    ):
        found = await desk.post("acme", path, body)
        assert (found.status, found.body["error"]) == (503, "SCHEDULER_DEPENDENCY_DOWN"), path
    assert (await desk.get("acme", f"/v1/keys/{key_id}")).body["state"] == "live"
    assert (await desk.get(made["key"], "/v1/pools")).status in (200, 503)


async def test_issuers_are_added_listed_and_revoked(desk: Desk) -> None:
    added = await desk.post("acme", "/v1/issuers", ISSUER)
    assert (added.status, added.body["tenant"], added.body["state"]) == (200, "acme", "live")
    assert (await desk.get("acme", "/v1/issuers")).body["issuers"] == [added.body]
    assert (await desk.get("beta", "/v1/issuers")).body["issuers"] == []
    assert (await desk.post("acme", "/v1/issuers", ISSUER)).status == 409
    assert (await desk.post("beta", "/v1/issuers/app-1/revoke")).status == 404
    revoked = await desk.post("acme", "/v1/issuers/app-1/revoke")
    assert revoked.body["state"] == "revoked"
    assert (await desk.get("acme", "/v1/issuers")).body["issuers"] == []
    assert (await desk.get("acme", "/v1/issuers?all=true")).body["issuers"] == [revoked.body]


async def test_a_revoked_tenant_has_no_valid_key_until_it_gets_another(desk: Desk) -> None:
    made = await desk.made("acme", kind="client")
    assert (await desk.post("acme", "/v1/revocations", {"tenant": "acme"})).status == 200
    for who in (made["key"], "acme", "service"):
        assert (await desk.get(who, "/v1/pools")).status == 401
    assert (await desk.get("beta", "/v1/pools")).status == 200
    later = await desk.made("admin", kind="client", tenant="acme")
    assert (await desk.get(later["key"], "/v1/pools")).status == 200


@pytest.mark.parametrize(
    "body",
    [{}, {"subject": "u"}, {"token_id": "t"}, {"key_id": "k"}, {"tenant": "acme", "token_id": "t", "key_id": "k"}],
)
async def test_a_revocation_names_exactly_one_thing(desk: Desk, body: dict[str, str]) -> None:
    found = await desk.post("acme", "/v1/revocations", body)
    assert (found.status, found.body["error"]) == (400, "INVALID_MESSAGE")
    assert "a tenant and a subject" in found.body["detail"]


async def test_an_invitation_says_what_the_nodes_that_join_with_it_may(desk: Desk) -> None:
    wish = {"labels": {"region": "eu", "owner": "ada"}, "max_slots": 4, "needs_approval": True, "is_ephemeral": True}
    wish["is_private"] = True
    made = await desk.made("acme", kind="enrol", nodes_live_ms=86_400_000, **wish)
    about = made["about"]
    assert {name: about[name] for name in wish} == wish
    # For one node, unless more are asked for.
    assert (about["max_nodes"], about["nodes_live_ms"]) == (1, 86_400_000)
    assert (await desk.made("acme", kind="enrol", is_private=True, max_nodes=0))["about"]["max_nodes"] == 0
    joined = await desk.post(made["key"], "/v1/nodes/enrol", {"public_key": "0f" * 32, "node_id": "gpu-7"})
    assert (joined.status, joined.body["is_approved"]) == (200, False)
    (node,) = (await desk.get("acme", "/v1/enrolments")).body["nodes"]
    assert (node["labels"], node["max_slots"], node["is_ephemeral"]) == (wish["labels"], 4, True)
    # It signs with a key of its own, which no other key can replace.
    shown = (await desk.get("acme", f"/v1/keys/{node['credential_id']}")).body
    assert shown["enrolled_with"] == about["id"]
    refused = await desk.post("acme", f"/v1/keys/{node['credential_id']}/rotate", {})
    assert (refused.status, refused.body["error"]) == (409, "KEY_CONFLICT")
