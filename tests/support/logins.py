"""A scheduler at which people log in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import MadeKey, guarded_scheduler, made_key

# As a browser says it.
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


class Guarded:
    def __init__(self, scheduler: Scheduler, store: Store, http: aiohttp.ClientSession, operator: MadeKey) -> None:
        self.scheduler = scheduler
        self.store = store
        self.http = http
        self.operator = operator

    async def ask(self, method: str, path: str, cookie: str = "", **more: Any) -> tuple[int, Any]:
        headers = more.pop("headers", {}) | ({"Cookie": cookie} if cookie else {})
        async with self.http.request(method, path, headers=headers, **more) as response:
            return response.status, await response.json()

    async def log_in(self, headers: dict[str, str] | None = None, **body: str) -> str:
        """The cookie as a browser sends it back."""
        body = body or {"key": self.operator.text}
        async with self.http.post("/v1/login", json=body, headers=headers or {}) as response:
            assert response.status == 200, await response.text()
            (set_cookie,) = response.headers.getall("Set-Cookie")
        return set_cookie.partition(";")[0]

    async def code(self) -> str:
        status, answer = await self.ask("POST", "/v1/login/codes", headers=self.operator.header)
        assert status == 200
        return str(answer["code"])


@asynccontextmanager
async def logging_in(url: str, folder: Path) -> AsyncIterator[Guarded]:
    """With the key of an operator, and behind a proxy that may end TLS."""
    operator = made_key(KeyKind.OPERATOR, role=Role.OPERATOR)
    proxies = {"server__trusted_proxies": ("127.0.0.1",)}
    async with (
        guarded_scheduler(url, folder, operator, **proxies) as (scheduler, store),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}", cookie_jar=aiohttp.DummyCookieJar()) as http,
    ):
        yield Guarded(scheduler, store, http, operator)
