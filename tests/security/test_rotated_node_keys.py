"""Attack 78 with keys that are rotated: a node id stays with the keys that follow each other, and with no others."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.desks import Desk, desk_on
from tests.support.keyed import lingua
from tests.support.peers import Socket, registration
from tests.support.servers import RedisProcess
from tests.support.waiting import until


@pytest.fixture
async def desk(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_on(server.url, tmp_path) as found:
        yield found


async def registered(desk: Desk, key: str, node_id: str) -> str:
    """What a node is answered; then it leaves."""
    socket = Socket(await desk.http.ws_connect(f"/ws/node?access_token={key}"))
    await socket.send(registration(node_id=node_id))
    told = await socket.next("node_register_ack", "error")
    await socket.close()

    async def has_left() -> bool:
        return (await desk.get("admin", f"/v1/nodes/{node_id}")).status == 404

    await until(has_left)
    return str(told.get("code") or told["type"])


async def rotated(desk: Desk, key_id: str, overlap_ms: int = 60_000) -> tuple[str, str]:
    answer = await desk.post("acme", f"/v1/keys/{key_id}/rotate", {"overlap_ms": overlap_ms})
    assert answer.status == 200, answer.body
    return answer.body["key"], answer.body["about"]["id"]


async def test_78_the_successors_of_a_node_key_have_its_ids_and_no_other_key_has(desk: Desk) -> None:
    first = await desk.made("acme", kind="node", is_private=True)
    stranger = await desk.made("acme", kind="node", is_private=True)
    assert await registered(desk, first["key"], "gpu-7") == "node_register_ack"
    second, second_id = await rotated(desk, first["about"]["id"])
    assert await registered(desk, second, "gpu-7") == "node_register_ack"
    # While both are valid a node may still have the one before.
    assert await registered(desk, first["key"], "gpu-7") == "node_register_ack"
    third, _ = await rotated(desk, second_id, overlap_ms=0)
    assert await registered(desk, third, "gpu-7") == "node_register_ack"
    assert await registered(desk, stranger["key"], "gpu-7") == "PERMISSION_DENIED"
    # Nor have the successors of another key.
    other, _ = await rotated(desk, stranger["about"]["id"])
    assert await registered(desk, other, "gpu-7") == "PERMISSION_DENIED"


async def test_78_also_if_it_was_rotated_with_a_command(desk: Desk, server: RedisProcess) -> None:
    first = await desk.made("acme", kind="node", is_private=True)
    assert await registered(desk, first["key"], "gpu-8") == "node_register_ack"
    made = await lingua("keys", "rotate", first["about"]["id"], "--redis-url", server.url)
    assert made.exit_code == 0, made.output
    later = made.stdout.strip()
    await until(lambda: desk.scheduler.credentials.find(later.split("_")[2]))
    assert await registered(desk, later, "gpu-8") == "node_register_ack"
