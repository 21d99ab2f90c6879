"""examples/backends: each backend gives its users tokens, and its page translates in Chromium with them."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from playwright.async_api import Browser, expect

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.processes import die_with_parent, stop
from tests.support.access import guarded_scheduler, made_key
from tests.support.browser import page_of
from tests.support.js_client import ROOT
from tests.support.npm import CACHE, installed
from tests.support.servers import RedisProcess
from tests.support.talking import Recorder, recording_node
from tests.support.waiting import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

ANNA = {"Authorization": "Bearer demo-anna"}
# What the README has its reader install, and what the backend needs to sign tokens.
PACKAGES = ("fastapi", "uvicorn", "httpx", "pyjwt[crypto]")
INSTALL_WITHIN_S = 180


@pytest.fixture(scope="module")
def folder(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `npm install` leaves it."""
    return installed(ROOT / "examples" / "backends", built, tmp_path_factory.mktemp("backends") / "backends")


@pytest.fixture(scope="module")
def python_packages() -> Path:
    """A folder for PYTHONPATH, kept for the next time."""
    place = CACHE / f"python-{sys.version_info.major}.{sys.version_info.minor}"
    if (place / ".ready").exists():
        return place
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:")
    try:
        subprocess.run(
            (*pip, "--upgrade", "--target", str(place), *PACKAGES),
            check=True,
            capture_output=True,
            timeout=INSTALL_WITHIN_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip did not install FastAPI within {INSTALL_WITHIN_S} s")
    except subprocess.CalledProcessError as failed:
        pytest.skip(f"pip cannot install FastAPI: {failed.stderr.decode(errors='replace')[-300:]}")
    (place / ".ready").touch()
    return place


@asynccontextmanager
async def running(kind: str, folder: Path, packages: Path, **variables: str) -> AsyncIterator[str]:
    """The address of the backend, started as its README says."""
    port = str(free_port())
    fastapi = (sys.executable, "-m", "uvicorn", "fastapi_backend:app", "--port", port)
    process = await asyncio.create_subprocess_exec(
        *(fastapi if kind == "fastapi" else ("node", "express_backend.mjs")),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PORT": port, "PYTHONPATH": str(packages)} | variables,
        preexec_fn=die_with_parent,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as http:
            await until(lambda: answers(http, address), what="the backend is there")
        yield address
    finally:
        await stop(process, 5.0)


async def answers(http: aiohttp.ClientSession, address: str) -> bool:
    try:
        async with http.get(address) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def signs_itself(scheduler: Scheduler, folder: Path) -> dict[str, str]:
    """What a backend needs to sign tokens with a key of its own."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    path = folder / "app.key"
    path.touch(mode=0o600)
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    issuer = Issuer(id="my-app-1", issuer="https://app.example", tenant="acme", public_key=public)
    await scheduler.credentials.add_issuer(issuer)
    named = {"LINGUA_KID": issuer.id, "LINGUA_ISSUER": issuer.issuer, "LINGUA_TENANT": issuer.tenant}
    return {"LINGUA_SIGNING_KEY": str(path)} | named


async def whose(http: aiohttp.ClientSession, backend: str, scheduler: str) -> tuple[str, str]:
    """Tenant and subject of a token that the backend gives to Anna."""
    async with http.post(f"{backend}/lingua-token", headers=ANNA) as answer:
        assert answer.status == 200
        token = (await answer.json())["token"]
    async with http.get(f"{scheduler}/v1/whoami", headers={"Authorization": f"Bearer {token}"}) as answer:
        found = await answer.json()
    assert found["scopes"] == ["session:open"]
    return found["tenant"], found["subject"]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("who", ["the scheduler makes the token", "the backend signs it"])
@pytest.mark.parametrize("kind", ["fastapi", "express"])
async def test_a_user_speaks_and_reads_the_translation(
    server: RedisProcess,
    tmp_path: Path,
    folder: Path,
    python_packages: Path,
    humming: Browser,
    recorder: Recorder,
    kind: str,
    who: str,
) -> None:
    service, node = made_key(KeyKind.SERVICE, tenant="acme"), made_key(KeyKind.NODE)
    guarded = guarded_scheduler(server.url, tmp_path, service, node, keyring=Keyring([b"1" * 32]))
    async with guarded as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt", token=node.text):
        url = f"http://127.0.0.1:{scheduler.port}"
        mints = await signs_itself(scheduler, tmp_path) if "signs" in who else {"LINGUA_KEY": service.text}
        async with running(kind, folder, python_packages, LINGUA_URL=url, **mints) as address:
            async with aiohttp.ClientSession() as http:
                assert await whose(http, address, url) == ("acme", "anna")
            async with page_of(humming) as page:
                sent: list[object] = []
                page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
                await page.goto(address)
                await page.get_by_role("button", name="Speak").click()
                await expect(page.locator("#state")).to_have_text("listening")
                await until(lambda: len(sent) > 5, what="the microphone is heard")
                await page.get_by_role("button", name="Done").click()
                await expect(page.locator("#texts li")).to_have_text("heard 1 → <b>said</b> 1 in pt")


@pytest.mark.parametrize("kind", ["fastapi", "express"])
async def test_a_visitor_gets_no_token_and_a_user_is_told_nothing_of_the_key(
    server: RedisProcess, tmp_path: Path, folder: Path, python_packages: Path, kind: str
) -> None:
    async with guarded_scheduler(server.url, tmp_path, made_key(KeyKind.SERVICE)) as (scheduler, _):
        unknown = made_key(KeyKind.SERVICE).text
        url = f"http://127.0.0.1:{scheduler.port}"
        backend = running(kind, folder, python_packages, LINGUA_URL=url, LINGUA_KEY=unknown)
        async with backend as address, aiohttp.ClientSession(address) as http:
            for headers in ({}, {"Authorization": "Bearer demo-"}, {"Authorization": "Basic demo-anna"}):
                async with http.post("/lingua-token", headers=headers) as answer:
                    assert answer.status == 401
            async with http.post("/lingua-token", headers=ANNA) as answer:
                said = await answer.json()
                assert (answer.status, list(said.values())) == (503, ["translation is not available now"])
