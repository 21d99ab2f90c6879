"""Attack D64: guessed and used pairing codes; and what a paired session gets: one private node, and no other."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.domain.access.scopes import Role
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.domain.pairing import MISSES_PER_MIN
from tests.support.access import MadeKey
from tests.support.peers import FakeClient, FakeNode
from tests.support.servers import RedisProcess
from tests.support.tenants import Tenants, tenants_at

CHANGES: dict[str, Any] = {"dispatch__queue_wait_ms": 300, "server__unmetered_addresses": []}


@pytest.fixture
async def tenants(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Tenants]:
    async with tenants_at(server.url, tmp_path, **CHANGES) as found:
        yield found


async def code_for(tenants: Tenants, node: FakeNode, key: MadeKey | None = None) -> str:
    status, said = await tenants.ask("POST", f"/v1/nodes/{node.node_id}/pair", key)
    assert status == 200, said
    assert (said["node_id"], said["valid_ms"]) == (node.node_id, 300_000)
    return str(said["code"])


async def complaint_of(client: FakeClient) -> str:
    return str((await client.socket.next("error"))["code"])


async def is_translated(client: FakeClient, number: int = 0) -> bool:
    await client.utterance(number)
    return bool((await client.outcome())["type"] == "translation_result")


async def test_64_a_code_lets_one_session_of_another_tenant_use_one_node(tenants: Tenants) -> None:
    own = await tenants.node("own", "acme", is_private=True)
    spare, public = await tenants.node("spare", "acme", is_private=True), await tenants.node("public")
    code = await code_for(tenants, own, await tenants.operator("acme"))
    beta = await tenants.client("beta", pairing_code=code)
    for number in range(5):
        assert await is_translated(beta, number)
    assert (len(own.jobs), len(spare.jobs), len(public.jobs)) == (5, 0, 0)
    # Used twice: the session goes on, without the node.
    again = await tenants.client("beta", pairing_code=code)
    assert again.ack["type"] == "session_init_ack"
    assert await complaint_of(again) == "INVALID_PAIRING_CODE"
    assert await is_translated(again)
    assert (len(own.jobs), len(spare.jobs), len(public.jobs)) == (5, 0, 1)


async def test_64_a_paired_session_gets_no_other_node_when_its_own_is_gone(tenants: Tenants) -> None:
    own = await tenants.node("own", "acme", is_private=True)
    spare, public = await tenants.node("spare", "acme", is_private=True), await tenants.node("public")
    beta = await tenants.client("beta", pairing_code=await code_for(tenants, own))
    assert await is_translated(beta)
    await own.stop()
    await beta.utterance(1)
    missing = await beta.outcome()
    assert (missing["type"], missing["code"]) == ("missing_result", "PREFERRED_NODE_NOT_CAPABLE")
    assert (spare.jobs, public.jobs) == ([], [])


@pytest.mark.expects_surprise("pairing.guessing")
async def test_64_after_five_wrong_codes_an_address_must_wait(tenants: Tenants) -> None:
    own = await tenants.node("own", "acme", is_private=True)
    right = await code_for(tenants, own)
    for number in range(MISSES_PER_MIN + 1):
        client = await tenants.client("beta", pairing_code=f"AAAAAAA{'ABCDEFGH'[number]}")
        assert client.ack["type"] == "session_init_ack"
        assert await complaint_of(client) == "INVALID_PAIRING_CODE"
    # Now not even the right one is looked at.
    client = await tenants.client("beta", pairing_code=right)
    assert await complaint_of(client) == "INVALID_PAIRING_CODE"
    assert not own.jobs
    assert await tenants.store.pairings.take(right) is not None


@pytest.mark.parametrize("text", [None, "", "0000", "hello", "配对码", "a" * 200])
async def test_what_existing_apps_send_is_no_code_and_fails_no_session(tenants: Tenants, text: str | None) -> None:
    public = await tenants.node("public")
    client = await tenants.client("beta", pairing_code=text)
    assert await is_translated(client)
    assert (len(public.jobs), client.socket.of_type("error")) == (1, [])


async def test_only_those_who_operate_a_node_make_codes_for_it(tenants: Tenants) -> None:
    await tenants.node("own", "acme", is_private=True)
    await tenants.node("public", "acme")
    answers = {}
    for name, key in {
        "viewer": await tenants.operator("acme", Role.VIEWER),
        "foreign": await tenants.operator("beta"),
        "own": await tenants.operator("acme"),
    }.items():
        answers[name] = (await tenants.ask("POST", "/v1/nodes/own/pair", key))[0]
    assert answers == {"viewer": 403, "foreign": 404, "own": 200}
    status, said = await tenants.ask("POST", "/v1/nodes/public/pair")
    assert (status, said["error"]) == (409, "NODE_NOT_PRIVATE")
    assert (await tenants.ask("POST", "/v1/nodes/nowhere/pair"))[0] == 404


async def test_a_pairing_survives_a_resume_on_another_instance(server: RedisProcess, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    async with (
        tenants_at(server.url, tmp_path, **CHANGES) as here,
        tenants_at(server.url, there, **CHANGES) as elsewhere,
    ):
        own, public = await here.node("own", "acme", is_private=True), await here.node("public")
        code = await code_for(here, own)
        key = await here.key(KeyKind.SERVICE, tenant="beta")
        first = await here.client_with(key, pairing_code=code)
        assert await is_translated(first)
        first.socket.drop()
        await elsewhere.scheduler.credentials.refresh()
        second = await elsewhere.client_with(key, resume_token=first.ack["resume_token"], pairing_code=code)
        assert second.ack["resumed"] is True
        for number in range(1, 4):
            assert await is_translated(second, number)
        assert (len(own.jobs), public.jobs) == (4, [])
        assert second.socket.of_type("error") == []
