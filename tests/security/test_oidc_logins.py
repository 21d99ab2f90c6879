"""Login of operators through an identity provider, and attacks on it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.logins import digest_of
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import made_key
from tests.support.logins import OWN_PAGE
from tests.support.oidc import (
    CLIENT_ID,
    CLIENT_SECRET,
    START,
    MadeUpProvider,
    Visitor,
    changed,
    made_up_provider,
    oidc_settings,
    parameter,
    real_provider,
    scheduler_with,
    visitor_at,
)
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until

ADMIN = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*")
BACK = "../../../dashboard"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with real_provider() as found:
        yield found


class Place(NamedTuple):
    scheduler: Scheduler
    store: Store
    visitor: Visitor


@pytest.fixture
async def place(issuer: str, server: RedisProcess, tmp_path: Path) -> AsyncIterator[Place]:
    async with (
        scheduler_with(issuer, server.url, tmp_path, ADMIN) as (scheduler, store),
        visitor_at(scheduler.port) as visitor,
    ):
        yield Place(scheduler, store, visitor)


class Lied(NamedTuple):
    provider: MadeUpProvider
    visitor: Visitor


@pytest.fixture
async def lied(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Lied]:
    async with (
        made_up_provider() as provider,
        scheduler_with(provider.issuer, server.url, tmp_path) as (scheduler, _),
        visitor_at(scheduler.port) as visitor,
    ):
        yield Lied(provider, visitor)


async def test_a_person_logs_in_and_has_the_role_of_a_group(place: Place) -> None:
    visitor = place.visitor
    url = await visitor.start()
    assert parameter(url, "response_type") == "code"
    assert parameter(url, "code_challenge_method") == "S256"
    assert len(parameter(url, "code_challenge")) == 43
    assert parameter(url, "scope") == "openid profile email"
    assert parameter(url, "redirect_uri") == f"{visitor.base}{START}/callback"
    assert len({parameter(url, name) for name in ("state", "nonce", "code_challenge")}) == 3
    assert await visitor.who() is None
    assert await visitor.come_back(await visitor.agree(url, "alice")) == (303, BACK)
    assert set(visitor.cookies()) == {"lingua"}
    who = await visitor.who()
    assert who is not None
    about = (who["kind"], who["role"], who["tenant"], who["subject"], who["key_id"], who["is_login"])
    assert about == ("operator", "operator", "acme", "oidc:alice", "", True)
    assert abs(who["expires_ms"] - time.time() * 1000 - 43_200_000) < 60_000


async def test_the_first_row_of_the_table_counts(place: Place) -> None:
    await place.visitor.come_back(await place.visitor.sign_in("adam"))
    who = await place.visitor.who()
    assert who is not None
    assert (who["role"], who["tenant"]) == ("admin", "*")


@pytest.mark.parametrize("name", ["bob", "carol"])
async def test_a_person_without_a_group_of_the_table_is_told_so(place: Place, name: str) -> None:
    status, page = await place.visitor.come_back(await place.visitor.sign_in(name), Accept="text/html")
    assert status == 403
    assert "none of your groups has a role" in page.lower()
    assert "<h1>Not logged in</h1>" in page
    assert place.visitor.cookies() == {}
    assert await place.visitor.who() is None


async def test_a_login_is_in_the_audit_log(place: Place) -> None:
    visitor = place.visitor
    await visitor.come_back(await visitor.sign_in("alice"))
    async with visitor.http.post(f"{visitor.base}/v1/nodes/node-1/drain", headers=OWN_PAGE) as response:
        assert response.status == 404
    texts, _ = await place.store.audit.page(most=100)
    entries = [text for text in texts if "oidc:alice" in text]
    assert any('"action":"login.oidc"' in text and "alice@example.com" in text for text in entries)
    assert any('"action":"nodes.drain"' in text and '"key_id":"oidc:alice"' in text for text in entries)


async def test_the_callback_may_reach_another_instance(issuer: str, server: RedisProcess, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    async with (
        scheduler_with(issuer, server.url, folders[0]) as (one, _),
        scheduler_with(issuer, server.url, folders[1], server__allowed_hosts=()) as (other, _),
        visitor_at(one.port) as visitor,
    ):
        back = await visitor.sign_in("alice")
        # As a balancer in front of both would: the host in the browser stays the same.
        moved = back.replace(f":{one.port}/", f":{other.port}/")
        status, _ = await visitor.come_back(moved, Host=f"127.0.0.1:{one.port}")
        assert status == 303
        assert await visitor.who() is not None


@pytest.mark.parametrize("state", ["x" * 43, "", "%C3%A9"])
async def test_a_wrong_state_does_not_count(place: Place, state: str) -> None:
    visitor = place.visitor
    assert (await visitor.come_back(changed(await visitor.sign_in("alice"), state=state)))[0] == 401
    assert await visitor.who() is None


async def test_a_callback_counts_once(place: Place) -> None:
    visitor = place.visitor
    url = await visitor.start()
    secret = visitor.cookies()["lingua-oidc"]
    back = await visitor.agree(url, "alice")
    assert (await visitor.come_back(back))[0] == 303
    visitor.http.cookie_jar.clear()
    # Also for who has the cookie of the browser.
    status, answer = await visitor.come_back(back, Cookie=f"lingua-oidc={secret}")
    assert (status, "UNAUTHENTICATED" in answer) == (401, True)


async def test_of_two_callbacks_at_once_one_counts(place: Place) -> None:
    visitor = place.visitor
    back = await visitor.sign_in("alice")
    statuses = [status for status, _ in await asyncio.gather(*(visitor.come_back(back) for _ in range(5)))]
    assert sorted(statuses) == [303, 401, 401, 401, 401]


async def test_a_login_that_takes_too_long_does_not_count(place: Place) -> None:
    visitor = place.visitor
    back = await visitor.sign_in("alice")
    key = place.store.keys.login_flow(digest_of(visitor.cookies()["lingua-oidc"]))
    assert 590_000 < await place.store.line.call("PTTL", key) <= 600_000
    await place.store.line.call("DEL", key)
    assert (await visitor.come_back(back))[0] == 401


async def test_a_victim_cannot_be_logged_in_as_the_attacker(place: Place) -> None:
    """Login CSRF: the attacker begins, and makes the victim's browser open the callback."""
    attacker, port = place.visitor, place.scheduler.port
    back = await attacker.sign_in("alice")
    async with visitor_at(port) as victim:
        assert (await victim.come_back(back))[0] == 401
        await victim.start()
        assert (await victim.come_back(back))[0] == 401
        assert await victim.who() is None
    # It was not used up by others: they do not have the cookie.
    assert (await attacker.come_back(back))[0] == 303


async def test_a_logout_ends_it(place: Place) -> None:
    visitor = place.visitor
    await visitor.come_back(await visitor.sign_in("alice"))
    cookie = visitor.cookies()["lingua"]
    async with visitor.http.post(f"{visitor.base}/v1/logout", headers=OWN_PAGE) as response:
        assert response.status == 200
    async with visitor.http.get(f"{visitor.base}/v1/whoami", headers={"Cookie": f"lingua={cookie}"}) as response:
        assert response.status == 401


@pytest.mark.parametrize(("name", "tenant"), [("alice", "acme"), ("adam", "*")])
async def test_a_revocation_of_the_subject_ends_it(place: Place, name: str, tenant: str) -> None:
    visitor = place.visitor
    await visitor.come_back(await visitor.sign_in(name))
    stream = await visitor.http.get(f"{visitor.base}/v1/watch")
    await stream.content.readline()
    # It must be older than the revocation, by a clock of milliseconds.
    who = await visitor.who()
    assert who is not None
    await until(lambda: time.time() * 1000 > who["expires_ms"] - 43_200_000 + 2)
    wish = {"tenant": tenant, "subject": f"oidc:{name}"}
    url = f"{visitor.base}/v1/revocations"
    async with visitor_at(place.scheduler.port) as admin, admin.http.post(url, json=wish, headers=ADMIN.header) as done:
        assert done.status == 200, await done.text()
    assert await visitor.who() is None
    with pytest.raises(aiohttp.ClientPayloadError):
        async with asyncio.timeout(10):
            await stream.read()
    # The person may come again, until the provider or the table says otherwise.
    assert (await visitor.come_back(await visitor.sign_in(name)))[0] == 303
    assert await visitor.who() is not None


async def test_a_login_ends_when_its_group_leaves_the_table(issuer: str, server: RedisProcess, tmp_path: Path) -> None:
    async with scheduler_with(issuer, server.url, tmp_path) as (scheduler, _), visitor_at(scheduler.port) as visitor:
        await visitor.come_back(await visitor.sign_in("alice"))
        assert await visitor.who() is not None
        cookie = visitor.cookies()["lingua"]
    less = oidc_settings(issuer, tmp_path, roles={"lingua-viewers": "viewer@*"})
    async with (
        scheduler_with(issuer, server.url, tmp_path, auth__oidc=less) as (scheduler, _),
        visitor_at(scheduler.port) as visitor,
        visitor.http.get(f"{visitor.base}/v1/whoami", headers={"Cookie": f"lingua={cookie}"}) as response,
    ):
        assert response.status == 401


async def test_a_login_without_a_key_makes_neither_codes_nor_tokens_nor_sockets(place: Place) -> None:
    visitor = place.visitor
    await visitor.come_back(await visitor.sign_in("adam"))
    async with visitor.http.post(f"{visitor.base}/v1/login/codes", headers=OWN_PAGE) as response:
        assert response.status == 403
    wish = {"subject": "u", "tenant": "acme"}
    async with visitor.http.post(f"{visitor.base}/v1/tokens", headers=OWN_PAGE, json=wish) as response:
        assert response.status == 403
        assert "with a key" in (await response.json())["detail"]
    async with visitor.http.get(f"{visitor.base}/ws/session") as response:
        assert response.status == 401
    async with visitor.http.post(f"{visitor.base}/v1/nodes/n/drain") as response:
        assert response.status == 403


# What the provider says


async def test_a_made_up_provider_is_believed_when_all_is_right(lied: Lied) -> None:
    assert await lied.visitor.come_back(await lied.visitor.hop()) == (303, BACK)
    (request,) = lied.provider.token_requests
    assert request["grant_type"] == "authorization_code"
    assert len(request["code_verifier"]) == 43
    assert request["redirect_uri"] == f"{lied.visitor.base}{START}/callback"


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"iat": None},
        {"iat": 32_000_000_000},
        {"aud": "another-client"},
        {"aud": ["another-client"], "azp": CLIENT_ID},
        {"aud": [CLIENT_ID, "another-client"], "azp": "another-client"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"at_hash": "wrong"},
    ],
    ids=lambda claims: "-".join(f"{name}={value}" for name, value in claims.items()),
)
async def test_an_id_token_that_is_not_for_this_login_does_not_count(lied: Lied, claims: dict[str, Any]) -> None:
    lied.provider.claims = claims
    status, answer = await lied.visitor.come_back(await lied.visitor.hop())
    assert status == 401, answer
    assert await lied.visitor.who() is None


async def test_an_id_token_of_another_key_does_not_count(lied: Lied) -> None:
    lied.provider.signs_with = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert (await lied.visitor.come_back(await lied.visitor.hop()))[0] == 401


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
async def test_an_id_token_signed_with_the_client_secret_does_not_count(lied: Lied) -> None:
    lied.provider.signs_with, lied.provider.algorithm = CLIENT_SECRET, "HS256"
    assert (await lied.visitor.come_back(await lied.visitor.hop()))[0] == 401
    lied.provider.signs_with, lied.provider.algorithm = None, "none"
    assert (await lied.visitor.come_back(await lied.visitor.hop()))[0] == 401


async def test_an_answer_without_an_id_token_does_not_count(lied: Lied) -> None:
    lied.provider.token_answer = web.json_response({"access_token": "x", "token_type": "Bearer"})
    assert (await lied.visitor.come_back(await lied.visitor.hop()))[0] == 401


async def test_another_provider_cannot_answer_in_its_place(lied: Lied) -> None:
    assert (await lied.visitor.come_back(changed(await lied.visitor.hop(), iss="https://evil.example")))[0] == 401


async def test_a_refusal_of_the_provider_is_told_without_its_words(lied: Lied) -> None:
    back = await lied.visitor.hop()
    refused = changed(back, code="", error="access_denied", error_description="<script>planted</script>")
    status, page = await lied.visitor.come_back(refused, Accept="text/html")
    assert status == 401
    assert "planted" not in page
    assert lied.provider.token_requests == []


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(status=500, text="broken"),
        lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/elsewhere"}),
        lambda: web.Response(text="[]", content_type="application/json"),
        lambda: web.Response(body=b"x" * 300_000, content_type="application/json"),
        lambda: web.json_response({"id_token": 5, "access_token": "x", "token_type": "Bearer"}),
    ],
    ids=["500", "redirect", "list", "large", "number"],
)
async def test_an_answer_that_cannot_be_used_is_told_as_such(lied: Lied, answer: Any) -> None:
    back = await lied.visitor.hop()
    lied.provider.token_answer = answer()
    status, told = await lied.visitor.come_back(back)
    assert status in (401, 503)
    assert "operator key" in told or "does not count" in told
    assert await lied.visitor.who() is None


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://192.0.2.1/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"id_token_signing_alg_values_supported": ["HS256", "none"]},
        {"token_endpoint": None},
    ],
    ids=lambda described: next(iter(described)),
)
async def test_a_description_that_is_not_safe_is_not_used(lied: Lied, described: dict[str, Any]) -> None:
    lied.provider.described = described
    status, told = await lied.visitor.come_back(f"{lied.visitor.base}{START}")
    assert (status, "operator key" in told) == (503, True)
    # Nor is it asked for with every request.
    await lied.visitor.come_back(f"{lied.visitor.base}{START}")
    assert lied.provider.asked == ["description"]


async def test_a_provider_that_is_away_is_told_of(server: RedisProcess, tmp_path: Path) -> None:
    async with made_up_provider() as provider:
        gone = provider.issuer
    async with scheduler_with(gone, server.url, tmp_path) as (scheduler, _), visitor_at(scheduler.port) as visitor:
        status, page = await visitor.come_back(f"{visitor.base}{START}", Accept="text/html")
        assert status == 503
        assert "log in with an operator key" in page
        assert 'href="../../dashboard"' in page


@pytest.fixture
def own_server() -> Iterator[RedisProcess]:
    process = RedisProcess(str(binaries()["valkey"]))
    yield process
    process.stop()


async def test_without_redis_no_login_begins(issuer: str, own_server: RedisProcess, tmp_path: Path) -> None:
    async with (
        scheduler_with(issuer, own_server.url, tmp_path, redis__timeout_ms=500) as (scheduler, _),
        visitor_at(scheduler.port) as visitor,
    ):
        back = await visitor.sign_in("alice")
        own_server.kill()
        for url in (f"{visitor.base}{START}", back):
            status, told = await visitor.come_back(url, Accept="text/html")
            assert (status, "Redis is unavailable" in told) == (503, True)


async def test_the_offer_names_the_provider(place: Place) -> None:
    async with place.visitor.http.get(f"{place.visitor.base}/v1/login/offers") as response:
        assert (response.status, await response.json()) == (200, {"oidc": "localhost"})


async def test_no_secret_is_in_redis_or_in_the_log(
    lied: Lied, server: RedisProcess, capfd: pytest.CaptureFixture[str], store: Store
) -> None:
    visitor = lied.visitor
    back = await visitor.hop()
    flow = visitor.cookies()["lingua-oidc"]
    secrets = [flow, parameter(back, "state"), lied.provider.nonce, CLIENT_SECRET, "planted-code"]

    async def kept() -> str:
        found = ""
        for key in await store.line.call("KEYS", "*"):
            kind = await store.line.call("TYPE", key)
            read = {"string": ("GET", key), "stream": ("XRANGE", key, "-", "+")}.get(str(kind))
            found += f"{key} {await store.line.call(*read) if read else ''}\n"
        return found

    before = await kept()
    assert ":flow:" in before
    assert (await visitor.come_back(back))[0] == 303
    secrets += [lied.provider.token_requests[0]["code_verifier"], "planted-access-token", visitor.cookies()["lingua"]]
    lied.provider.claims = {"nonce": "another"}
    await visitor.come_back(await visitor.hop())
    after = await kept()
    assert ":login:" in after
    captured = capfd.readouterr()
    for place in (before, after, captured.out, captured.err):
        assert [secret for secret in secrets if secret in place] == []
        assert jwt.encode({}, "x" * 32).partition(".")[0] not in place
