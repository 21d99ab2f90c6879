"""Pairing codes over HTTP."""

import pytest

from lingua_sdk.domain.pairing import CODE_MS, code_in
from tests.support.peers import Field
from tests.support.servers import RedisProcess
from tests.support.tenants import tenants_at


async def test_a_private_node_has_a_code(server: RedisProcess, tmp_path_factory: pytest.TempPathFactory) -> None:
    async with tenants_at(server.url, tmp_path_factory.mktemp("keys")) as tenants:
        await tenants.node("own", "acme", is_private=True)
        status, said = await tenants.ask("POST", "/v1/nodes/own/pair")
        assert (status, said["node_id"], said["valid_ms"]) == (200, "own", CODE_MS)
        assert code_in(said["code"]) == said["code"]


async def test_a_public_node_needs_none_and_an_unknown_one_has_none(peers: Field) -> None:
    node = await peers.node()
    status, said = await peers.post(f"/v1/nodes/{node.node_id}/pair")
    assert (status, said["error"]) == (409, "NODE_NOT_PRIVATE")
    assert await peers.post("/v1/nodes/node-x/pair") == (
        404,
        {"error": "UNKNOWN_NODE", "detail": "there is no node node-x; GET /v1/nodes lists them"},
    )
