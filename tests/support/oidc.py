"""Identity providers on loopback: a real one, and one that says what a test wants."""

import html
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from lingua_scheduler.app import Scheduler
from lingua_scheduler.setting_sections.access import OidcSettings
from lingua_scheduler.store.store import Store
from tests.support.access import MadeKey, guarded_scheduler
from tests.support.leaks import LEAKS

CLIENT_ID, CLIENT_SECRET = "lingua-scheduler", "planted-client-secret"
ROLES = {"lingua-admins": "admin@*", "lingua-ops": "operator@acme", "lingua-viewers": "viewer@*"}
PEOPLE: dict[str, dict[str, Any]] = {
    "alice": {"groups": ["staff", "lingua-ops"], "email": "alice@example.com"},
    "adam": {"groups": ["lingua-viewers", "lingua-admins"]},
    "bob": {"groups": ["staff"]},
    "carol": {},
}
START = "/v1/login/oidc"
ACCESS_TOKEN = "planted-access-token"


# It uses parts of Authlib that are to go, and warnings are errors here; so it is a process of its own.
_REAL_PROVIDER = """
import json, sys
from oidc_provider_mock import User, run_server_in_thread
people = [User(sub=sub, claims=claims) for sub, claims in json.loads(sys.argv[1]).items()]
with run_server_in_thread(user_claims=people, require_nonce=True) as server:
    print(server.server_port, flush=True)
    sys.stdin.read()
"""


@contextmanager
def real_provider() -> Iterator[str]:
    """oidc-provider-mock. Yields its issuer."""
    command = [sys.executable, "-W", "ignore", "-c", _REAL_PROVIDER, json.dumps(PEOPLE)]
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet, text=True) as process:
        assert process.stdout is not None
        yield f"http://localhost:{int(process.stdout.readline())}"
        # Leaving closes its input, which ends it.


class MadeUpProvider:
    """A provider whose ID tokens are what a test wants. It asks no one, and sends the browser back at once."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.signs_with: Any = self.key
        self.algorithm = "RS256"
        self.issuer = ""
        self.claims: dict[str, Any] = {}
        self.described: dict[str, Any] = {}
        self.token_answer: web.Response | None = None
        self.asked: list[str] = []
        self.token_requests: list[dict[str, str]] = []
        self.nonce = ""
        self.key_id = "1"
        self.is_compressed = False

    async def describe(self, _: web.Request) -> web.Response:
        self.asked.append("description")
        endpoints = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
        urls = {name: f"{self.issuer}/{path}" for name, path in endpoints.items()}
        about = {"issuer": self.issuer, "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"], **urls}
        return web.json_response(about | self.described)

    async def jwks(self, _: web.Request) -> web.Response:
        self.asked.append("jwks")
        public = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        answer = web.json_response({"keys": [{**public, "kid": self.key_id, "use": "sig"}, {"kty": "AKP", "kid": "2"}]})
        if self.is_compressed:
            answer.enable_compression(web.ContentCoding.gzip)
        return answer

    async def authorize(self, request: web.Request) -> web.Response:
        self.nonce = request.query["nonce"]
        back = f"{request.query['redirect_uri']}?code=planted-code&state={request.query['state']}"
        raise web.HTTPFound(back)

    async def token(self, request: web.Request) -> web.Response:
        self.asked.append("token")
        form = await request.post()
        self.token_requests.append({name: str(value) for name, value in form.items()})
        if self.token_answer is not None:
            return self.token_answer
        LEAKS.note("an access token of the provider", ACCESS_TOKEN)
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "alice",
            "iat": now,
            "exp": now + 300,
            "nonce": self.nonce,
            "groups": ["lingua-ops"],
        }
        given = {name: value for name, value in (claims | self.claims).items() if value is not None}
        text = jwt.encode(given, self.signs_with, algorithm=self.algorithm, headers={"kid": self.key_id})
        return web.json_response({"access_token": ACCESS_TOKEN, "token_type": "Bearer", "id_token": text})


@asynccontextmanager
async def made_up_provider() -> AsyncIterator[MadeUpProvider]:
    provider = MadeUpProvider()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", provider.describe)
    app.router.add_get("/jwks", provider.jwks)
    app.router.add_get("/authorize", provider.authorize)
    app.router.add_post("/token", provider.token)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.issuer = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield provider
    finally:
        await runner.cleanup()


def oidc_settings(issuer: str, folder: Path, **more: Any) -> OidcSettings:
    secret = folder / "client.secret"
    secret.write_text(f"{CLIENT_SECRET}\n")
    secret.chmod(0o600)
    about = {"issuer": issuer, "client_id": CLIENT_ID, "client_secret_file": str(secret), "roles": ROLES}
    return OidcSettings(**(about | more))


@asynccontextmanager
async def scheduler_with(
    issuer: str, url: str, folder: Path, *keys: MadeKey, **changes: Any
) -> AsyncIterator[tuple[Scheduler, Store]]:
    settings = {"auth__oidc": oidc_settings(issuer, folder)} | changes
    async with guarded_scheduler(url, folder, *keys, **settings) as both:
        yield both


class Visitor:
    """A browser, as far as cookies and redirects go."""

    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self.http = http
        self.base = f"http://127.0.0.1:{port}"

    async def start(self) -> str:
        """Where the scheduler sends the browser."""
        async with self.http.get(f"{self.base}{START}", allow_redirects=False) as response:
            assert response.status == 303, await response.text()
            return response.headers["Location"]

    async def sign_in(self, name: str) -> str:
        """Where a real provider sends the browser back, after the person has agreed."""
        return await self.agree(await self.start(), name)

    async def agree(self, url: str, name: str) -> str:
        async with self.http.get(url) as response:
            form = await response.text()
        action = re.search(r'<form[^>]*action="([^"]*)"', form)
        target = html.unescape(action[1]) if action and action[1] else url
        target = (
            target if target.startswith("http") else f"{urlsplit(url)._replace(path='', query='').geturl()}{target}"
        )
        async with self.http.post(target, data={"sub": name}, allow_redirects=False) as response:
            assert response.status == 302, await response.text()
            return response.headers["Location"]

    async def hop(self) -> str:
        """Where a made-up provider sends the browser back."""
        async with self.http.get(await self.start(), allow_redirects=False) as response:
            assert response.status == 302, await response.text()
            return response.headers["Location"]

    async def come_back(self, url: str, **headers: str) -> tuple[int, str]:
        async with self.http.get(url, allow_redirects=False, headers=headers) as response:
            return response.status, response.headers.get("Location", "") or await response.text()

    async def who(self) -> dict[str, Any] | None:
        async with self.http.get(f"{self.base}/v1/whoami") as response:
            return await response.json() if response.status == 200 else None

    def cookies(self) -> dict[str, str]:
        return {morsel.key: morsel.value for morsel in self.http.cookie_jar}


@asynccontextmanager
async def visitor_at(port: int) -> AsyncIterator[Visitor]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        yield Visitor(http, port)


def parameter(url: str, name: str) -> str:
    return parse_qs(urlsplit(url).query)[name][0]


def changed(url: str, **parameters: str) -> str:
    """The same address with other parameters in its query; an empty one is left out."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()} | parameters
    told = "&".join(f"{name}={value}" for name, value in query.items() if value)
    return parts._replace(query=told).geturl()
