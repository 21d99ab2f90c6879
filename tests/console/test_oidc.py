"""What browsers get: cookies, redirects and pages. Attacks are in tests/security/test_oidc_logins.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lingua_scheduler.domain.access.scopes import Role
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import made_key
from tests.support.oidc import (
    START,
    changed,
    made_up_provider,
    oidc_settings,
    parameter,
    real_provider,
    scheduler_with,
    visitor_at,
)
from tests.support.servers import RedisProcess

ADMIN = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*")


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with real_provider() as found:
        yield found


async def test_it_is_not_there_when_it_is_not_configured(server: RedisProcess, tmp_path: Path) -> None:
    async with scheduler_with("", server.url, tmp_path, ADMIN, auth__oidc={}) as (scheduler, _):
        async with visitor_at(scheduler.port) as visitor:
            for path in (START, f"{START}/callback"):
                status, told = await visitor.come_back(f"{visitor.base}{path}")
                assert (status, "auth.oidc.issuer" in told) == (404, True)
            async with visitor.http.get(f"{visitor.base}/v1/login/offers") as response:
                assert await response.json() == {"oidc": ""}


async def test_behind_tls_all_cookies_are_for_this_host_alone(
    issuer: str, server: RedisProcess, tmp_path: Path
) -> None:
    proxied = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https", "Host": "translate.example"}
    settings = {"server__trusted_proxies": ("127.0.0.1",), "server__allowed_hosts": ("translate.example",)}
    async with (
        scheduler_with(issuer, server.url, tmp_path, **settings) as (scheduler, _),
        visitor_at(scheduler.port) as visitor,
        visitor.http.get(f"{visitor.base}{START}", allow_redirects=False, headers=proxied) as response,
    ):
        (cookie,) = response.headers.getall("Set-Cookie")
        words = {word.strip().lower() for word in cookie.split(";")[1:]}
        assert cookie.startswith("__Host-lingua-oidc=")
        assert words == {"secure", "httponly", "samesite=lax", "path=/", "max-age=600"}
        url = response.headers["Location"]
        assert parameter(url, "redirect_uri") == f"https://translate.example{START}/callback"
        back = await visitor.agree(url, "alice")
        local = changed(f"{visitor.base}{START}/callback", code=parameter(back, "code"), state=parameter(back, "state"))
        sent = proxied | {"Cookie": cookie.partition(";")[0]}
        async with visitor.http.get(local, allow_redirects=False, headers=sent) as done:
            set_cookies = {one.partition("=")[0]: one.lower() for one in done.headers.getall("Set-Cookie")}
        assert "samesite=strict" in set_cookies["__Host-lingua"]
        assert "max-age=0" in set_cookies["__Host-lingua-oidc"]
        # In the clear there is no login.
        async with visitor.http.get(
            f"{visitor.base}{START}", allow_redirects=False, headers=proxied | {"X-Forwarded-Proto": "http"}
        ) as plain:
            assert plain.status == 403


async def test_a_callback_address_that_is_set_counts(server: RedisProcess, tmp_path: Path) -> None:
    async with made_up_provider() as provider:
        address = f"https://proxy.example/lingua{START}/callback"
        settings = oidc_settings(provider.issuer, tmp_path, callback_url=address)
        async with (
            scheduler_with(provider.issuer, server.url, tmp_path, auth__oidc=settings) as (scheduler, _),
            visitor_at(scheduler.port) as visitor,
        ):
            assert parameter(await visitor.start(), "redirect_uri") == address


async def test_answers_are_kept_nowhere(issuer: str, server: RedisProcess, tmp_path: Path) -> None:
    async with scheduler_with(issuer, server.url, tmp_path) as (scheduler, _), visitor_at(scheduler.port) as visitor:
        for path, status in ((START, 303), (f"{START}/callback?code=x&state=y", 401)):
            async with visitor.http.get(f"{visitor.base}{path}", allow_redirects=False) as response:
                assert response.status == status
                assert response.headers["Cache-Control"] == "no-store"
                assert response.headers["Referrer-Policy"] == "no-referrer"
        async with visitor.http.head(f"{visitor.base}{START}") as response:
            # It would begin a login that no browser follows.
            assert response.status == 401
