"""Input that is not HTTP: the answer says so, and repeats nothing of it."""

import asyncio
from http import HTTPStatus

import pytest

from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

SECRET = "open-sesame"
MALFORMED = pytest.mark.parametrize(
    "request_text",
    [
        f"GET /v1/nodes?access_token={SECRET} HTTP/9.9\r\n\r\n",
        f"{SECRET} /v1/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        f"GET /v1/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {SECRET}\x01\r\n\r\n",
        f"GET /v1/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {SECRET * 1000}\r\n\r\n",
    ],
    ids=["version", "method", "header", "too long"],
)


@MALFORMED
async def test_what_cannot_be_read_is_not_repeated(server: RedisProcess, request_text: str) -> None:
    async with scheduler_on(server.url) as (scheduler, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
        writer.write(request_text.encode())
        answer = (await reader.read()).decode()
        writer.close()
    assert answer.split()[1] == str(HTTPStatus.BAD_REQUEST.value)
    assert answer.endswith("the request is not valid HTTP\n")
    assert SECRET not in answer
