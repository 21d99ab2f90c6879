"""The search for credentials after each test of e2e and security: what it notes, and where it finds it again."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from lingua_scheduler.domain.access.logins import fresh_secret
from lingua_scheduler.services.cluster.seals import load_or_make
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.key_texts import KeyKind, KeyText, fresh_key
from lingua_sdk.identity import KeyPair
from tests.support.certificates import NODE_URI, Authority
from tests.support.leaks import LEAKS, MAX_SECRETS
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries
from tests.support.tokens import token
from tests.support.traces import Collected

_log = logs.get()

Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


@pytest.fixture(autouse=True)
def searched() -> Iterator[None]:
    with LEAKS.watching():
        yield


def found() -> list[tuple[str, str]]:
    return LEAKS.take()


def a_key() -> KeyText:
    return fresh_key(KeyKind.CLIENT)


def test_what_is_made_is_found_in_the_log_in_whole_and_in_part() -> None:
    key, cookie, pair, signed = a_key(), fresh_secret(), KeyPair(), token()
    _log.info("it.happened", key_id=key.id, kind="lk_cl", node="gpu-7", public=pair.public_text)
    assert found() == []
    _log.info("it.leaked", about={"given": key.secret[:20]})
    assert found() == [("log", "a key")]
    _log.bind(cookie=cookie).debug("it.leaked")
    assert found() == [("log", "a login code or cookie")]
    _log.info("it.leaked", seed=pair.private_text)
    assert found() == [("log", "the key of a node")]
    _log.info("it.leaked", signature=signed.rpartition(".")[2])
    assert found() == [("log", "a token")]
    logging.getLogger("aiohttp").warning("it leaked: " + key.secret)
    assert found() == [("log of a library", "a key")]
    with pytest.raises(ValueError, match="lk_"):
        raise ValueError(str(key))
    try:
        raise ValueError(str(key))
    except ValueError:
        # A log has the place of a failure without its message.
        _log.warning("it.failed", exc_info=True)
    assert found() == []


def test_whole_credentials_are_found_that_were_not_noted() -> None:
    key, signed = str(a_key()), token()
    with LEAKS.watching():
        LEAKS.wrote("log of a process", f'{{"url": "/ws/session?access_token={key}"}}')
        LEAKS.wrote("metrics", f'requests{{token="{signed}"}} 1')
        assert found() == [("log of a process", "a key"), ("metrics", "a token")]


def test_files_are_searched_except_those_that_exist_to_hold_a_secret(tmp_path: Path) -> None:
    load_or_make(tmp_path / "cluster.key")
    held = (tmp_path / "cluster.key").read_text().split()[-1]
    LEAKS.wrote_files(tmp_path)
    assert found() == []
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "appendonly.aof").write_bytes(b"\x00" + held.encode() + b"\xff")
    LEAKS.wrote_files(tmp_path)
    assert found() == [("file data/appendonly.aof", "what cluster.key holds")]


def an_ec_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def an_rsa_key() -> Key:
    return rsa.generate_private_key(65_537, 2048)


@pytest.mark.parametrize(
    ("made", "form"),
    [
        (an_ec_key, PrivateFormat.PKCS8),
        (an_ec_key, PrivateFormat.TraditionalOpenSSL),
        (an_rsa_key, PrivateFormat.PKCS8),
        (an_rsa_key, PrivateFormat.TraditionalOpenSSL),
        (ed25519.Ed25519PrivateKey.generate, PrivateFormat.PKCS8),
    ],
)
def test_of_a_key_in_pem_only_what_is_private_is_a_secret(
    tmp_path: Path, made: Callable[[], Key], form: PrivateFormat
) -> None:
    key, other = made(), made()
    for name, one in (("cluster.key", key), ("other.key", other)):
        (tmp_path / name).write_bytes(one.private_bytes(Encoding.PEM, form, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public.pem").write_bytes(public)
    LEAKS.wrote_files(tmp_path)
    LEAKS.wrote("log", "-----BEGIN PRIVATE KEY-----")
    assert found() == []
    held = (tmp_path / "cluster.key").read_text()
    LEAKS.wrote("log", json.dumps({"key": held}))
    assert found() == [("log", "what cluster.key holds")]
    (tmp_path / "copy.key").write_text(held)
    LEAKS.wrote_files(tmp_path)
    assert found() == [("file copy.key", "what cluster.key holds")]


def test_a_certificate_gives_no_key_away_and_a_line_of_the_key_does(tmp_path: Path) -> None:
    files = Authority(tmp_path).node(NODE_URI, name="cluster")
    LEAKS.wrote_files(tmp_path)
    assert found() == []
    _log.info("it.leaked", line=files.key.read_text().splitlines()[2])
    assert found() == [("log", "what cluster.key holds")]


def test_redis_is_searched_before_it_is_emptied_and_before_it_stops() -> None:
    key = a_key()
    server = RedisProcess(str(binaries()["valkey"]), "--appendonly", "yes")
    for command in (("HSET", "a", "b", key.secret), ("XADD", "s", "*", "f", key.secret), ("SET", "x", key.secret)):
        server.command(*command)
        server.flush()
        assert ("Redis dump.rdb", "a key") in found(), command
    assert not (server.folder / "dump.rdb").exists()
    server.stop()
    places = [where for where, _ in found()]
    assert any(".aof" in where for where in places), places


async def test_errors_metrics_cookies_and_what_clients_show_are_looked_at() -> None:
    shown, cookie = "s" * 10 + "0123456789abcdefghij", "c" * 10 + "9876543210zyxwvutsrq"

    async def fail(request: web.Request) -> web.Response:
        answer = web.json_response({"message": request.headers.get("X-Echo", "")}, status=403)
        answer.set_cookie("__Host-lingua", cookie)
        return answer

    async def count(request: web.Request) -> web.Response:
        return web.Response(text=f"requests{{by={request.query['by']}}} 1")

    app = web.Application()
    app.router.add_get("/fail", fail)
    app.router.add_get("/metrics", count)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as http:
        await http.get("/fail", headers={"Authorization": f"Bearer {shown}"})
        assert found() == []
        await http.get("/fail", headers={"X-Echo": shown})
        assert found() == [("answer 403 /fail", "what a client showed")]
        await http.get("/metrics", params={"by": cookie})
        assert found() == [("answer 200 /metrics", "a cookie")]
    await runner.cleanup()


async def test_resume_tokens_and_traces_are_looked_at(server: RedisProcess) -> None:
    collected = Collected()
    async with scheduler_on(server.url, collected.traces) as (scheduler, store), field(scheduler.port) as peers:
        client = await peers.client()
        secret = client.ack["resume_token"].rpartition(".")[2]
        assert found() == []
        await store.line.call("SET", "x", secret)
        server.show()
        assert found() == [("Redis dump.rdb", "a resume token")]
        collected.provider.get_tracer("test").start_span("leak", attributes={"token": secret}).end()
        assert found() == [("trace", "a resume token")]
        await store.line.call("DEL", "x")


def test_what_is_kept_is_bounded() -> None:
    for _ in range(MAX_SECRETS + 5):
        a_key()
    assert len(LEAKS._secrets) == MAX_SECRETS
    LEAKS.note("a word", "x" * 100)
    LEAKS.note("a word", "short")
    assert len(LEAKS._secrets) == MAX_SECRETS
