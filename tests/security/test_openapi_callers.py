"""Every operation asked by every kind of caller, as its schema allows: no failure of the server, and no leak."""

import asyncio
import base64
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import status_code_conformance

from lingua_scheduler.domain.access.scopes import Role, Scope
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import CALLERS, MadeKey, made_key, write_keys_file
from tests.support.callers import SPEECH
from tests.support.peers import FakeNode, Field, Frame, field, heartbeat, registration, result_of
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until
from tools.docs import BUILT, documents

SEED = int(os.environ.get("SEED", random.randrange(2**32)))
EXAMPLES = 2
OWNER = "acme"
SESSION_ID, REQUEST_ID, TEXT = "session-of-acme", "request-of-acme", "zebrafinch"
# What no other caller is told. Operators see the jobs of all tenants, and still not what was said.
NOT_FOR_CALLERS, NOT_FOR_OPERATORS = (TEXT, SESSION_ID, REQUEST_ID, OWNER), (TEXT, REQUEST_ID)

STRANGERS: dict[str, MadeKey] = {name: make() for name, make in CALLERS.items()} | {
    "beta's client": made_key(KeyKind.CLIENT, tenant="beta"),
    "beta's service": made_key(KeyKind.SERVICE, tenant="beta"),
    "beta's admin": made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="beta"),
    "beta's node": made_key(KeyKind.NODE, tenant="beta"),
    "enrolment": made_key(KeyKind.ENROLMENT),
}
SERVICE = made_key(KeyKind.SERVICE, tenant=OWNER)
NODE = made_key(KeyKind.NODE, tenant=OWNER)


@pytest.mark.timeout(200)
async def test_no_caller_breaks_an_operation_or_learns_of_others(server: RedisProcess, tmp_path: Path) -> None:
    print(f"to repeat this: SEED={SEED}")
    keys = write_keys_file(tmp_path / "keys.toml", SERVICE, NODE, *STRANGERS.values())
    changed = ("auth.mode=required", f"auth.keys_file={keys}", "dispatch.queue_wait_ms=10")
    sets = [word for change in changed for word in ("--set", change)]
    async with serve_process(tmp_path, "--redis-url", server.url, *sets) as serving:
        await until(lambda: serving.port, 60)
        async with field(serving.port) as peers:
            job_id = await work(peers)
            result = f"/v1/jobs/{job_id}/result?wait_ms=20000"
            told = await peers.ask("GET", result, headers=SERVICE.header)
            statuses = await asyncio.to_thread(attack, serving.port, job_id)
            assert TEXT in str(told), "its owner is told"
            assert await peers.ask("GET", result, headers=SERVICE.header) == told, "and still is"
        assert '"request.failed"' not in serving.log
        assert '"task.failed"' not in serving.log
    # Every caller may do something, and none may do everything.
    for name, found in statuses.items():
        assert 403 in found, name
        assert 401 not in found, name
    assert all(200 in statuses[name] for name in ("viewer", "operator", "admin", "service", "client"))


async def work(peers: Field) -> str:
    """A job of acme, done by its own node."""
    socket = await peers.socket(f"/ws/node?access_token={NODE.text}")
    await socket.send(registration())
    node = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], say)
    peers.nodes.append(node)
    await socket.send(heartbeat(node.node_id))
    body = {"session_id": SESSION_ID, "request_id": REQUEST_ID, "src_lang": "en", "tgt_lang": "zh"}
    body["audio"] = base64.b64encode(SPEECH).decode()
    await until(lambda: _is_served(peers), 30)
    status, answer = await peers.ask("POST", "/v1/dispatch/f2f", headers=SERVICE.header, json=body)
    assert status == 200, answer
    return str(answer["job_id"])


async def _is_served(peers: Field) -> bool:
    _, body = await peers.ask("GET", "/v1/pools/en/zh", headers=SERVICE.header)
    return "node-" in str(body)


async def say(node: FakeNode, job: Frame) -> None:
    """The owner's words for the owner alone."""
    words = TEXT if len(node.jobs) == 1 else "other words"
    await node.socket.send(result_of(job, node.node_id, text_asr=words, text_translated=words))


def attack(port: int, job_id: str) -> dict[str, set[int]]:
    """The statuses that each caller met."""
    statuses: dict[str, set[int]] = {name: set() for name in STRANGERS}
    document = json.loads(documents()[BUILT / "openapi.json"])
    for methods in document["paths"].values():
        for told in methods.values():
            told.pop("security", None)  # the keys are ours
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=f"http://127.0.0.1:{port}")
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        ask_as_everybody(found.ok().as_strategy(generation_mode=GenerationMode.POSITIVE), job_id, statuses)
    return statuses


def ask_as_everybody(cases: st.SearchStrategy[Case[Any]], job_id: str, statuses: dict[str, set[int]]) -> None:
    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def ask(case: Case[Any]) -> None:
        if isinstance(case.body, dict) and "node_id" in case.body:
            case.body["wait_ms"] = 10
        if "job_id" in (case.path_parameters or {}):
            case.path_parameters["job_id"] = job_id
        for name, key in STRANGERS.items():
            response = case.call(headers=key.header)
            if case.operation.path != "/v1/login":  # what it judges is in the body
                statuses[name].add(response.status_code)
            # What a translation could not be done for is its answer; nothing else may fail.
            checks = [status_code_conformance]
            if case.operation.path != "/v1/translate":
                checks.append(not_a_server_error)
            case.validate_response(response, checks=checks)
            secrets = NOT_FOR_OPERATORS if Scope.FLEET_READ in key.credential.scopes else NOT_FOR_CALLERS
            leaks = [secret for secret in secrets if secret in response.text]
            assert not leaks, f"{name} learns {leaks} of {case.method} {case.path}: {response.text[:2000]}"

    ask()
