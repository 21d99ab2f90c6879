"""Pages of other origins: those that are allowed may call the operations for apps, all others may not."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

APP = "https://app.example"
EVIL = "https://evil.example"


@pytest.fixture
async def port(server: RedisProcess) -> AsyncIterator[int]:
    async with scheduler_on(server.url, server__allowed_origins=[APP]) as (scheduler, _):
        yield scheduler.port


async def ask(port: int, method: str, path: str, origin: str, **headers: str) -> tuple[int, Any]:
    names = {"Origin": origin} | {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession() as http:
        async with http.request(method, f"http://127.0.0.1:{port}{path}", headers=names) as response:
            return response.status, response.headers


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/v1/translate", "POST"),
        ("/v1/dispatch/f2f", "POST"),
        ("/v1/jobs/job-0-x/result", "GET"),
        ("/v1/jobs/job-0-x/cancel", "POST"),
        ("/v1/pools", "GET"),
        ("/v1/pools/en/zh", "GET"),
        ("/v1/whoami", "GET"),
    ],
)
async def test_an_allowed_page_is_told_that_it_may(port: int, path: str, method: str) -> None:
    asked = {"Access_Control_Request_Method": method, "Access_Control_Request_Headers": "content-type"}
    status, headers = await ask(port, "OPTIONS", path, APP, **asked)
    assert (status, headers["Access-Control-Allow-Origin"]) == (204, APP)
    assert method in headers["Access-Control-Allow-Methods"]
    assert "Content-Type" in headers["Access-Control-Allow-Headers"]
    assert "Origin" in headers["Vary"]
    status, headers = await ask(port, "OPTIONS", path, EVIL, **asked)
    assert "Access-Control-Allow-Origin" not in headers


async def test_answers_and_errors_can_be_read_by_allowed_pages_alone(port: int) -> None:
    for method, path in (("GET", "/v1/pools"), ("GET", "/v1/jobs/job-0-x/result"), ("POST", "/v1/translate?src=en")):
        _, headers = await ask(port, method, path, APP)
        assert headers["Access-Control-Allow-Origin"] == APP
        assert "X-Request-Id" in headers["Access-Control-Expose-Headers"]
        _, headers = await ask(port, method, path, EVIL)
        assert "Access-Control-Allow-Origin" not in headers
    assert (await ask(port, "POST", "/v1/translate?src=en&tgt=zh", EVIL))[0] == 403


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/nodes/n/evict", "/v1/jobs", "/v1/dead-letters/purge"])
async def test_operations_for_operators_stay_closed_to_pages(port: int, path: str) -> None:
    _, headers = await ask(port, "OPTIONS", path, APP, Access_Control_Request_Method="POST")
    assert "Access-Control-Allow-Origin" not in headers
    _, headers = await ask(port, "GET", path, APP)
    assert "Access-Control-Allow-Origin" not in headers


async def test_programs_get_no_such_headers(port: int) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/v1/pools") as response:
        assert "Access-Control-Allow-Origin" not in response.headers
