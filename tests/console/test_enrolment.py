"""Joining over HTTP: what is answered. The attacks are in tests/security/test_joining_nodes.py."""

from typing import Any

from lingua_scheduler.console.enrolment import described
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.identity import KeyPair
from tests.support.credentials import key
from tests.support.joining import CLUSTER
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess


async def test_without_credentials_there_is_nothing_to_join_with(peers: Field) -> None:
    status, said = await peers.post("/v1/nodes/enrol", {"public_key": KeyPair().public_text})
    assert (status, said["error"]) == (403, "ENROLMENT_REFUSED")
    assert "lingua keys create --kind enrol" in said["detail"]
    assert await peers.get("/v1/enrolments") == (200, {"nodes": []})
    for verb in ("approve", "ban"):
        status, said = await peers.post(f"/v1/nodes/nobody/{verb}")
        assert (status, said["error"]) == (404, "UNKNOWN_NODE")


async def test_a_node_hears_how_to_sign_and_an_operator_sees_it(server: RedisProcess) -> None:
    enrolment = key("e", kind=KeyKind.ENROLMENT, labels={"owner": "ada"}, is_ephemeral=True, nodes_live_ms=1_000_000)
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await scheduler.credentials.add(enrolment)
        made = await scheduler._access.enrolment.enrol(enrolment.id, KeyPair().public_text, "gpu-7")
        _, listed = await peers.get("/v1/enrolments")
        expected: dict[str, Any] = {
            "node_id": "gpu-7",
            "credential_id": made.id,
            "tenant": "default",
            "is_approved": True,
            "is_ephemeral": True,
            "is_private": False,
            "labels": {"owner": "ada"},
            "max_slots": 0,
            "enrolled_with": enrolment.id,
            "created_ms": made.created_ms,
            "expires_ms": made.created_ms + 1_000_000,
        }
        assert listed == {"nodes": [expected]}
        # Neither the digest nor the public key is told.
        assert set(expected) == set(described(made).__struct_fields__)
        assert await peers.post("/v1/nodes/gpu-7/approve") == (200, expected)
        assert CLUSTER == "lingua/lingua:v1"
