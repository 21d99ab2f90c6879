"""Instances and dead letters over HTTP."""

from typing import Any

import aiohttp
import pytest

from tests.support.mail import ROOMY, letter
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until


async def post(port: int, path: str, body: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as http, http.post(f"http://127.0.0.1:{port}{path}", json=body) as response:
        return response.status, await response.json()


async def test_every_instance_is_listed_with_where_it_runs(server: RedisProcess) -> None:
    async with scheduler_on(server.url, server__instance_id="s1") as (first, _), field(first.port) as peers:
        async with scheduler_on(server.url) as (second, _):
            status, body = await peers.get("/v1/instances")
            found = {about["instance_id"]: about for about in body["instances"]}
            assert status == 200
            assert set(found) == {"s1", second.instance}
            assert found["s1"]["address"] == f"127.0.0.1:{first.port}"
            assert {about["state"] for about in found.values()} == {"alive"}
        body = (await peers.get("/v1/instances"))[1]
        states = {about["instance_id"]: about["state"] for about in body["instances"]}
        assert states == {"s1": "alive", second.instance: "stopped"}


@pytest.mark.expects_surprise("letter.dead")
async def test_dead_letters_are_listed_replayed_and_purged(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, server__instance_id="s1", inbox__keep_speech=True) as (scheduler, store),
        field(scheduler.port) as peers,
    ):
        await store.inboxes.post("s1", letter("u1", b"\xff", "from_the_future"), ROOMY)

        async def dead() -> list[dict[str, Any]]:
            return list((await peers.get("/v1/dead-letters?limit=10"))[1]["dead_letters"])

        (found,) = await until(dead)
        assert (found["instance_id"], found["kind"], found["reason"]) == ("s1", "from_the_future", "unknown_kind")
        chosen = {"letter_ids": [found["letter_id"]]}
        assert await post(peers.port, "/v1/dead-letters/replay", chosen) == (
            200,
            {"replayed": 1, "full": 0, "gone": 0, "bare": 0},
        )
        # Nobody here knows its kind, so it is back soon.
        (again,) = await until(dead)
        assert again["letter_id"] != found["letter_id"]
        assert await post(peers.port, "/v1/dead-letters/purge", {"all": True}) == (200, {"purged": 1})
        assert await dead() == []


@pytest.mark.parametrize("body", [{}, {"letter_ids": ["rubbish"]}, {"letter_ids": "s1:1-1"}, {"every": True}])
@pytest.mark.parametrize("verb", ["replay", "purge"])
async def test_a_choice_that_is_none_is_refused(server: RedisProcess, verb: str, body: dict[str, Any]) -> None:
    async with scheduler_on(server.url) as (scheduler, _):
        status, answer = await post(scheduler.port, f"/v1/dead-letters/{verb}", body)
        assert (status, answer["error"]) == (400, "INVALID_MESSAGE")
