"""A room outlives the instances: one of them is killed."""

from pathlib import Path

import aiohttp

from tests.support.clusters import ALSO_ON_A_CLUSTER
from tests.support.field_room import RoomPage
from tests.support.instances import instances
from tests.support.servers import RedisProcess
from tests.support.waiting import until

QUICK = {"sessions__grace_ms": 8000, "instances__beat_ms": 200, "instances__dead_ms": 1500}


@ALSO_ON_A_CLUSTER
async def test_of_a_killed_instance_one_member_resumes_elsewhere_and_the_other_is_removed(
    tmp_path: Path, server: RedisProcess
) -> None:
    async with instances(tmp_path, server.url, 2, **QUICK) as (here, there), aiohttp.ClientSession() as http:
        a = await RoomPage(http, here.port).ready()
        b, c = [await RoomPage(http, there.port).ready() for _ in range(2)]
        code = await a.create()
        await b.enter(code)
        await c.enter(code)
        await until(lambda: a.sees(a, b, c))
        await there.kill()
        again = RoomPage(http, here.port)
        again.code = code
        await again.ready(resume_token=b.token)
        assert again.session_id == b.session_id
        await until(lambda: again.sees(a, b, c) or again.sees(a, b), what="it is still in the room")
        await until(lambda: a.sees(a, b) and again.sees(a, b), what="the one that stayed away is removed")
        assert not a.alerts
        for page in (a, again):
            await page.close()
