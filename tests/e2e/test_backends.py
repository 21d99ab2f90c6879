"""The example of an app's backend gives its users tokens that the scheduler accepts, made in both ways."""

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.key_texts import KeyKind
from lingua_scheduler.protocol.sealing import Keyring
from tests.support.access import guarded_scheduler, made_key
from tests.support.servers import RedisProcess
from tools.docs import ROOT

FILE = ROOT / "examples" / "backends" / "fastapi_backend.py"
ANNA = {"Authorization": "Bearer demo-anna"}
needs_fastapi = pytest.mark.skipif(
    not (importlib.util.find_spec("fastapi") and importlib.util.find_spec("httpx")),
    reason="FastAPI and httpx are not installed; the project does not need them",
)


@asynccontextmanager
async def backend() -> AsyncIterator[Any]:
    """Asks the backend without a server between; what the backend asks goes to a real scheduler."""
    import httpx

    spec = importlib.util.spec_from_file_location("fastapi_backend", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    transport = httpx.ASGITransport(app=module.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app.example") as http:
        yield http


async def whose(url: str, token: str) -> dict[str, Any]:
    import httpx

    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{url}/v1/whoami", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@needs_fastapi
async def test_a_user_gets_a_token_that_the_scheduler_made(
    server: RedisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = made_key(KeyKind.SERVICE, tenant="acme")
    async with guarded_scheduler(server.url, tmp_path, key, keyring=Keyring([b"1" * 32])) as (scheduler, _):
        url = f"http://127.0.0.1:{scheduler.port}"
        monkeypatch.setenv("LINGUA_URL", url)
        monkeypatch.setenv("LINGUA_KEY", key.text)
        monkeypatch.delenv("LINGUA_SIGNING_KEY", raising=False)
        async with backend() as http:
            token = (await http.post("/lingua-token", headers=ANNA)).json()["token"]
            found = await whose(url, token)
            assert (found["tenant"], found["subject"]) == ("acme", "anna")
            assert found["scopes"] == ["session:open"]
            # A user is told nothing of the key.
            monkeypatch.setenv("LINGUA_KEY", made_key(KeyKind.SERVICE).text)
            refused = await http.post("/lingua-token", headers=ANNA)
            assert (refused.status_code, refused.json()) == (503, {"detail": "translation is not available now"})


@needs_fastapi
async def test_a_user_gets_a_token_that_the_backend_signed(
    server: RedisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (tmp_path / "app.key").write_bytes(pem)
    async with guarded_scheduler(server.url, tmp_path, made_key(KeyKind.SERVICE)) as (scheduler, _):
        await scheduler.credentials.add_issuer(
            Issuer(id="my-app-1", issuer="https://app.example", tenant="acme", public_key=public.decode())
        )
        monkeypatch.setenv("LINGUA_SIGNING_KEY", str(tmp_path / "app.key"))
        monkeypatch.setenv("LINGUA_KID", "my-app-1")
        monkeypatch.setenv("LINGUA_ISSUER", "https://app.example")
        monkeypatch.setenv("LINGUA_TENANT", "acme")
        async with backend() as http:
            token = (await http.post("/lingua-token", headers=ANNA)).json()["token"]
        found = await whose(f"http://127.0.0.1:{scheduler.port}", token)
        assert (found["tenant"], found["subject"], found["key_id"]) == ("acme", "anna", "my-app-1")


@needs_fastapi
async def test_a_visitor_gets_no_token() -> None:
    async with backend() as http:
        for headers in ({}, {"Authorization": "Bearer demo-"}, {"Authorization": "Basic demo-anna"}):
            assert (await http.post("/lingua-token", headers=headers)).status_code == 401
