"""Rooms over HTTP: what operators see of them, by role and tenant."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role, Scope
from tests.support.field_room import RoomPage
from tests.support.peers import Field, Frame, field
from tests.support.principals import bearer, let_in, operator, user
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

IN_ROOMS = frozenset({Scope.SESSION_OPEN, Scope.ROOM_CREATE, Scope.ROOM_JOIN})
CALLERS = {
    "ada": msgspec.structs.replace(user("ada"), scopes=IN_ROOMS),
    "bea": msgspec.structs.replace(user("bea", "beta"), scopes=IN_ROOMS),
    "viewer": operator(Role.VIEWER, key_id="k-v"),
    "operator": operator(Role.OPERATOR, key_id="k-o"),
    "acme": operator(Role.OPERATOR, "acme", "k-a"),
}


class Desk:
    def __init__(self, scheduler: Scheduler, peers: Field, pages: dict[str, RoomPage]) -> None:
        self.scheduler = scheduler
        self.peers = peers
        self.pages = pages

    async def get(self, who: str, path: str = "") -> tuple[int, Any]:
        return await self.peers.ask("GET", f"/v1/rooms{path}", headers=bearer(who))

    async def rooms(self, who: str) -> list[Frame]:
        status, body = await self.get(who)
        assert status == 200, body
        rooms: list[Frame] = body["rooms"]
        return rooms

    def room_id(self, who: str) -> str:
        found: str = self.pages[who].of("room_create_ack")[0]["room_id"]
        return found


@pytest.fixture
async def desk(server: RedisProcess) -> AsyncIterator[Desk]:
    """A room of each of two tenants."""
    async with (
        scheduler_on(server.url) as (scheduler, _),
        field(scheduler.port) as peers,
        aiohttp.ClientSession() as http,
    ):
        let_in(scheduler, **CALLERS)
        names = ("ada", "bea")
        pages = {
            name: await RoomPage(http, scheduler.port, query=f"?access_token={name}").ready(
                src_lang="en", tgt_lang="ja"
            )
            for name in names
        }
        for name in names:
            await pages[name].create(display_name=f"{name} the secret", preferred_lang="pt")
        await scheduler._rooms.overseer.note()
        yield Desk(scheduler, peers, pages)
        for page in pages.values():
            await page.close()


async def test_rooms_are_listed_with_what_operators_need(desk: Desk) -> None:
    rooms = await desk.rooms("operator")
    assert {room["tenant"] for room in rooms} == {"acme", "beta"}
    (room,) = [room for room in rooms if room["room_id"] == desk.room_id("ada")]
    assert room["code"] == desk.pages["ada"].code
    assert (room["members"], room["guests"], room["languages"], room["is_locked"]) == (1, 0, {"pt": 1}, False)
    assert room["instances"] == [desk.scheduler.instance]
    assert 0 < room["opened_at_ms"] <= room["active_at_ms"]


async def test_a_room_is_shown_with_its_members_and_without_their_names(desk: Desk) -> None:
    status, body = await desk.get("operator", f"/{desk.room_id('ada')}")
    assert status == 200
    (member,) = body["members"]
    session_id = desk.pages["ada"].session_id
    assert member["session_id"] != session_id
    assert session_id.startswith(member["session_id"].rstrip("…"))
    assert (member["language"], member["src_lang"], member["role"]) == ("pt", "en", "host")
    assert member["instance_id"] == desk.scheduler.instance
    assert "secret" not in str(body)
    assert "secret" not in str(await desk.rooms("operator"))


async def test_a_code_is_shown_to_those_alone_who_may_operate(desk: Desk) -> None:
    codes = [page.code for page in desk.pages.values()]
    shown = str([await desk.rooms("viewer"), await desk.get("viewer", f"/{desk.room_id('ada')}")])
    assert not any(code in shown for code in codes)
    assert {room["code"] for room in await desk.rooms("viewer")} == {""}
    assert sorted(room["code"] for room in await desk.rooms("operator")) == sorted(codes)


async def test_an_operator_of_a_tenant_has_that_tenants_rooms_and_no_instances(desk: Desk) -> None:
    (room,) = await desk.rooms("acme")
    assert (room["room_id"], room["tenant"], room["instances"]) == (desk.room_id("ada"), "acme", [])
    _, body = await desk.get("acme", f"/{desk.room_id('ada')}")
    assert body["members"][0]["instance_id"] == ""
    for path in (desk.room_id("bea"), "no-such-room"):
        status, body = await desk.get("acme", f"/{path}")
        assert (status, body["error"]) == (404, "UNKNOWN_ROOM")
    path = f"/v1/rooms/{desk.room_id('bea')}/close"
    assert (await desk.peers.ask("POST", path, headers=bearer("acme")))[0] == 404
    assert not desk.pages["bea"].of("room_expired")


async def test_closing_a_room_is_noted_and_sends_its_members_away(desk: Desk) -> None:
    path = f"/v1/rooms/{desk.room_id('ada')}/close"
    assert (await desk.peers.ask("POST", path, headers=bearer("viewer")))[0] == 403
    assert await desk.peers.ask("POST", path, headers=bearer("operator")) == (
        200,
        {"room_id": desk.room_id("ada"), "outcome": "closed"},
    )
    await until(lambda: desk.pages["ada"].of("room_expired"))
    status, body = await desk.peers.ask("POST", path, headers=bearer("operator"))
    assert (status, body["error"]) == (404, "UNKNOWN_ROOM")
    assert [room["tenant"] for room in await desk.rooms("operator")] == ["beta"]
    _, log = await desk.peers.ask("GET", "/v1/audit?action=rooms.close")
    assert {entry["object"] for entry in log["entries"]} == {desk.room_id("ada")}


async def test_pages_of_the_list_follow_each_other(desk: Desk) -> None:
    _, first = await desk.get("operator", "?limit=1")
    assert first["next_before"] > 0
    _, second = await desk.get("operator", f"?limit=10&before={first['next_before']}")
    found = [room["room_id"] for room in (*first["rooms"], *second["rooms"])]
    assert sorted(found) == sorted([desk.room_id("ada"), desk.room_id("bea")])
    assert second["next_before"] == 0
