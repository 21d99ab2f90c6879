"""HTTP over real sockets: answers, streams, redirects, and servers that say nothing or something else."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from lingua_sdk import http_request
from lingua_sdk.http_request import HttpRequest, answered
from lingua_sdk.trouble import NotTheProtocol, UnknownHost


@contextlib.asynccontextmanager
async def site(shown: list[str | None]) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.StreamResponse:
        shown.append(request.headers.get("Authorization"))
        match request.path:
            case "/moved":
                raise web.HTTPFound("/echo")
            case "/round":
                raise web.HTTPFound("/round")
            case "/elsewhere":
                raise web.HTTPPermanentRedirect(f"http://localhost:{request.url.port}/echo")
            case "/stream":
                response = web.StreamResponse()
                await response.prepare(request)
                for part in (b"one ", b"two"):
                    await response.write(part)
                return response
        return web.Response(text=f"{request.method} {request.path_qs} {await request.text()}")

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def said(request: HttpRequest, most: int = 1000) -> tuple[int, str]:
    async with answered(request) as response:
        return response.status, (await response.read(most)).decode()


async def test_requests_and_their_answers() -> None:
    async with site([]) as url:
        assert await said(HttpRequest("GET", f"{url}/a?b=c", {})) == (200, "GET /a?b=c ")
        assert await said(HttpRequest("POST", f"{url}/a", {}, b"body")) == (200, "POST /a body")
        assert await said(HttpRequest("GET", f"{url}/stream", {})) == (200, "one two")
        assert await said(HttpRequest("GET", f"{url}/stream", {}), most=3) == (200, "one")


async def test_a_name_and_a_password_in_the_url_are_sent() -> None:
    shown: list[str | None] = []
    async with site(shown) as url:
        await said(HttpRequest("GET", url.replace("//", "//ann:p%40ss@"), {}))
    assert shown == ["Basic YW5uOnBAc3M="]


async def test_redirects_are_followed_and_take_a_credential_only_to_the_same_place() -> None:
    shown: list[str | None] = []
    headers = {"Authorization": "Bearer x"}
    async with site(shown) as url:
        assert await said(HttpRequest("GET", f"{url}/moved", headers)) == (200, "GET /echo ")
        assert shown == ["Bearer x", "Bearer x"]
        shown.clear()
        assert (await said(HttpRequest("POST", f"{url}/elsewhere", headers, b"x")))[1] == "POST /echo x"
        assert shown == ["Bearer x", None]
        # What changes something is not sent as something else, and a circle has an end.
        assert (await said(HttpRequest("POST", f"{url}/moved", headers, b"x")))[0] == 302
        assert (await said(HttpRequest("GET", f"{url}/round", headers)))[0] == 302


def test_a_redirect_never_leaves_tls() -> None:
    request = HttpRequest("GET", "https://a/x", {"Authorization": "Bearer x"})
    assert request.redirected(302, "http://a/y") is None
    assert request.redirected(302, "ftp://a/y") is None
    upgraded = HttpRequest("GET", "http://a/x", {"Authorization": "Bearer x"}).redirected(301, "https://a/x")
    assert upgraded is not None
    assert upgraded.headers == {"Authorization": "Bearer x"}


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (b"", NotTheProtocol, "no answer in HTTP"),
        (b"220 smtp ready\r\n\r\n", NotTheProtocol, "no answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", ConnectionResetError, "cut off"),
    ],
)
async def test_what_is_no_answer_is_an_error_of_the_connection(answer: bytes, error: type, why: str) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        with pytest.raises(error, match=why):
            await said(HttpRequest("GET", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", {}))


async def test_a_silent_server_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_request, "SILENT_S", 0.1)

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    async with server:
        with pytest.raises(TimeoutError):
            await said(HttpRequest("GET", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", {}))


async def test_nothing_there_and_no_such_host() -> None:
    with pytest.raises(ConnectionRefusedError):
        await said(HttpRequest("GET", "http://127.0.0.1:1/", {}))
    with pytest.raises(UnknownHost, match="no-such-host"):
        await said(HttpRequest("GET", "http://no-such-host.invalid/", {}))
