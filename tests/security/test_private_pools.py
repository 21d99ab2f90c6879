"""Attacks F83 and F84: jobs of others at a private node, and those of a private-only tenant at a public one."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.domain.access.principals import Principal, PrincipalKind
from lingua_scheduler.domain.jobs.attempts import DispatchOutcome
from lingua_scheduler.domain.pools.names import tenant_of
from lingua_scheduler.domain.pools.pools import Languages
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.connected import Ear, connected_to, registered
from tests.support.fleet import RULES, entry, join, order, wide_codes
from tests.support.peers import FakeNode, answer, stay_silent
from tests.support.servers import RedisProcess
from tests.support.tenants import Tenants, tenants_at
from tests.support.text_nodes import able
from tests.support.waiting import until

PAIR = "en:zh:speech"
EN_ZH = ("en", "zh")
DISPATCHES = 10_000
TOGETHER = 250
SPEAKS = ("zh", "fr", "de")
# Too many for a pool each.
MANY_PAIRS = ["en-ja", *(f"a{src}-b{tgt}" for src in "abcdefghijklmnopq" for tgt in "abcdefghijklmnopq")]


@pytest.fixture
async def tenants(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Tenants]:
    async with tenants_at(server.url, tmp_path, dispatch__queue_wait_ms=300) as found:
        yield found


@pytest.fixture
async def strict(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Tenants]:
    """Jobs of acme go to its private nodes alone."""
    async with tenants_at(server.url, tmp_path, dispatch__queue_wait_ms=300, pools__private_only=["acme"]) as found:
        yield found


def of_acme(key_id: str = "k") -> Principal:
    return Principal(
        kind=PrincipalKind.NODE, scopes=frozenset(), tenant="acme", key_id=key_id, node_id="own", is_private=True
    )


def speaking(*codes: str) -> Languages:
    english = frozenset({"en"})
    return Languages(asr=english, semantic=english, tts=frozenset(codes))


async def memberships(store: Store, node_id: str) -> set[str]:
    keys = store.keys.shard(0)
    named = await store.line.call("HKEYS", keys.summary)
    inside = await asyncio.gather(*(store.line.call("SISMEMBER", keys.pool(pool), node_id) for pool in named))
    return {pool for pool, is_in in zip(named, inside, strict=True) if is_in}


async def test_83_no_public_job_finds_a_private_node_over_many_dispatches_and_language_changes(store: Store) -> None:
    connected = connected_to(store)
    peer = Ear()
    peer.principal = of_acme()
    link = await registered(connected, peer, node_id="own", max_concurrent_jobs=64)
    await join(store, entry("public", max_jobs=DISPATCHES))
    for number in range(DISPATCHES // TOGETHER):
        found = await asyncio.gather(
            *(store.jobs.dispatch(0, order(f"{number}-{one}", pools=(PAIR,)), RULES) for one in range(TOGETHER))
        )
        assert {placed.node_id for placed in found} == {"public"}
        # It says other languages, takes no jobs for a while, or comes back after Redis lost it.
        match number % 4:
            case 0:
                link.profile = link.profile._replace(declared=speaking(*SPEAKS[: 1 + number % len(SPEAKS)]))
                await connected.heartbeats.show_life(link)
            case 1:
                await store.nodes.drain("own")
            case 2:
                await store.nodes.drain("own", resume=True)
            case 3:
                await connected.reassertion.reassert()
        inside = await memberships(store, "own")
        assert {tenant_of(pool) for pool in inside} <= {"acme"}
    own = await store.jobs.dispatch(0, order("own", pools=("en:zh:speech@acme",)), RULES)
    assert (own.outcome, own.node_id) == (DispatchOutcome.DISPATCHED, "own")


@pytest.mark.parametrize("codes", [["en", "zh"], wide_codes()], ids=["narrow", "wide"])
async def test_83_a_private_node_gets_jobs_of_its_tenant_alone(tenants: Tenants, codes: list[str]) -> None:
    own = await tenants.node("own", "acme", is_private=True, languages=tuple(codes))
    assert {tenant_of(pool) for pool in await tenants.pools_of("own")} == {"acme"}
    beta, acme = await tenants.client("beta"), await tenants.client("acme")
    # No other tenant learns that a node serves the pair.
    assert beta.ack["unserved"] == "no node is connected; start one with: lingua node --languages en,zh"
    assert acme.ack.get("unserved") is None
    await beta.utterance(0)
    refused = await beta.outcome()
    assert (refused["type"], refused["code"]) == ("missing_result", "NO_CAPABLE_NODE")
    assert not own.jobs
    await acme.utterance(0)
    assert (await acme.outcome())["type"] == "translation_result"
    assert len(own.jobs) == 1


async def test_83_both_ways_and_text_stay_private(tenants: Tenants) -> None:
    own, public = await tenants.node("own", "acme", is_private=True), await tenants.node("public")
    both_ways = {"src_lang": "auto", "mode": "two_way_auto", "lang_a": "en", "lang_b": "zh"}
    acme, beta = await tenants.client("acme", **both_ways), await tenants.client("beta", **both_ways)
    for number, text_only in enumerate((False, True)):
        more: dict[str, Any] = {"pipeline": {"use_asr": True, "use_nmt": True, "use_tts": False}} if text_only else {}
        for client, served, other in ((acme, own, public), (beta, public, own)):
            before = len(other.jobs), len(served.jobs)
            await client.utterance(number, **both_ways | more)
            assert (await client.outcome())["type"] == "translation_result"
            assert (len(other.jobs), len(served.jobs)) == (before[0], before[1] + 1)


async def test_83_what_a_node_says_of_itself_makes_it_neither_private_nor_public(tenants: Tenants) -> None:
    own = await tenants.node("own", "acme", is_private=True, accept_public_jobs=True, is_private_node=False)
    public = await tenants.node("public", "acme", private=True, is_private_to="acme")
    assert {tenant_of(pool) for pool in await tenants.pools_of(own.node_id)} == {"acme"}
    assert {tenant_of(pool) for pool in await tenants.pools_of(public.node_id)} == {""}


async def test_83_a_client_cannot_name_a_private_pool(tenants: Tenants) -> None:
    own = await tenants.node("own", "acme", is_private=True)
    beta = await tenants.client("beta")
    for tgt in ("zh:speech@acme", "zh@acme", "zh:speech"):
        await beta.utterance(0, tgt_lang=tgt)
        assert (await beta.outcome())["type"] == "error"
    # Nor does a name of another tenant help, or that of its node.
    named = await tenants.client("beta", tenant_id="acme")
    await named.utterance(0)
    assert (await named.outcome())["code"] == "NO_CAPABLE_NODE"
    key = await tenants.operator("beta")
    _, listed = await tenants.ask("GET", "/v1/pools", key)
    assert (listed["pairs"], listed["private"]) == ({}, {})
    status, _ = await tenants.ask("GET", "/v1/nodes/own", key)
    assert status == 404
    assert not own.jobs


async def test_83_a_tenant_is_told_of_the_pools_that_serve_it(server: RedisProcess, tmp_path: Path) -> None:
    async with tenants_at(server.url, tmp_path, pools__private_only=["acme"]) as tenants:
        await tenants.node("own", "acme", is_private=True, languages=("en", "pt"))
        await tenants.node("public", languages=("en", "zh"))
        told = {}
        for tenant in ("acme", "beta"):
            key = await tenants.key(KeyKind.SERVICE, tenant=tenant)
            _, told[tenant] = await tenants.ask("GET", "/v1/pools", key)
            assert told[tenant]["tenant"] == tenant
            _, detail = await tenants.ask("GET", "/v1/pools/en/zh", key)
            assert detail["text"] == (0 if tenant == "acme" else 1)
        assert told["acme"]["pairs"] == {}
        assert "en:pt" in told["acme"]["private"]["acme"]["pairs"]
        assert "en:zh" in told["beta"]["pairs"]
        assert told["beta"]["private"] == {}
        # One of all tenants sees everything; what it says itself belongs to the default tenant.
        _, seen = await tenants.ask("GET", "/v1/pools")
        assert (seen["tenant"], "en:zh" in seen["pairs"], list(seen["private"])) == ("default", True, ["acme"])


async def test_83_a_preferred_node_of_another_tenant_is_like_one_that_is_nowhere(tenants: Tenants) -> None:
    await tenants.node("own", "acme", is_private=True)
    key = await tenants.key(KeyKind.SERVICE, tenant="beta")
    told = []
    for node_id in ("own", "nowhere"):
        asked = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA"}
        options = {"preferred_node_id": node_id, "strict": True}
        status, said = await tenants.ask("POST", "/v1/dispatch/f2f", key, json=asked | {"options": options})
        told.append((status, said["error"], said["detail"].replace(node_id, "it")))
    assert told[0] == told[1]
    assert told[0][1] == "PREFERRED_NODE_NOT_CAPABLE"


async def test_83_a_repair_leaves_private_nodes_where_they_are(tenants: Tenants) -> None:
    await tenants.node("narrow", "acme", is_private=True)
    await tenants.node("wide", "acme", is_private=True, languages=tuple(wide_codes()))
    await tenants.node("text", "acme", is_private=True, **able(nmt=["en-ja"]))
    await tenants.node("wide-text", "acme", is_private=True, **able(nmt=MANY_PAIRS))
    before = [await tenants.pools_of(name) for name in ("narrow", "wide", "text", "wide-text")]
    assert before[2] == {"text/en:ja:text@acme"}
    keys = tenants.store.keys.shard(0)
    await tenants.store.line.call("DEL", keys.summary, keys.wide)
    found, left = await Checkup(tenants.store).put_right(settle_s=0)
    assert (bool(found), left) == (True, [])
    assert [await tenants.pools_of(name) for name in ("narrow", "wide", "text", "wide-text")] == before
    assert all(tenant_of(pool) == "acme" for pools in before for pool in pools)


async def test_83_private_nodes_are_private_after_redis_lost_its_data(tenants: Tenants) -> None:
    own = await tenants.node("own", "acme", is_private=True)
    public = await tenants.node("public")
    await tenants.store.line.call("FLUSHALL")
    every = {f"{a}:{b}:{c}@acme" for a in EN_ZH for b in EN_ZH for c in ("speech", "text")}

    async def is_back() -> bool:
        return await tenants.pools_of("own") == every and len(await tenants.pools_of("public")) == len(every)

    await until(is_back)
    # The map may have been made while only one of them was back.
    await tenants.scheduler._pool_map.look_anew()
    for tenant in ("acme", "beta"):
        client = await tenants.client(tenant)
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"
    assert (len(own.jobs), len(public.jobs)) == (1, 1)


async def test_a_full_private_node_lets_jobs_go_to_public_ones(tenants: Tenants) -> None:
    own = await tenants.node("own", "acme", is_private=True, work=stay_silent, max_concurrent_jobs=1)
    public = await tenants.node("public")
    acme, second = await tenants.client("acme"), await tenants.client("acme")
    await acme.utterance(0)
    await until(lambda: len(own.jobs) == 1)
    await second.utterance(0)
    assert (await second.outcome())["type"] == "translation_result"
    assert (len(own.jobs), len(public.jobs)) == (1, 1)


async def test_84_a_public_node_never_gets_a_job_of_a_tenant_with_private_nodes_only(strict: Tenants) -> None:
    public = await strict.node("public")
    acme, beta = await strict.client("acme"), await strict.client("beta")
    assert "no node is connected" in acme.ack["unserved"]
    await acme.utterance(0)
    assert (await acme.outcome())["code"] == "NO_CAPABLE_NODE"
    own = await strict.node("own", "acme", is_private=True, work=stay_silent, max_concurrent_jobs=1)
    await acme.utterance(1)
    await until(lambda: len(own.jobs) == 1)
    # Full: it waits, and fails.
    second = await strict.client("acme")
    await second.utterance(0)
    assert (await second.outcome())["code"] == "ALL_CANDIDATES_FULL_OR_FAILED"
    await beta.utterance(0)
    assert (await beta.outcome())["type"] == "translation_result"
    assert len(public.jobs) == 1


async def test_84_a_quarantined_private_node_is_better_than_a_public_one(strict: Tenants) -> None:
    own, public = await strict.node("own", "acme", is_private=True), await strict.node("public")
    await strict.store.line.call("ZADD", strict.store.keys.shard(0).sick, 9e15, "own")
    acme = await strict.client("acme")
    for number in range(5):
        await acme.utterance(number)
        assert (await acme.outcome())["type"] == "translation_result"
    assert (len(own.jobs), len(public.jobs)) == (5, 0)


async def test_a_quarantined_private_node_is_worse_than_a_public_one_where_those_will_do(tenants: Tenants) -> None:
    own, public = await tenants.node("own", "acme", is_private=True), await tenants.node("public")
    await tenants.store.line.call("ZADD", tenants.store.keys.shard(0).sick, 9e15, "own")
    acme = await tenants.client("acme")
    for number in range(3):
        await acme.utterance(number)
        assert (await acme.outcome())["type"] == "translation_result"
    assert (len(own.jobs), len(public.jobs)) == (0, 3)
    await public.stop()
    await acme.utterance(3)
    assert (await acme.outcome())["type"] == "translation_result"
    assert len(own.jobs) == 1


def has_begun(gates: list[asyncio.Event], count: int) -> bool:
    return len(gates) >= count


async def test_a_slot_that_is_freed_wakes_the_job_that_waits_for_it(server: RedisProcess, tmp_path: Path) -> None:
    gates: list[asyncio.Event] = []

    async def wait(node: FakeNode, job: dict[str, Any]) -> None:
        gate = asyncio.Event()
        gates.append(gate)
        await gate.wait()
        await answer(node, job)

    async with tenants_at(server.url, tmp_path, dispatch__queue_wait_ms=60_000) as tenants:
        for node_id, is_private in (("own", True), ("public", False)):
            tenant = "acme" if is_private else "default"
            await tenants.node(node_id, tenant, is_private=is_private, work=wait, max_concurrent_jobs=1)
        clients = [await tenants.client("acme") for _ in range(4)]
        for number, client in enumerate(clients):
            await client.utterance(0)
            await until(partial(has_begun, gates, min(number + 1, 2)))
        for number in range(4):
            await until(partial(has_begun, gates, number + 1))
            gates[number].set()
        assert [(await client.outcome())["type"] for client in clients] == ["translation_result"] * 4


async def test_others_see_nothing_of_private_nodes(tenants: Tenants) -> None:
    await tenants.node("own", "acme", is_private=True, languages=("ko", "pt"))
    await tenants.node("public", languages=("en", "zh"))
    own, other = await tenants.operator("acme"), await tenants.operator("beta")
    _, theirs = await tenants.ask("GET", "/v1/pools", other)
    assert (set(theirs["pairs"]), theirs["private"]) == ({"en:en", "en:zh", "zh:en", "zh:zh"}, {})
    _, ours = await tenants.ask("GET", "/v1/pools", own)
    assert set(ours["private"]) == {"acme"}
    assert "ko:pt" in ours["private"]["acme"]["pairs"]
    _, detail = await tenants.ask("GET", "/v1/pools/ko/pt", other)
    assert (detail["nodes"], detail["speech"], detail["text"]) == ([], 0, 0)
    assert detail["missing"]["speech"].startswith("no node understands Korean")
    _, detail = await tenants.ask("GET", "/v1/pools/ko/pt", own)
    assert [node["private_to"] for node in detail["nodes"]] == ["acme"]
    await tenants.scheduler.snapshots.build()
    _, picture = await tenants.ask("GET", "/v1/picture", other)
    assert "own" not in str(picture)
    assert "ko" not in {pair["src"] for pair in picture["pairs"]}
    assert picture["now"]["slots_total"] < 100
    _, all_pools = await tenants.ask("GET", "/v1/pools")
    assert set(all_pools["private"]) == {"acme"}
    beta = await tenants.client("beta", src_lang="ko", tgt_lang="pt")
    assert "no node understands Korean" in beta.ack["unserved"]
