"""`lingua nodes joined | approve | ban`, at a scheduler that asks for a key."""

import json
from collections.abc import AsyncIterator

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.identity import KeyPair
from tests.support.access import MadeKey, guarded_scheduler, made_key
from tests.support.keyed import lingua
from tests.support.servers import RedisProcess

NOT_ALLOWED, SETTINGS, SCHEDULER = 8, 2, 5
ADMIN = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*")
VIEWER = made_key(KeyKind.OPERATOR, role=Role.VIEWER, tenant="*")
ENROL = made_key(KeyKind.ENROLMENT, needs_approval=True, labels={"region": "eu"})


@pytest.fixture
async def scheduler(server: RedisProcess, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scheduler]:
    folder = tmp_path_factory.mktemp("keys")
    async with guarded_scheduler(server.url, folder, ADMIN, VIEWER) as (found, _):
        await found.credentials.add(ENROL.credential)
        yield found


async def asked(scheduler: Scheduler, *arguments: str, key: MadeKey = ADMIN) -> tuple[int, str]:
    url = f"ws://127.0.0.1:{scheduler.port}"
    found = await lingua("nodes", *arguments, "--url", url, LINGUA_KEY=key.text)
    return found.exit_code, found.output


async def test_a_node_is_listed_approved_and_banned(scheduler: Scheduler) -> None:
    assert "no node has a credential" in (await asked(scheduler, "joined"))[1]
    await scheduler._access.enrolment.enrol(ENROL.credential.id, KeyPair().public_text, "gpu-7")
    row = (await asked(scheduler, "joined"))[1].splitlines()[1].split()
    assert row[:5] == ["gpu-7", "pending", "region=eu", "-", "default"]
    assert await asked(scheduler, "approve", "gpu-7") == (0, "gpu-7 is approved; it connects by itself\n")
    _, text = await asked(scheduler, "joined", "--json")
    assert [one["is_approved"] for one in json.loads(text)["nodes"]] == [True]
    code, text = await asked(scheduler, "ban", "gpu-7")
    assert code == 0
    assert "gpu-7 is banned" in text
    assert f"lingua keys revoke {ENROL.credential.id}" in text
    assert "no node has a credential" in (await asked(scheduler, "joined"))[1]


async def test_nodes_are_chosen_by_a_label(scheduler: Scheduler) -> None:
    here = made_key(KeyKind.ENROLMENT, labels={"region": "us", "owner": "ada @ co"})
    await scheduler.credentials.add(here.credential)
    for key, name in ((ENROL, "gpu-eu"), (here, "gpu-us")):
        await scheduler._access.enrolment.enrol(key.credential.id, KeyPair().public_text, name)
    for label, expected in (("region=eu", ["gpu-eu"]), ("owner=ada @ co", ["gpu-us"]), ("region=e", [])):
        _, text = await asked(scheduler, "joined", "--json", "--label", label)
        assert [one["node_id"] for one in json.loads(text)["nodes"]] == expected
    code, text = await asked(scheduler, "joined", "--label", "region=e")
    assert (code, text) == (0, "no node with a credential has the label region=e\n")
    for wrong in ("region", "=eu", "region="):
        code, text = await asked(scheduler, "joined", "--label", wrong)
        assert (code, "is not NAME=VALUE" in text) == (SETTINGS, True)


@pytest.mark.parametrize("verb", ["approve", "ban"])
async def test_what_cannot_be_done_is_told(scheduler: Scheduler, verb: str) -> None:
    code, text = await asked(scheduler, verb, "unknown")
    assert (code, "UNKNOWN_NODE" in text) == (SCHEDULER, True)
    code, text = await asked(scheduler, verb, "../x")
    assert (code, "cannot be a node id" in text) == (SETTINGS, True)
    code, text = await asked(scheduler, verb, "gpu-7", key=VIEWER)
    assert (code, "keys:write" in text) == (NOT_ALLOWED, True)
