"""No secret is written anywhere (45, 54b): whatever credentials are shown, in whatever place, rightly or wrongly."""

import asyncio
import base64
import json
import secrets
import time
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest

from lingua_scheduler.domain.access.grants import Grants
from lingua_scheduler.domain.access.principals import Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.services.access.book import CredentialBook
from lingua_scheduler.services.access.signing import MintedToken, TokenSigner, signing_key_of
from lingua_scheduler.services.cluster.seals import load_or_make
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_scheduler.store.servers.embedded import shipped_binary
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind, KeyText
from tests.support.access import CALLERS, MadeKey, made_key, write_keys_file
from tests.support.forked import fork_command
from tests.support.http_nodes import LANGUAGES
from tests.support.peers import FakeClient, FakeNode, Field, Socket, answer, field, heartbeat, registration
from tests.support.planted import Secret, found_in
from tests.support.schedulers import ServeProcess, serve_process
from tests.support.servers import RedisProcess
from tests.support.tokens import claims, token
from tests.support.waiting import until

OLD_MS = int(time.time() * 1000) - 60_000
COOKIE = secrets.token_urlsafe(32)
PATHS = (
    "/v1/status",
    "/v1/nodes",
    "/v1/pools",
    "/v1/jobs",
    "/v1/instances",
    "/v1/alarms",
    "/v1/snapshot",
    "/metrics",
    "/v1/nodes/none",
    "/nothing",
    "/openapi.json",
)


class Planted(NamedTuple):
    """Everything that must not be found, and who shows it."""

    keys: dict[str, MadeKey]
    tokens: dict[str, str]
    cluster: Keyring
    secrets: list[Secret]
    # Kept where credentials are kept: it verifies tokens of a service.
    verifying: Secret


def plant(folder: Path) -> Planted:
    made = {name: make() for name, make in CALLERS.items()}
    made |= {"enrolment": made_key(KeyKind.ENROLMENT), "revoked": made_key(KeyKind.CLIENT, revoked_ms=OLD_MS)}
    made |= {"unknown": made_key(KeyKind.CLIENT), "of a file": made_key(KeyKind.OPERATOR, role=Role.ADMIN)}
    keys = {name: _aged(key) for name, key in made.items()}
    signing_key = signing_key_of(KeyText.parse(keys["service"].text).secret)
    keys["service"] = _changed(keys["service"], signing_key=signing_key)
    cluster = load_or_make(folder / "cluster.key")
    tokens = _tokens(keys["service"], cluster)
    planted = [Secret(f"the key {name}", KeyText.parse(key.text).secret) for name, key in keys.items()]
    planted += [Secret(f"the {name} token", text.rpartition(".")[2]) for name, text in tokens.items()]
    planted += [Secret("the cookie", COOKIE)]
    kept = (folder / "cluster.key").read_text().split()
    planted += [Secret("the cluster key", text) for text in kept if len(text) >= 32]
    assert len(planted) == len(keys) + len(tokens) + 2
    return Planted(keys, tokens, cluster, planted, Secret("the signing key", signing_key))


def _aged(key: MadeKey) -> MadeKey:
    return _changed(key, created_ms=OLD_MS)


def _changed(key: MadeKey, **changes: Any) -> MadeKey:
    return MadeKey(key.text, msgspec.structs.replace(key.credential, **changes))


def _tokens(service: MadeKey, cluster: Keyring) -> dict[str, str]:
    now_s, about, auth = int(time.time()), service.credential, AuthSettings()
    said = claims(iss=None, iat=now_s, exp=now_s + 600, lingua={"tenant": "default"})
    late = said | {"iat": now_s - 900, "exp": now_s - 300}
    signs = (bytes.fromhex(about.signing_key), "HS256", about.id)
    minter = Principal(kind=PrincipalKind.SERVICE, scopes=about.scopes, tenant=about.tenant, key_id=about.id)
    signer = TokenSigner(cluster, auth.audience, auth.max_token_ms)
    minted = signer.mint(minter, "user-8", Grants(tenant=about.tenant), 600_000, now_s * 1000)
    assert isinstance(minted, MintedToken)
    forged = token(said | {"jti": "t-2"}, secrets.token_bytes(32), "HS256", about.id)
    return {"signed": token(said, *signs), "expired": token(late, *signs), "forged": forged, "minted": minted.text}


class Scene(NamedTuple):
    serving: ServeProcess
    peers: Field
    planted: Planted
    server: RedisProcess
    folder: Path
    answers: list[str]
    http: aiohttp.ClientSession

    async def ask(self, method: str, path: str, **more: Any) -> int:
        """Keeps the whole answer."""
        url = f"http://127.0.0.1:{self.serving.port}{path}"
        async with self.http.request(method, url, **more) as response:
            self.answers.append(f"{dict(response.headers)} {await response.text()}")
            return response.status

    async def open(self, path: str, **more: Any) -> Socket | int:
        """A socket, or the status of the refusal."""
        url = f"ws://127.0.0.1:{self.serving.port}{path}"
        try:
            socket = Socket(await self.http.ws_connect(url, max_msg_size=0, **more))
        except aiohttp.WSServerHandshakeError as refused:
            self.answers.append(f"{refused.headers} {refused.message}")
            return refused.status
        self.answers.append(str(socket.socket._response.headers))
        self.peers.sockets.append(socket)
        return socket

    async def say_raw(self, request: str) -> None:
        """Not always HTTP."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.serving.port)
        writer.write(request.encode())
        self.answers.append((await reader.read(65_536)).decode("utf-8", "replace"))
        writer.close()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    planted = plant(tmp_path)
    kept = ("--appendonly", "yes", "--appendfsync", "always", "--rdbcompression", "no")
    server = RedisProcess(str(shipped_binary()), *kept)
    file = write_keys_file(tmp_path / "keys.toml", planted.keys["of a file"])
    changed = ("auth.mode=required", f"auth.keys_file={file}", "auth.refresh_ms=1000", "logs.level=debug")
    sets = [word for change in (*changed, "logs.storm_lines=1000000") for word in ("--set", change)]
    try:
        await _add(server, planted)
        started = serve_process(
            tmp_path, "--redis-url", server.url, *sets, OTEL_TRACES_EXPORTER="console", OTEL_BSP_SCHEDULE_DELAY="100"
        )
        async with started as serving:
            await until(lambda: serving.port, 60)
            async with field(serving.port) as peers, aiohttp.ClientSession() as http:
                yield Scene(serving, peers, planted, server, tmp_path, [], http)
    finally:
        server.stop()


async def _add(server: RedisProcess, planted: Planted) -> None:
    """As a command does that goes straight to Redis."""
    store = Store(server.url, key_prefix="lingua:v1")
    await store.open()
    book = CredentialBook(store.credentials, wall_ms=lambda: int(time.time() * 1000), publish=lambda _: None)
    await book.open()
    for name, key in planted.keys.items():
        if name not in ("unknown", "of a file"):
            await book.add(key.credential)
    await store.close()


async def show_everything(scene: Scene) -> None:
    """Each credential in each place, with what it is for and with what it is not."""
    keys, tokens = scene.planted.keys, scene.planted.tokens
    texts = {**{name: key.text for name, key in keys.items()}, **tokens}
    statuses = set()
    for number, text in enumerate(texts.values()):
        # Of addresses that have not failed too often.
        async with visitor(scene, 2 * number + 2) as asks, visitor(scene, 2 * number + 3) as opens:
            statuses |= await show_in_requests(asks, text)
            statuses |= await show_in_handshakes(opens, text, texts["client"])
        await scene.say_raw(f"{text} /v1/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await scene.say_raw(f"GET /ws/session?access_token={text} HTTP/9.9\r\n\r\n")
        await scene.say_raw(f"GET /v1/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {text}\x01\r\n\r\n")
    assert statuses == {101, 200, 400, 401, 403, 404}


@asynccontextmanager
async def visitor(scene: Scene, number: int) -> AsyncIterator[Scene]:
    connector = aiohttp.TCPConnector(local_addr=(f"127.0.0.{number}", 0))
    async with aiohttp.ClientSession(connector=connector) as http:
        yield scene._replace(http=http)


async def show_in_requests(scene: Scene, text: str) -> set[int]:
    bearer = {"Authorization": f"Bearer {text}", "Cookie": f"__Host-lingua={COOKIE}"}
    found = {await scene.ask("GET", path, headers=bearer) for path in PATHS}
    found.add(await scene.ask("GET", f"/v1/nodes?access_token={text}"))
    found.add(await scene.ask("POST", "/v1/nodes/none/drain", headers=bearer, json={}))
    found.add(await scene.ask("POST", "/v1/node/register", headers=bearer, json=LANGUAGES))
    found.add(await scene.ask("GET", "/v1/nodes", headers={"Authorization": f"Bearer {text[:-1]}~"}))
    return found


async def show_in_handshakes(scene: Scene, text: str, other: str) -> set[int]:
    bearer = {"Authorization": f"Bearer {text}", "Cookie": f"__Host-lingua={COOKIE}"}
    found = set()
    for path in ("/ws/session", "/ws/node"):
        ways: list[dict[str, Any]] = [
            {"headers": bearer},
            {"protocols": ("lingua.v1", f"lingua.auth.{text}")},
            {"protocols": (f"lingua.auth.{text}",)},
            {"headers": bearer, "protocols": ("lingua.v1", f"lingua.auth.{other}")},
            {"headers": {"Authorization": "Basic " + base64.b64encode(f"{text}:".encode()).decode()}},
        ]
        opened = [await scene.open(path, **way) for way in ways]
        opened.append(await scene.open(f"{path}?access_token={text}"))
        for socket in opened:
            found.add(socket if isinstance(socket, int) else 101)
            if isinstance(socket, Socket):
                await socket.close()
    return found


async def work(scene: Scene) -> None:
    """A node and a client with a token do a job, and an operator drains the node."""
    keys, tokens = scene.planted.keys, scene.planted.tokens
    socket = await scene.open(f"/ws/node?access_token={keys['node'].text}")
    assert isinstance(socket, Socket)
    await socket.send(registration())
    node = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], answer)
    scene.peers.nodes.append(node)
    await socket.send(heartbeat(node.node_id))
    for shows in (
        {"headers": {"Authorization": f"Bearer {tokens['minted']}"}},
        {"protocols": ("lingua.v1", f"lingua.auth.{tokens['signed']}")},
    ):
        opened = await scene.open("/ws/session", **shows)
        assert isinstance(opened, Socket)
        client = FakeClient(opened)
        await client.init()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"
        scene.answers.append(json.dumps(opened.heard))
    assert await scene.ask("POST", f"/v1/nodes/{node.node_id}/drain", headers=keys["admin"].header, json={}) == 200


async def print_config(scene: Scene) -> str:
    named = ("--redis-url", scene.server.url, "--set", "auth.mode=required")
    process = await fork_command(
        *("serve", "--print-config", "--json", *named),
        *("--set", f"auth.keys_file={scene.folder / 'keys.toml'}"),
        *("--set", f"privacy.cluster_key_file={scene.folder / 'cluster.key'}"),
        stdout=PIPE,
        stderr=STDOUT,
    )
    said, _ = await process.communicate()
    assert b"auth" in said
    return said.decode()


def files_of(folder: Path) -> Iterable[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()]


@pytest.mark.timeout(180)
async def test_45_no_secret_is_written_anywhere(scene: Scene) -> None:
    await work(scene)
    await show_everything(scene)
    await scene.ask("GET", "/metrics", headers=scene.planted.keys["metrics"].header)
    await until(lambda: '"name": "utterance"' in scene.serving.log, 30, "spans are in the log")
    never = [*scene.planted.secrets, scene.planted.verifying]
    told = {f"answer {number}": text for number, text in enumerate(scene.answers)}
    told |= {"--print-config": await print_config(scene), "log": scene.serving.log}
    assert '"door.denied"' in told["log"]
    assert "lingua_door_refusals" in scene.answers[-1]
    assert {where: found for where, text in told.items() if (found := found_in(text, never))} == {}
    # Redis, as it is and as it is on its disk; and what lies beside the scheduler.
    assert b"OK" in scene.server.command("SAVE")
    kept = dict(files_of(scene.server.folder))
    assert "dump.rdb" in kept
    assert any(name.endswith(".aof") for name in kept)
    client = scene.planted.keys["client"].credential
    assert client.digest.encode() in kept["dump.rdb"], "it is not compressed, and keys are in it"
    assert b"drain" in b"".join(kept.values()), "the audit log is in it"
    kept |= {f"own {name}": body for name, body in files_of(scene.folder) if name != "cluster.key"}
    assert {where: found for where, body in kept.items() if (found := found_in(body, scene.planted.secrets))} == {}


def test_the_search_finds_what_it_should(tmp_path: Path) -> None:
    secret = Secret("a key", KeyText.parse(made_key(KeyKind.CLIENT).text).secret)
    hidden = [secret.text, f"x{secret.text[:20]}…", secret.text[20:], secret.text.encode().hex()]
    hidden += [base64.b64encode(b"x" * ahead + secret.text.encode()).decode() for ahead in range(4)]
    for text in hidden:
        assert found_in(text, [secret]) == ["a key"], text
    assert found_in("the quick brown fox", [secret]) == []
