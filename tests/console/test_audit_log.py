"""The audit log over HTTP: for admins and auditors, each of their own tenant."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.desks import Desk, desk_on
from tests.support.servers import RedisProcess


@pytest.fixture
async def desk(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_on(server.url, tmp_path) as found:
        yield found


async def test_an_auditor_sees_who_made_which_key(desk: Desk) -> None:
    await desk.made("acme", kind="enrol", is_private=True, name="eu", labels={"region": "eu"})
    (entry,) = (await desk.get("auditor", "/v1/audit?action=keys")).body["entries"]
    assert (entry["action"], entry["outcome"]) == ("keys.create", "requested")
    assert entry["actor"]["key_id"] == desk.keys["acme"].credential.id
    assert (entry["actor"]["tenant"], entry["actor"]["address"]) == ("acme", "127.0.0.1")
    assert (entry["values"]["name"], entry["values"]["labels"]) == ("eu", "region=eu")
    # Nothing of the chain, and no secret.
    assert set(entry) == {"seq", "at_ms", "actor", "action", "object", "outcome", "request_id", "values"}


async def test_a_tenant_sees_what_its_own_callers_did_alone(desk: Desk) -> None:
    await desk.made("acme", kind="client", name="of-acme")
    await desk.made("beta", kind="client", name="of-beta")
    seen = {
        who: [entry["values"]["name"] for entry in (await desk.get(who, "/v1/audit?action=keys")).body["entries"]]
        for who in ("admin", "acme", "beta", "auditor")
    }
    assert seen == {
        "admin": ["of-beta", "of-acme"],
        "acme": ["of-acme"],
        "beta": ["of-beta"],
        "auditor": ["of-acme"],
    }
    # The start of a scheduler is of no tenant.
    assert (await desk.get("beta", "/v1/audit?action=scheduler")).body["entries"] == []
    assert (await desk.get("admin", "/v1/audit?action=scheduler")).body["entries"]


async def test_a_viewer_and_an_operator_may_not_read_it(desk: Desk) -> None:
    for who in ("viewer", "operator", "service"):
        found = await desk.get(who, "/v1/audit")
        assert (found.status, found.body["error"]) == (403, "PERMISSION_DENIED"), who


async def test_it_goes_on_where_the_page_before_ended(desk: Desk) -> None:
    for number in range(3):
        await desk.made("acme", kind="client", name=f"c{number}")
    first = (await desk.get("acme", "/v1/audit?action=keys.create&limit=2")).body
    second = (await desk.get("acme", f"/v1/audit?action=keys.create&limit=2&before={first['next_before']}")).body
    names = [entry["values"]["name"] for entry in (*first["entries"], *second["entries"])]
    assert names == ["c2", "c1", "c0"]
    assert (await desk.get("acme", "/v1/audit?limit=0")).status == 400
    assert (await desk.get("acme", "/v1/audit?object=nowhere&since_s=60")).body["entries"] == []
