"""Published keys: fetched in the background, kept while their issuer is away, and never believed too much."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.console.key_sets import KeySets
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.principals import Denied, Principal
from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.services.access import jwks as published_keys
from lingua_scheduler.services.access.jwks import JwksAway, JwksCache, read_jwks
from lingua_scheduler.services.access.tokens import TokenReader
from tests.support.tokens import ED25519, NOW_MS, OTHER_ED25519, P256, RSA, Book, claims, token
from tests.support.waiting import until

LOCAL = KeySets(Destinations(read_networks(("127.0.0.1",))))
# As plain values: a limit that changes is noticed.
HOUR_S, DAY_S, PAUSE_S = 3600, 86_400, 30


class Seconds:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def jwk(key: Any = ED25519, kid: str = "k", **changed: Any) -> dict[str, Any]:
    algorithm = {id(P256): "ES256", id(RSA): "RS256"}.get(id(key), "EdDSA")
    found = jwt.PyJWS().get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**found, "kid": kid, "use": "sig", **changed}


class Idp:
    """An identity provider that answers as it is told, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.keys: list[dict[str, Any]] = [jwk()]
        self.answer: bytes | None = None
        self.status = 200
        self.lets_go = asyncio.Event()
        self.lets_go.set()
        self.base = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        await self.lets_go.wait()
        body = json.dumps({"keys": self.keys}).encode() if self.answer is None else self.answer
        return web.Response(body=body, status=self.status, content_type="application/json")

    async def redirect(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        return web.Response(status=302, headers={"Location": f"{self.base}/jwks"})

    async def drip(self, request: web.Request) -> web.StreamResponse:
        """A byte now and then, for ever."""
        self.asked.append(request.path)
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.02)
        except ConnectionResetError:
            return response


@asynccontextmanager
async def idp_at() -> AsyncIterator[Idp]:
    idp = Idp()
    app = web.Application()
    app.router.add_get("/jwks", idp.handle)
    app.router.add_get("/redirect", idp.redirect)
    app.router.add_get("/drip", idp.drip)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    idp.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield idp
    finally:
        idp.lets_go.set()
        await runner.cleanup()


@pytest.fixture
async def idp() -> AsyncIterator[Idp]:
    async with idp_at() as found:
        yield found


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
async def cache(clock: Seconds) -> AsyncIterator[JwksCache]:
    found = JwksCache(LOCAL.fetch, clock)
    yield found
    await found.close()


def issuer(idp: Idp, path: str = "/jwks", issuer_id: str = "app", **changed: Any) -> Issuer:
    known = {"tenant": "acme", "issuer": "https://app.example", "jwks_url": idp.base + path}
    return Issuer(id=issuer_id, **{**known, **changed})


async def settle(cache: JwksCache) -> None:
    assert await cache._nursery.settle(60) == 0


async def test_keys_are_there_before_the_first_token(idp: Idp, cache: JwksCache) -> None:
    idp.keys = [jwk(), jwk(P256, "p"), jwk(RSA, "r")]
    await cache.prefetch([issuer(idp), Issuer(id="other", issuer="x", public_key="PEM")])
    for key_id, key in (("k", ED25519), ("p", P256), ("r", RSA)):
        found = cache.find(issuer(idp), key_id)
        assert found is not None
        assert found.key == key.public_key()
    assert idp.asked == ["/jwks"]


async def test_a_token_of_an_unknown_issuers_key_is_refused_now_and_read_once_the_key_is_here(
    idp: Idp, cache: JwksCache
) -> None:
    reader = TokenReader(Book(issuer(idp)), "lingua", DAY_S * 1000, published_keys=cache)
    text = token(claims(), kid="k")
    assert isinstance(reader.read(text, NOW_MS), Denied)
    await settle(cache)
    assert isinstance(reader.read(text, NOW_MS), Principal)


async def test_21_unknown_key_ids_cost_one_question_in_30_s(idp: Idp, cache: JwksCache, clock: Seconds) -> None:
    await cache.prefetch([issuer(idp)])
    for _ in range(2):
        clock.now_s += PAUSE_S - 0.1
        for number in range(100):
            assert cache.find(issuer(idp), f"../../{number}") is None
        clock.now_s += 0.1
        idp.asked.clear()
        for number in range(100):
            assert cache.find(issuer(idp), f"' OR {number}=1 --") is None
        await settle(cache)
        assert idp.asked == ["/jwks"]


async def test_a_question_under_way_is_not_asked_twice(idp: Idp, cache: JwksCache) -> None:
    idp.lets_go.clear()
    cache.find(issuer(idp), "k")
    prefetched = asyncio.create_task(cache.prefetch([issuer(idp)]))
    await until(lambda: idp.asked)
    cache.find(issuer(idp), "k")
    idp.lets_go.set()
    await prefetched
    await settle(cache)
    assert idp.asked == ["/jwks"]
    assert cache.find(issuer(idp), "k") is not None


async def test_keys_are_read_again_after_an_hour_and_count_meanwhile(
    idp: Idp, cache: JwksCache, clock: Seconds
) -> None:
    await cache.prefetch([issuer(idp)])
    clock.now_s += HOUR_S - 1
    assert cache.find(issuer(idp), "k") is not None
    await settle(cache)
    assert len(idp.asked) == 1
    idp.keys = [jwk(OTHER_ED25519, "next")]
    clock.now_s += 1
    assert cache.find(issuer(idp), "k") is not None
    await settle(cache)
    assert len(idp.asked) == 2
    assert cache.find(issuer(idp), "k") is None
    assert cache.find(issuer(idp), "next") is not None


async def test_31_the_same_key_id_of_another_issuer_is_another_key(idp: Idp, cache: JwksCache) -> None:
    async with idp_at() as other_idp:
        other_idp.keys = [jwk(OTHER_ED25519, "only")]
        other = issuer(other_idp, issuer_id="other", issuer="https://other.example", tenant="beta")
        await cache.prefetch([issuer(idp), other])
        assert cache.find(other, "k") is None
        assert cache.find(issuer(idp), "only") is None
        assert cache.find(issuer(idp), "k") is not None
        reader = TokenReader(Book(issuer(idp), other), "lingua", DAY_S * 1000, published_keys=cache)
        said = claims(iss="https://other.example", lingua={"tenant": "beta"})
        assert isinstance(reader.read(token(said, kid="k"), NOW_MS), Denied)
        assert isinstance(reader.read(token(said, OTHER_ED25519, kid="only"), NOW_MS), Principal)


MANY = json.dumps({"keys": [jwk(kid=str(number)) for number in range(33)]}).encode()
BAD = {
    "10 MB": b" " * 10_000_000 + b'{"keys":[]}',
    "10 000 keys": json.dumps({"keys": [{"kty": "OKP"}] * 10_000}).encode(),
    "33 keys": MANY,
    "a byte too many": json.dumps({"keys": [jwk(OTHER_ED25519, "next")]}).encode().ljust(65_537),
    "no JSON": b"<html>",
    "no keys": b"{}",
    "empty": b'{"keys":[]}',
    "a list": b"[]",
    "no UTF-8": b"\xff\xfe",
    "deep": b'{"keys":[{"a":' + b"[" * 5_000,
    "no key for signatures": json.dumps({"keys": [jwk(use="enc"), {"kty": "oct", "k": "AAAA", "use": "sig"}]}).encode(),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
async def test_32_an_answer_that_is_no_small_key_set_is_refused_and_the_known_keys_stay(
    body: bytes, idp: Idp, cache: JwksCache, clock: Seconds
) -> None:
    await cache.prefetch([issuer(idp)])
    idp.answer = body
    clock.now_s += HOUR_S
    await cache.prefetch([issuer(idp)])
    assert len(idp.asked) == 2
    assert cache.find(issuer(idp), "k") is not None
    assert cache.find(issuer(idp), "next") is None


async def test_32_keys_and_bytes_up_to_the_limit_are_read(idp: Idp, cache: JwksCache) -> None:
    idp.answer = json.dumps({"keys": [jwk(kid=str(number)) for number in range(32)]}).encode().ljust(65_536)
    await cache.prefetch([issuer(idp)])
    assert cache.find(issuer(idp), "31") is not None


async def test_32_a_redirect_is_not_followed(idp: Idp, cache: JwksCache) -> None:
    await cache.prefetch([issuer(idp, "/redirect")])
    assert cache.find(issuer(idp, "/redirect"), "k") is None
    assert idp.asked == ["/redirect"]


async def test_32_a_slow_drip_is_given_up(idp: Idp, cache: JwksCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_keys, "ANSWER_WITHIN_S", 0.5)
    await cache.prefetch([issuer(idp, "/drip")])
    assert idp.asked == ["/drip"]
    assert cache.find(issuer(idp, "/drip"), "k") is None


def test_32_the_longest_answer_ends_before_the_next_question() -> None:
    assert published_keys.ANSWER_WITHIN_S < published_keys.PAUSE_S == PAUSE_S


async def test_32_an_address_inside_is_not_called(idp: Idp, clock: Seconds) -> None:
    cache = JwksCache(KeySets(Destinations()).fetch, clock)
    await cache.prefetch([issuer(idp)])
    assert cache.find(issuer(idp), "k") is None
    assert idp.asked == []
    await cache.close()


@pytest.mark.parametrize("status", [500, 404, 302, 204])
async def test_33_while_the_issuer_is_away_known_keys_count_for_a_day_and_unknown_ones_do_not(
    status: int, idp: Idp, cache: JwksCache, clock: Seconds
) -> None:
    reader = TokenReader(Book(issuer(idp)), "lingua", DAY_S * 1000, published_keys=cache)
    await cache.prefetch([issuer(idp)])
    idp.status = status
    for late_s in (HOUR_S, DAY_S - HOUR_S - 1):
        clock.now_s += late_s
        assert isinstance(reader.read(token(kid="k"), NOW_MS), Principal)
        assert isinstance(reader.read(token(kid="unknown"), NOW_MS), Denied)
        await settle(cache)
    clock.now_s += 1
    assert isinstance(reader.read(token(kid="k"), NOW_MS), Denied)
    await settle(cache)
    idp.status = 200
    clock.now_s += PAUSE_S
    assert isinstance(reader.read(token(kid="k"), NOW_MS), Denied)
    await settle(cache)
    assert isinstance(reader.read(token(kid="k"), NOW_MS), Principal)


async def test_33_an_issuer_that_is_gone_altogether_changes_nothing(clock: Seconds, cache: JwksCache) -> None:
    async with idp_at() as idp:
        known = issuer(idp)
        await cache.prefetch([known])
    clock.now_s += HOUR_S
    await cache.prefetch([known])
    assert cache.find(known, "k") is not None


async def test_keys_of_another_address_do_not_count(idp: Idp, cache: JwksCache) -> None:
    """The keys file was changed: the same issuer publishes elsewhere."""
    await cache.prefetch([issuer(idp)])
    assert cache.find(issuer(idp, "/redirect"), "k") is None


async def test_issuers_that_are_gone_are_forgotten(idp: Idp, cache: JwksCache) -> None:
    await cache.prefetch([issuer(idp)])
    await cache.prefetch([])
    assert cache.find(issuer(idp), "k") is None


async def test_an_issuer_without_an_address_is_never_asked(cache: JwksCache) -> None:
    assert cache.find(Issuer(id="a", issuer="a"), "k") is None
    assert len(cache._nursery) == 0


@given(st.binary(max_size=200))
def test_no_answer_does_harm(body: bytes) -> None:
    with pytest.raises(JwksAway):
        read_jwks(body)


def test_keys_without_a_name_are_passed_over_and_of_two_with_one_name_the_first_counts() -> None:
    keys = [jwk(kid=""), jwk(kid=7), jwk(OTHER_ED25519), jwk(P256)]  # type: ignore[arg-type]
    found = read_jwks(json.dumps({"keys": keys}).encode())
    assert list(found) == ["k"]
    assert found["k"].key == OTHER_ED25519.public_key()
