"""`lingua dashboard` prints a link that logs in once."""

from pathlib import Path

import aiohttp

from tests.support.keyed import created, guarded, home, lingua
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

NOT_ALLOWED = 8


async def test_the_link_logs_in_once(server: RedisProcess, tmp_path: Path) -> None:
    admin = await created(server, "--admin")
    async with guarded(server) as url:
        refused = await lingua("dashboard", "--url", url, **home(tmp_path))
        assert refused.exit_code == NOT_ALLOWED
        told = await lingua("dashboard", "--url", url, LINGUA_KEY=admin["key"], **home(tmp_path))
        assert told.exit_code == 0, told.output
        page, _, code = told.stdout.strip().partition("#code=")
        assert page.startswith("http://127.0.0.1:")
        assert page.endswith("/dashboard")
        assert admin["key"] not in told.output
        async with aiohttp.ClientSession() as http:
            statuses = []
            for _ in range(2):
                async with http.post(page.replace("/dashboard", "/v1/login"), json={"code": code}) as response:
                    statuses.append(response.status)
                http.cookie_jar.clear()
        assert statuses == [200, 401]


async def test_where_no_key_is_needed_it_is_the_address_alone(server: RedisProcess, tmp_path: Path) -> None:
    async with scheduler_on(server.url) as (scheduler, _):
        told = await lingua("dashboard", "--url", f"ws://127.0.0.1:{scheduler.port}", **home(tmp_path))
    assert told.stdout == f"http://127.0.0.1:{scheduler.port}/dashboard\n"
