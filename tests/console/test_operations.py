"""What every operation does with a request before it is asked: sizes, types, names, ids; and errors of one shape."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp import web

from lingua_scheduler.console.answers import errors_as_json, stamp
from lingua_scheduler.console.operations import Call, Operation, add_operations
from lingua_scheduler.domain.access.scopes import OPEN
from lingua_scheduler.protocol.http import Answer, Body
from lingua_scheduler.telemetry import logs
from tests.support.peers import Field, field

MAX_BYTES = 10_000


class Order(Body, kw_only=True):
    count: int
    name: str = "tea"


class Filter(Body, kw_only=True):
    state: str | None = None
    session_id: str | None = None
    limit: int = 10
    brief: bool = False


class Echo(Answer, kw_only=True):
    count: int
    request_id: str
    limit: int = 0


class Kitchen:
    """Two operations, one of them broken."""

    def __init__(self) -> None:
        self.calls: list[Call[Any, Any]] = []

    async def cook(self, call: Call[Order, None]) -> Echo:
        self.calls.append(call)
        structlog.get_logger().info("kitchen.cooked")
        return Echo(count=call.body.count, request_id=call.request_id)

    async def look(self, call: Call[None, Filter]) -> Echo:
        if call.path["job_id"] == "broken":
            raise RuntimeError("the oven is broken")
        return Echo(count=0, request_id=call.request_id, limit=call.query.limit)

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/orders",
                needs=OPEN,
                tag="k",
                summary="Order",
                handle=self.cook,
                body=Order,
                answer=Echo,
            ),
            Operation(
                method="GET",
                path="/jobs/{job_id}",
                needs=OPEN,
                tag="k",
                summary="Job",
                handle=self.look,
                query=Filter,
                answer=Echo,
            ),
        )


async def half_an_answer(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half")
    raise RuntimeError("and no more")


@pytest.fixture
def kitchen() -> Kitchen:
    return Kitchen()


@pytest.fixture
async def peers(kitchen: Kitchen) -> AsyncIterator[Field]:
    app = web.Application(middlewares=[errors_as_json], client_max_size=MAX_BYTES)
    app.on_response_prepare.append(stamp)
    add_operations(app, kitchen.operations)
    app.router.add_get("/half", half_an_answer)
    # As the scheduler's own connections are.
    runner = web.AppRunner(app, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with field(runner.addresses[0][1]) as found:
            yield found
    finally:
        await runner.cleanup()


async def headers_of(peers: Field, method: str, path: str, **more: Any) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, f"http://127.0.0.1:{peers.port}{path}", **more) as r,
    ):
        await r.read()
        return r.status, r.headers


JSON = {"Content-Type": "application/json"}


# Bodies


async def test_a_body_is_read_into_its_struct(peers: Field) -> None:
    status, body = await peers.post("/orders", {"count": 3, "unknown": "ignored"})
    assert (status, body["count"]) == (200, 3)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", 'the body is empty; send a JSON object with "count"'),
        (b"{", "the body is not JSON: Input data was truncated"),
        (b"[]", "the body is not a JSON object"),
        (b"{}", 'field "count" is missing'),
        (b'{"count":"three"}', 'invalid field "count": expected int, got str'),
        (b'{"count":3,"name":null}', 'invalid field "name": expected str, got null'),
        (b'{"count":3,"name":"\xff"}', "the body is not UTF-8 text"),
        (b'{"count":3,"x":' + b"[" * 1500 + b"]" * 1500 + b"}", "the body is nested too deeply"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_by_name(peers: Field, body: bytes, detail: str) -> None:
    assert await peers.ask("POST", "/orders", data=body, headers=JSON) == (
        400,
        {"error": "INVALID_MESSAGE", "detail": detail},
    )


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "nonsense"])
async def test_a_body_of_another_type_is_refused(peers: Field, kitchen: Kitchen, kind: str) -> None:
    status, body = await peers.ask("POST", "/orders", data=b'{"count":3}', headers={"Content-Type": kind})
    assert (status, body["error"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert "Content-Type: application/json" in body["detail"]
    assert not kitchen.calls


async def test_a_type_may_name_its_charset(peers: Field) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert (await peers.ask("POST", "/orders", data=b'{"count":3}', headers=headers))[0] == 200


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_body_that_is_too_large_is_refused(peers: Field, is_told: bool) -> None:
    body = json.dumps({"count": 1, "name": "x" * MAX_BYTES}).encode()

    async def in_pieces() -> AsyncIterator[bytes]:
        yield body

    status, answer = await peers.ask("POST", "/orders", data=body if is_told else in_pieces(), headers=JSON)
    assert (status, answer["error"]) == (413, "BODY_TOO_LARGE")
    assert str(MAX_BYTES) in answer["detail"]


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS = [("gzip", gzip.compress), ("X-GZip", gzip.compress), ("deflate", zlib.compress), ("deflate", bare_deflate)]


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
async def test_a_body_may_be_packed(peers: Field, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    headers = JSON | {"Content-Encoding": encoding}
    body = json.dumps({"count": 1, "name": "x" * (MAX_BYTES - 100)}).encode()
    assert (await peers.ask("POST", "/orders", data=pack(body), headers=headers))[0] == 200


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
async def test_a_bomb_is_refused(peers: Field, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(b'{"count":1,"name":"' + b"x" * 5_000_000 + b'"}')
    assert len(bomb) < MAX_BYTES
    status, answer = await peers.ask("POST", "/orders", data=bomb, headers=JSON | {"Content-Encoding": encoding})
    assert (status, answer["error"]) == (413, "BODY_TOO_LARGE")


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "nonsense"])
async def test_a_body_packed_in_another_way_is_refused(peers: Field, kitchen: Kitchen, encoding: str) -> None:
    headers = JSON | {"Content-Encoding": encoding}
    status, answer = await peers.ask("POST", "/orders", data=b'{"count":3}', headers=headers)
    assert (status, answer["error"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert "gzip or deflate" in answer["detail"]
    assert not kitchen.calls


PACKED = gzip.compress(b'{"count":3}', mtime=0)
BADLY_PACKED = {
    "plain": b'{"count":3}',
    "empty": b"",
    "cut off": PACKED[:-9],
    "with more behind": PACKED + b"more",
    "twice": PACKED + PACKED,
}


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("body", BADLY_PACKED.values(), ids=BADLY_PACKED.keys())
async def test_a_body_that_is_not_encoded_as_it_says_is_refused(peers: Field, encoding: str, body: bytes) -> None:
    headers = JSON | {"Content-Encoding": encoding}
    status, answer = await peers.ask("POST", "/orders", data=body, headers=headers)
    assert (status, answer["error"]) == (400, "INVALID_MESSAGE")


async def test_a_caller_who_leaves_in_the_middle_of_a_body_is_no_failure(peers: Field, kitchen: Kitchen) -> None:
    with structlog.testing.capture_logs() as told:
        _, writer = await asyncio.open_connection("127.0.0.1", peers.port)
        head = (
            "POST /orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        )
        writer.write(head.encode() + b'{"count"')
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.transport.abort()
        await asyncio.sleep(0.2)
    assert told == []
    assert not kitchen.calls
    assert (await peers.post("/orders", {"count": 3}))[0] == 200


# Queries and paths


async def test_a_query_is_read_into_its_struct(peers: Field) -> None:
    status, body = await peers.get("/jobs/job-1?limit=7&state=DONE")
    assert (status, body["limit"]) == (200, 7)


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("sesion=s-1", 'unknown query parameter "sesion"; did you mean "session_id"?'),
        ("zzz=1", 'unknown query parameter "zzz"; known: state, session_id, limit, brief'),
        ("limit=many", 'invalid query parameter "limit": expected int, got str'),
        ("brief=maybe", 'invalid query parameter "brief": must be true or false'),
        ("limit=1&limit=2", 'query parameter "limit" is given twice'),
    ],
)
async def test_a_query_that_is_not_known_is_refused_with_the_nearest(peers: Field, query: str, detail: str) -> None:
    assert await peers.get(f"/jobs/job-1?{query}") == (400, {"error": "INVALID_MESSAGE", "detail": detail})


async def test_an_operation_without_a_query_takes_none(peers: Field) -> None:
    status, body = await peers.post("/orders?a=1", {"count": 1})
    assert (status, body["detail"]) == (400, 'unknown query parameter "a"; known: nothing')


@pytest.mark.parametrize("job_id", ["x" * 129, "a%20b", "a%0A", "%C3%A9", "a%2Fb", "%00"])
async def test_what_a_path_names_is_bounded(peers: Field, job_id: str) -> None:
    status, body = await peers.ask("GET", web_path(f"/jobs/{job_id}"))
    assert (status, body["error"]) == (400, "INVALID_MESSAGE")
    assert '"job_id" in the path' in body["detail"]


def web_path(path: str) -> str:
    return path


# Methods


async def test_head_and_options_are_answered(peers: Field) -> None:
    status, headers = await headers_of(peers, "HEAD", "/jobs/job-1")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    status, headers = await headers_of(peers, "OPTIONS", "/jobs/job-1")
    assert (status, headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
    status, headers = await headers_of(peers, "OPTIONS", "/orders")
    assert (status, headers["Allow"]) == (204, "POST, OPTIONS")
    status, headers = await headers_of(peers, "DELETE", "/orders")
    assert (status, headers["Allow"]) == (405, "POST, OPTIONS")


# Request ids


@pytest.mark.expects_surprise("request.failed")
async def test_a_request_id_is_taken_over_and_comes_back_with_every_answer(peers: Field) -> None:
    given = {"X-Request-Id": "caller 7/a"}
    for method, path in (("GET", "/jobs/1"), ("GET", "/nowhere"), ("GET", "/jobs/broken"), ("OPTIONS", "/orders")):
        _, headers = await headers_of(peers, method, path, headers=given)
        assert headers["X-Request-Id"] == "caller 7/a", path
    assert (await peers.ask("POST", "/orders", json={"count": 1}, headers=given))[1]["request_id"] == "caller 7/a"


@pytest.mark.parametrize("given", [None, "", "x" * 129, "é", "tab\tbed"])
async def test_a_request_id_that_cannot_be_used_is_replaced(peers: Field, given: str | None) -> None:
    asked = {} if given is None else {"X-Request-Id": given}
    _, headers = await headers_of(peers, "GET", "/jobs/1", headers=asked)
    made = headers["X-Request-Id"]
    assert made != given
    assert len(made) == 16
    _, again = await headers_of(peers, "GET", "/jobs/1", headers=asked)
    assert again["X-Request-Id"] != made


async def test_what_is_logged_during_a_request_has_its_id(peers: Field) -> None:
    with structlog.testing.capture_logs(processors=[logs.add_ids]) as logged:
        await peers.ask("POST", "/orders", json={"count": 1}, headers={"X-Request-Id": "r-1"})
    assert [event["request_id"] for event in logged if event["event"] == "kitchen.cooked"] == ["r-1"]


# Surprises


@pytest.mark.expects_surprise("request.failed")
async def test_a_surprise_is_an_answer_too_and_is_logged_without_the_body(peers: Field) -> None:
    with structlog.testing.capture_logs() as logged:
        status, body = await peers.ask("GET", "/jobs/broken?state=secret", headers={"X-Request-Id": "r-2"})
    assert (status, body["error"]) == (500, "INTERNAL_ERROR")
    assert "r-2" in body["detail"]
    assert "oven" not in body["detail"]
    (event,) = (event for event in logged if event["event"] == "request.failed")
    assert (event["request_id"], event["method"], event["route"]) == ("r-2", "GET", "/jobs/{job_id}")
    assert "secret" not in str(event)


async def test_an_answer_that_has_begun_gets_no_other_answer_into_it(peers: Field) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{peers.port}/half") as response:
        assert response.status == 200
        assert await response.content.readexactly(4) == b"half"
        with pytest.raises(aiohttp.ClientError):
            await response.content.read()
