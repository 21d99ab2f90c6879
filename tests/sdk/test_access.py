"""How nodes and clients show who they are, over real sockets: what is sent, when they stop, when they come back."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from lingua_scheduler.cli.watching.pictures import watch
from lingua_scheduler.engines.sim import SimEngine
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_sdk import access, client, node, trouble
from lingua_sdk.access import Access, AccessDenied, Dismissal
from lingua_sdk.address import BadAddress
from lingua_sdk.client import Client, SessionFailed
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.http import get, post
from lingua_sdk.node import Abilities, Node
from lingua_sdk.trouble import UnwantedStatus, retry_after_s
from tests.support.fake_scheduler import Call, FakeScheduler, fake_scheduler

SECRET = "lk_sv_abcdefghijkl_" + "S" * 49
ACK = {
    "type": "session_init_ack",
    "session_id": "s-00000001",
    "message": "",
    "trace_id": "t",
    "protocol_version": "1.0",
    "use_binary_frame": False,
    "negotiated_codec": "opus",
    "negotiated_audio_format": "opus",
    "negotiated_sample_rate": 16000,
    "negotiated_channel_count": 1,
    "resume_token": "r",
}
NOTHING = Abilities((), (), (), slots=1)


@pytest.fixture(autouse=True)
def _no_key_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LINGUA_KEY", "LINGUA_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def scheduler() -> AsyncIterator[FakeScheduler]:
    async with fake_scheduler() as found:
        yield found


def refusal(status: int, code: str = "", detail: str = "", **headers: str) -> web.Response:
    body: Any = {"error": code, "detail": detail}
    return web.json_response(body, status=status, headers={name.replace("_", "-"): v for name, v in headers.items()})


def client_of(scheduler: FakeScheduler, token: access.Token = None) -> Client:
    return Client(f"127.0.0.1:{scheduler.port}", "en", "zh", token=token)


def node_of(scheduler: FakeScheduler, token: access.Token = None) -> Node:
    return Node(f"127.0.0.1:{scheduler.port}", SimEngine(), NOTHING, token=token)


async def open_client(scheduler: FakeScheduler, token: access.Token = None) -> tuple[Client, Call]:
    talker = client_of(scheduler, token)
    opening = asyncio.create_task(talker.__aenter__())
    call = await scheduler.call()
    await call.next("session_init")
    await call.send(ACK)
    await opening
    return talker, call


async def run_client(scheduler: FakeScheduler, token: access.Token = None) -> None:
    async with client_of(scheduler, token) as talker:
        await anext(talker.results())


async def run_node(scheduler: FakeScheduler, token: access.Token = None) -> None:
    await node_of(scheduler, token).run()


Run = Callable[..., Awaitable[None]]
both = pytest.mark.parametrize("run", [run_client, run_node])


def counting() -> tuple[Callable[[], Awaitable[str]], list[str]]:
    fetched: list[str] = []

    async def fetch() -> str:
        fetched.append(f"token-{len(fetched) + 1}")
        return fetched[-1]

    return fetch, fetched


# What is sent


async def test_a_key_goes_in_the_header_of_clients_and_nodes(scheduler: FakeScheduler) -> None:
    talker, _ = await open_client(scheduler, SECRET)
    await talker.__aexit__(None, None, None)
    worker = node_of(scheduler, SECRET)
    running = asyncio.create_task(worker.run())
    await (await scheduler.call()).register()
    await worker.stop(0)
    await running
    assert scheduler.shown == [f"Bearer {SECRET}"] * 2


async def test_without_a_key_nothing_is_sent(scheduler: FakeScheduler) -> None:
    talker, _ = await open_client(scheduler)
    await talker.__aexit__(None, None, None)
    assert scheduler.shown == [None]


async def test_the_environment_has_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("of-the-file\n")
    monkeypatch.setenv("LINGUA_KEY_FILE", str(file))
    reading = Access()
    assert await reading.headers("ws://a") == {"Authorization": "Bearer of-the-file"}
    file.write_text("rotated\n")
    assert await reading.headers("ws://a") == {"Authorization": "Bearer rotated"}
    monkeypatch.setenv("LINGUA_KEY", "of-the-environment")
    assert await reading.headers("ws://a") == {"Authorization": "Bearer of-the-environment"}
    assert await Access("given").headers("ws://a") == {"Authorization": "Bearer given"}
    # Empty is a choice, too: nothing.
    assert await Access("").headers("ws://a") == {}
    monkeypatch.setenv("LINGUA_KEY", "")
    assert await Access().headers("ws://a") == {}


async def test_a_key_file_that_is_not_there_is_no_reason_to_try_for_ever(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LINGUA_KEY_FILE", str(tmp_path / "missing"))
    with pytest.raises(AccessDenied, match="missing cannot be read: No such file"):
        await run_node(scheduler)
    assert scheduler.shown == []


@pytest.mark.parametrize("text", ["two words", "line\nInjected: 1", "ключ"])
async def test_what_is_no_key_is_not_sent(text: str) -> None:
    with pytest.raises(AccessDenied) as refused:
        await Access(text).headers("ws://a")
    assert text not in str(refused.value)


async def test_a_password_and_a_key_exclude_each_other() -> None:
    with pytest.raises(BadAddress, match="only one of them can be sent") as refused:
        await Access(SECRET).headers("ws://name:password@host")
    assert SECRET not in str(refused.value)
    assert await Access("").headers("ws://name:password@host") == {}


async def test_a_function_must_return_a_text(scheduler: FakeScheduler) -> None:
    async def fetch() -> str:
        return None  # type: ignore[return-value]

    with pytest.raises(TypeError, match="returned a NoneType, not a str"):
        await run_node(scheduler, fetch)


# Refused


@both
@pytest.mark.parametrize("status", [401, 403])
async def test_who_is_refused_stops_and_says_why(scheduler: FakeScheduler, run: Run, status: int) -> None:
    scheduler.refusals = [refusal(status, "SOME_CODE", "Some sentence.")]
    async with asyncio.timeout(10):
        with pytest.raises(AccessDenied) as refused:
            await run(scheduler, SECRET)
    denied = refused.value
    assert (denied.status, denied.code, denied.detail) == (status, "SOME_CODE", "Some sentence.")
    assert str(denied).startswith("SOME_CODE: Some sentence.; ")
    assert len(scheduler.shown) == 1


@pytest.mark.parametrize(
    ("token", "code", "advice"),
    [
        (None, "UNAUTHENTICATED", "set LINGUA_KEY or LINGUA_KEY_FILE"),
        (SECRET, "UNAUTHENTICATED", "use another key"),
        ("a.b.c", "TOKEN_EXPIRED", "pass an async function that fetches a new token"),
    ],
)
async def test_it_says_what_to_do(scheduler: FakeScheduler, token: str | None, code: str, advice: str) -> None:
    scheduler.refusals = [refusal(401, code, "No.")]
    with pytest.raises(AccessDenied) as refused:
        await run_client(scheduler, token)
    assert advice in refused.value.advice


@both
async def test_a_proxy_that_wants_a_password_is_told_apart(scheduler: FakeScheduler, run: Run) -> None:
    scheduler.refusals = [web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="x"'})]
    with pytest.raises(AccessDenied, match="its proxy asks for a password; write it in the URL"):
        await run(scheduler)


async def test_words_of_a_proxy_are_not_shown(scheduler: FakeScheduler) -> None:
    scheduler.refusals = [web.Response(status=403, text="<h1>no</h1>")]
    with pytest.raises(AccessDenied, match="PERMISSION_DENIED: the server answered HTTP 403"):
        await run_client(scheduler, SECRET)


async def test_a_token_that_expired_on_its_way_is_fetched_again_once(scheduler: FakeScheduler) -> None:
    fetch, fetched = counting()
    scheduler.refusals = [refusal(401, "TOKEN_EXPIRED", "Expired.")]
    talker, _ = await open_client(scheduler, fetch)
    await talker.__aexit__(None, None, None)
    assert scheduler.shown == ["Bearer token-1", "Bearer token-2"]
    scheduler.refusals = [refusal(401, "TOKEN_EXPIRED", "Expired."), refusal(401, "TOKEN_EXPIRED", "Expired.")]
    with pytest.raises(AccessDenied):
        await run_client(scheduler, fetch)
    assert len(fetched) == 4


# Close codes


def test_the_close_codes_are_those_of_the_scheduler() -> None:
    assert {code.name: code.value for code in Dismissal} == {
        code.name: code.value for code in (CloseCode.UNAUTHENTICATED, CloseCode.REVOKED, CloseCode.GUESSING)
    }


@pytest.mark.parametrize("code", list(Dismissal))
async def test_who_is_dismissed_does_not_come_back(scheduler: FakeScheduler, code: Dismissal) -> None:
    talker, call = await open_client(scheduler, SECRET)
    closing = asyncio.create_task(call.socket.close(code=code))
    with pytest.raises(AccessDenied) as refused:
        await anext(talker.results())
    assert (refused.value.code, refused.value.status) == (code.name, code.value)
    with pytest.raises(AccessDenied):
        await talker.send(b"\0\0")
    await closing
    await talker.__aexit__(None, None, None)

    running = asyncio.create_task(run_node(scheduler, SECRET))
    call = await scheduler.call()
    await call.register()
    await call.socket.close(code=code)
    with pytest.raises(AccessDenied, match=code.name):
        await running
    assert len(scheduler.shown) == 2


async def test_an_expired_token_is_fetched_anew_and_the_session_goes_on(scheduler: FakeScheduler) -> None:
    fetch, _ = counting()
    talker, call = await open_client(scheduler, fetch)
    closing = asyncio.create_task(call.socket.close(code=CloseCode.EXPIRED))
    call = await scheduler.call()
    assert (await call.next("session_init"))["resume_token"] == "r"
    await call.send(ACK | {"resumed": True})
    await closing
    await talker.finish()
    await call.next("session_close")
    assert talker.times_resumed == 1
    await talker.__aexit__(None, None, None)
    assert scheduler.shown == ["Bearer token-1", "Bearer token-2"]


async def test_a_node_comes_back_with_another_token(scheduler: FakeScheduler) -> None:
    fetch, _ = counting()
    worker = node_of(scheduler, fetch)
    running = asyncio.create_task(worker.run())
    call = await scheduler.call()
    await call.register()
    await call.socket.close(code=CloseCode.EXPIRED)
    await (await scheduler.call()).register()
    await worker.stop(0)
    await running
    assert scheduler.shown == ["Bearer token-1", "Bearer token-2"]


async def test_while_tokens_cannot_be_fetched_a_node_tries_again(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "RECONNECTS", Backoff(0.001, 0.001))
    tries = 0

    async def fetch() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError("the backend is away")
        return "good"

    worker = node_of(scheduler, fetch)
    running = asyncio.create_task(worker.run())
    await (await scheduler.call()).register()
    await worker.stop(0)
    await running
    assert (tries, scheduler.shown) == (3, ["Bearer good"])


# Too much at once


@pytest.mark.parametrize("status", [429, 503])
async def test_a_node_waits_as_long_as_it_is_asked_to(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(trouble, "MAX_RETRY_AFTER_S", 0.3)
    monkeypatch.setattr(node, "RECONNECTS", Backoff(0.001, 0.001))
    scheduler.refusals = [refusal(status, Retry_After="7")]
    worker = node_of(scheduler, SECRET)
    began_s = asyncio.get_running_loop().time()
    running = asyncio.create_task(worker.run())
    await (await scheduler.call()).register()
    assert asyncio.get_running_loop().time() - began_s >= 0.3
    await worker.stop(0)
    await running


async def test_a_client_gives_up_when_it_would_be_too_late(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RESUME_WITHIN_S", 25.0)
    talker, call = await open_client(scheduler, SECRET)
    scheduler.refusals = [refusal(503, Retry_After="30")]
    call.drop()
    async with asyncio.timeout(20):
        with pytest.raises(SessionFailed, match="could not be restored"):
            await anext(talker.results())
    await talker.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("text", "pause_s"), [("3", 3.0), ("9999", 60.0), ("Wed, 21 Oct", 0.0), ("-1", 0.0), ("²", 0.0)]
)
async def test_only_a_number_of_seconds_counts(scheduler: FakeScheduler, text: str, pause_s: float) -> None:
    assert retry_after_s(UnwantedStatus(503, text)) == pause_s
    assert retry_after_s(OSError()) == 0.0


# Pages


async def test_pages_and_streams_carry_the_key_and_raise_when_refused() -> None:
    shown: list[str | None] = []

    async def refuse(request: web.Request) -> web.Response:
        shown.append(request.headers.get("Authorization"))
        assert SECRET not in str(request.url)
        return refusal(403, "PERMISSION_DENIED", "This needs fleet:operate.")

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        for asking in (get(address, "/v1/status", SECRET), post(address, "/v1/alarms", b"{}", SECRET)):
            with pytest.raises(AccessDenied, match="This needs fleet:operate"):
                await asking
        with pytest.raises(AccessDenied):
            await anext(watch(address, token=SECRET))
    finally:
        await runner.cleanup()
    assert shown == [f"Bearer {SECRET}"] * 3


# Secrets


@pytest.mark.parametrize("status", [401, 404, 503])
async def test_nothing_shows_the_secret(
    scheduler: FakeScheduler, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    scheduler.refusals = [refusal(status, "CODE", "No.")]
    talker = client_of(scheduler, SECRET)
    with pytest.raises((AccessDenied, ConnectionError)) as refused:
        await talker.__aenter__()
    shown = f"{refused.value!r} {refused.value} {refused.value.args} {talker!r} {vars(talker)} {Access(SECRET)!r}"
    assert SECRET not in shown + caplog.text
