"""`lingua pair`, at a scheduler that asks for a key."""

import json

import pytest

from lingua_sdk.domain.pairing import code_in
from tests.support.keyed import lingua
from tests.support.servers import RedisProcess
from tests.support.tenants import tenants_at

SETTINGS, SCHEDULER = 2, 5


async def test_a_code_is_all_there_is_on_standard_output(
    server: RedisProcess, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with tenants_at(server.url, tmp_path_factory.mktemp("keys")) as tenants:
        await tenants.node("own", "acme", is_private=True)
        await tenants.node("public")
        where = ("--url", f"ws://127.0.0.1:{tenants.scheduler.port}")
        key = tenants.admin.text
        found = await lingua("pair", "own", *where, LINGUA_KEY=key)
        assert (found.exit_code, code_in(found.stdout)) == (0, found.stdout.strip())
        assert "for one session with own, within 5 minutes" in found.stderr
        found = await lingua("pair", "own", "--json", *where, LINGUA_KEY=key)
        assert json.loads(found.stdout)["node_id"] == "own"
        for node_id, code, told in (
            ("public", SCHEDULER, "NODE_NOT_PRIVATE"),
            ("nowhere", SETTINGS, "there is no node nowhere; lingua nodes lists them"),
            ("../x", SETTINGS, "cannot be a node id"),
        ):
            found = await lingua("pair", node_id, *where, LINGUA_KEY=key)
            assert (found.exit_code, told in found.output) == (code, True), found.output
