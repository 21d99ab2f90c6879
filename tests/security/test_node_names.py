"""An admin of one tenant must not be able to take the nodes of another, by a key that is bound to their ids."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.desks import Desk, bearer, desk_on
from tests.support.peers import FakeNode, Socket, answer, heartbeat, registration
from tests.support.servers import RedisProcess


@pytest.fixture
async def desk(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_on(server.url, tmp_path) as found:
        yield found


async def opened(desk: Desk, key: str, node_id: str) -> Socket:
    socket = Socket(await desk.http.ws_connect("/ws/node", headers=bearer(key), max_msg_size=0))
    await socket.send(registration(node_id=node_id))
    return socket


async def node_of(desk: Desk, key: str, node_id: str) -> FakeNode:
    socket = await opened(desk, key, node_id)
    node = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], answer)
    await socket.send(heartbeat(node.node_id))
    return node


async def made(desk: Desk, who: str, **wish: Any) -> str:
    key: str = (await desk.made(who, kind="node", is_private=True, **wish))["key"]
    return key


@pytest.mark.parametrize("who", ["acme", "admin"])
async def test_no_key_is_made_for_a_node_of_another_tenant(desk: Desk, who: str) -> None:
    await made(desk, "beta", node_id="gpu-7")
    refused = await desk.post(
        who, "/v1/keys", {"kind": "node", "node_id": "gpu-7", "tenant": "acme", "is_private": True}
    )
    assert (refused.status, refused.body["error"]) == (409, "KEY_CONFLICT")
    # A second key for the same node, as when the first was lost, and a key for another.
    await made(desk, "beta", node_id="gpu-7")
    await made(desk, "acme", node_id="gpu-8")


async def test_a_key_whose_node_changed_tenants_after_its_end_can_be_made(desk: Desk) -> None:
    first = await desk.made("beta", kind="node", node_id="gpu-7", is_private=True)
    await desk.post("beta", f"/v1/keys/{first['about']['id']}/revoke", {})
    await made(desk, "acme", node_id="gpu-7")


async def test_a_bound_key_takes_no_id_that_a_node_of_another_tenant_uses(desk: Desk) -> None:
    """The key of that node is bound to no id, so that the id is known by its use alone."""
    victim = await node_of(desk, await made(desk, "beta"), "gpu-5")
    bound = await desk.made("acme", kind="node", node_id="gpu-5", is_private=True)
    thief = await opened(desk, bound["key"], "gpu-5")
    assert (await thief.next("error"))["code"] == "PERMISSION_DENIED"
    assert (await desk.get("admin", "/v1/nodes/gpu-5")).status == 200
    assert not victim.socket.socket.closed
    await desk.post("acme", f"/v1/keys/{bound['about']['id']}/revoke", {})
    # Within the tenant it takes it, because its operator decided so.
    heir = await node_of(desk, await made(desk, "beta", node_id="gpu-5"), "gpu-5")
    assert heir.node_id == "gpu-5"
    assert await victim.socket.closed() == 4001
