"""The document is true: whatever fits it, or does not, is answered as it says. It tells us what there is to try."""

import asyncio
import json
import os
import random
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.http_nodes import LANGUAGES
from tests.support.peers import field
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until
from tools.docs import BUILT, documents

SEED = int(os.environ.get("SEED", random.randrange(2**32)))
EXAMPLES = int(os.environ.get("EXAMPLES", "8"))
NODE_ID = "node-known"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@pytest.mark.slow
@pytest.mark.timeout(400)  # every operation is tried many times
async def test_whatever_is_asked_is_answered_as_the_document_says(server: RedisProcess, tmp_path: Path) -> None:
    print(f"to repeat this: SEED={SEED}")
    async with serve_process(tmp_path, "--redis-url", server.url, "--set", "dispatch.queue_wait_ms=10") as serving:
        await until(lambda: serving.port, 60)
        async with field(serving.port) as peers:
            await peers.node()
            await peers.post("/v1/node/register", LANGUAGES | {"node_id": NODE_ID})
            await asyncio.to_thread(attack, serving.port)
            assert (await peers.get("/health/ready"))[0] == 200
        assert '"request.failed"' not in serving.log
        assert '"task.failed"' not in serving.log


def attack(port: int) -> None:
    document = json.loads(documents()[BUILT / "openapi.json"])
    for methods in document["paths"].values():
        for told in methods.values():
            told.pop("security", None)  # on this computer nobody needs a credential
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=f"http://127.0.0.1:{port}")
    tried = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        try_out(operation.as_strategy(generation_mode=GenerationMode.POSITIVE), names_a_node=True)
        with suppress(Unsatisfiable):  # there is no wrong way to ask for what takes nothing
            try_out(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
        tried += 1
    assert tried >= 14


def try_out(cases: st.SearchStrategy[Case[Any]], *, names_a_node: bool = False) -> None:
    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, is_known=st.booleans())
    def ask(case: Case[Any], is_known: bool) -> None:
        if names_a_node:
            wait_briefly(case)
            if is_known:
                name_a_real_node(case)
        # A text may be too long because the whole body is: that is an answer too.
        response = case.call()
        checks = CHECKS if response.status_code != HTTPStatus.REQUEST_ENTITY_TOO_LARGE else CHECKS[:-1]
        case.validate_response(response, checks=checks)
        told = case.operation.definition.raw["responses"][str(response.status_code)]
        if codes := told.get("x-error-codes"):
            assert response.json()["error"] in codes

    ask()


def wait_briefly(case: Case[Any]) -> None:
    """A node that was registered by chance, and polls, would wait for longer than we do."""
    if isinstance(case.body, dict) and "node_id" in case.body:
        case.body["wait_ms"] = 10


def name_a_real_node(case: Case[Any]) -> None:
    """What only a registered node may do would otherwise end at the door."""
    if isinstance(case.body, dict) and isinstance(case.body.get("node_id"), str):
        case.body |= {"node_id": NODE_ID}
        case.body.pop("boot_id", None)


def test_all_errors_have_one_schema_so_that_generators_make_one_class() -> None:
    document = json.loads(documents()[BUILT / "openapi.json"])
    responses = [
        response
        for methods in document["paths"].values()
        for operation in methods.values()
        for status, response in operation["responses"].items()
        if status not in ("200", "204")
    ]
    schemas = {json.dumps(response["content"]["application/json"]["schema"]) for response in responses}
    assert schemas == {'{"$ref": "#/components/schemas/ErrorResponse"}'}
    assert set(document["components"]["schemas"]["ErrorResponse"]["required"]) == {"error", "detail"}
    for response in responses:
        assert [f"- `{code}`" for code in response["x-error-codes"]] == [
            line.partition(":")[0] for line in response["description"].splitlines()
        ]
