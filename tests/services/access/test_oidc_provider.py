"""The exchange with a provider. What it must not be believed is in tests/security/test_oidc_logins.py."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from lingua_scheduler.domain.access.oidc_flows import OidcRefused, ProviderAway, flow_of
from lingua_scheduler.services.access.oidc_provider import FRESH_S, PAUSE_S, OidcProvider
from lingua_scheduler.setting_sections.access import OidcSettings
from tests.support.access import Times
from tests.support.oidc import CLIENT_ID, MadeUpProvider, made_up_provider, parameter

FLOW = flow_of("secret")
BACK = "http://127.0.0.1/back"


@pytest.fixture
async def there() -> AsyncIterator[MadeUpProvider]:
    async with made_up_provider() as provider:
        provider.nonce = FLOW.nonce
        yield provider


def client(there: MadeUpProvider, times: Times | None = None, secret: str = "s", **more: Any) -> OidcProvider:
    settings = OidcSettings(issuer=there.issuer, client_id=CLIENT_ID, **more)
    return OidcProvider(settings, secret, (times or Times()).monotonic)


async def test_a_browser_is_sent_with_all_that_binds_its_return(there: MadeUpProvider) -> None:
    url = await client(there, scopes=("openid", "groups")).authorization_url(FLOW, BACK)
    assert url.startswith(f"{there.issuer}/authorize?")
    assert (parameter(url, "state"), parameter(url, "nonce")) == (FLOW.state, FLOW.nonce)
    assert (parameter(url, "scope"), parameter(url, "client_id")) == ("openid groups", CLIENT_ID)
    assert FLOW.verifier not in url


async def test_groups_are_in_the_claim_that_is_set(there: MadeUpProvider) -> None:
    there.claims = {"https://acme.example/roles": "ops", "email": "a@example.com"}
    found = await client(there, groups_claim="https://acme.example/roles").identity("code", FLOW, BACK)
    assert found == ("alice", ("ops",), "a@example.com")


async def test_the_secret_is_sent_as_the_provider_wants_it(there: MadeUpProvider) -> None:
    await client(there).identity("code", FLOW, BACK)
    there.described = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    await client(there).identity("code", FLOW, BACK)
    await client(there, secret="").identity("code", FLOW, BACK)
    basic, posted, public = there.token_requests
    assert "client_secret" not in basic
    assert (posted["client_id"], posted["client_secret"]) == (CLIENT_ID, "s")
    assert (public["client_id"], public.get("client_secret")) == (CLIENT_ID, None)


async def test_the_description_and_the_keys_are_kept_for_a_while(there: MadeUpProvider) -> None:
    times = Times()
    provider = client(there, times)
    for _ in range(3):
        await provider.identity("code", FLOW, BACK)
    assert there.asked.count("description") == there.asked.count("jwks") == 1
    times.now_s += FRESH_S + 1
    await provider.identity("code", FLOW, BACK)
    assert there.asked.count("description") == there.asked.count("jwks") == 2


async def test_a_key_that_the_provider_has_changed_is_fetched(there: MadeUpProvider) -> None:
    provider = client(there)
    await provider.identity("code", FLOW, BACK)
    there.key = there.signs_with = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    there.key_id = "3"
    assert (await provider.identity("code", FLOW, BACK)).subject == "alice"
    # Under the same name it is not: a signature that does not fit is no reason to ask.
    there.signs_with = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with pytest.raises(OidcRefused):
        await provider.identity("code", FLOW, BACK)


async def test_after_a_failure_it_is_asked_again_soon(there: MadeUpProvider) -> None:
    times = Times()
    provider = client(there, times)
    there.described = {"issuer": "https://another.example"}
    with pytest.raises(ProviderAway, match="letter by letter"):
        await provider.authorization_url(FLOW, BACK)
    there.described = {}
    with pytest.raises(ProviderAway, match="a moment ago"):
        await provider.authorization_url(FLOW, BACK)
    times.now_s += PAUSE_S + 1
    assert await provider.authorization_url(FLOW, BACK)


async def test_a_compressed_answer_is_not_read(there: MadeUpProvider) -> None:
    there.is_compressed = True
    async with aiohttp.ClientSession() as http, http.get(f"{there.issuer}/jwks") as response:
        assert response.headers["Content-Encoding"] == "gzip"
    with pytest.raises(ProviderAway):
        await client(there).identity("code", FLOW, BACK)
