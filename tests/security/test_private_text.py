"""Attacks F83 and F84 on jobs that bring text: what was said must not reach nodes of others as text either."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.domain.pools.names import tenant_of
from lingua_scheduler.domain.sessions.pseudonyms import Pseudonyms
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.work import Binding, Outcome
from lingua_scheduler.services.dispatch.staged import Listeners
from tests.support.peers import FakeClient, FakeNode
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET, work
from tests.support.tenants import Tenants, tenants_at
from tests.support.text_nodes import able, do
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

EN_JA = {"src_lang": "en", "tgt_lang": "ja"}
ZH_JA = {"src_lang": "zh", "tgt_lang": "ja"}
# Too many for a pool each.
MANY = ["en-ja", *(f"a{src}-b{tgt}" for src in "abcdefghijklmnopq" for tgt in "abcdefghijklmnopq")]
# Nodes by which Chinese gets into Japanese in three jobs, by way of English.
CHAIN = {"listens": able(asr=["zh"], nmt=["zh-en"]), "writes": able(nmt=["en-ja"]), "speaks": able(tts=["ja"])}


async def said(client: FakeClient, index: int, terms: dict[str, Any]) -> str:
    """What an utterance became, or why nothing."""
    await client.utterance(index, **terms)
    outcome = await client.outcome(within_s=60)
    return str(outcome.get("text_translated") or outcome["code"])


async def chain_of(tenants: Tenants, tenant: str, *, is_private: bool) -> list[FakeNode]:
    return [
        await tenants.node(f"{tenant}-{name}", tenant, is_private=is_private, work=do, **abilities)
        for name, abilities in CHAIN.items()
    ]


def jobs(nodes: Sequence[FakeNode]) -> list[int]:
    return [len(node.jobs) for node in nodes]


@pytest.mark.parametrize("pairs", [["en-ja"], MANY], ids=["narrow", "wide"])
async def test_83_a_private_node_that_takes_text_gets_that_of_its_tenant_alone(
    server: RedisProcess, tmp_path: Path, pairs: list[str]
) -> None:
    async with tenants_at(server.url, tmp_path, dispatch__queue_wait_ms=300) as tenants:
        listens = await tenants.node("listens", work=do, **able(asr=["en"]))
        own = await tenants.node("own", "acme", is_private=True, work=do, **able(nmt=pairs, tts=["ja"]))
        assert {tenant_of(pool) for pool in await tenants.pools_of("own")} == {"acme"}
        acme, beta = await tenants.client("acme", **EN_JA), await tenants.client("beta", **EN_JA)
        assert "unserved" not in acme.ack
        # No other tenant learns that a node takes text.
        assert "no node" in beta.ack["unserved"]
        assert await said(beta, 0, EN_JA) == "NO_CAPABLE_NODE"
        assert jobs([listens, own]) == [0, 0]
        assert await said(acme, 0, EN_JA) == "ja[en(words)]"
        assert jobs([listens, own]) == [1, 1]
        public = await tenants.node("public", work=do, **able(nmt=["en-ja"], tts=["ja"]))
        for index in range(1, 4):
            assert await said(beta, index, EN_JA) == await said(acme, index, EN_JA) == "ja[en(words)]"
        assert jobs([own, public]) == [4, 3]


async def test_84_text_of_a_tenant_with_private_nodes_only_never_reaches_a_public_one(
    server: RedisProcess, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"pools__private_only": ["acme"], "pools__pivot_langs": ("en",)}
    async with tenants_at(server.url, tmp_path, dispatch__queue_wait_ms=300, **changes) as tenants:
        public = await chain_of(tenants, "default", is_private=False)
        acme, beta = await tenants.client("acme", **ZH_JA), await tenants.client("beta", **ZH_JA)
        assert "unserved" not in beta.ack
        assert "unserved" in acme.ack
        assert await said(acme, 0, ZH_JA) == "NO_CAPABLE_NODE"
        own = await chain_of(tenants, "acme", is_private=True)
        for index in range(1, 4):
            assert await said(acme, index, ZH_JA) == "ja[en[zh(words)]]"
        assert (jobs(own), jobs(public)) == ([3, 3, 3], [0, 0, 0])
        assert await said(beta, 0, ZH_JA) == "ja[en[zh(words)]]"
        assert (jobs(own), jobs(public)) == ([3, 3, 3], [1, 1, 1])
        # Without one of its own nodes the pair is not served, though public ones would do.
        await own[1].stop()
        await until(lambda: tenants.scheduler._connected.links.find("acme-writes") is None)
        assert await said(acme, 4, ZH_JA) == "NO_CAPABLE_NODE"
        assert jobs(public) == [1, 1, 1]


async def test_64_a_paired_session_has_all_its_jobs_at_one_node(server: RedisProcess, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"pools__pivot_langs": ("en",), "server__unmetered_addresses": []}
    async with tenants_at(server.url, tmp_path, dispatch__queue_wait_ms=300, **changes) as tenants:
        all_of_it = able(asr=["zh"], nmt=["zh-en", "en-ja"], tts=["ja"])
        own, spare = [
            await tenants.node(name, "acme", is_private=True, work=do, **all_of_it) for name in ("own", "spare")
        ]
        public = await tenants.node("public", work=do, **all_of_it)
        _, answer = await tenants.ask("POST", "/v1/nodes/own/pair")
        beta = await tenants.client("beta", pairing_code=answer["code"], **ZH_JA)
        for index in range(5):
            assert await said(beta, index, ZH_JA) == "ja[en[zh(words)]]"
        assert jobs([own, spare, public]) == [10, 0, 0]


@pytest.mark.parametrize("tenant", ["acme", "beta"])
async def test_an_utterance_for_several_languages_is_recognised_where_its_tenant_may(
    server: RedisProcess, tmp_path: Path, tenant: str
) -> None:
    """As in a room: one recognition, then a job from text for each language."""
    async with tenants_at(server.url, tmp_path, pools__private_only=["acme"]) as tenants:
        own, public = [
            [
                await tenants.node(f"{owner}-listens", owner, is_private=is_private, work=do, **able(asr=["en"])),
                await tenants.node(
                    f"{owner}-writes", owner, is_private=is_private, work=do, **able(nmt=["en-ja", "en-pt"])
                ),
            ]
            for owner, is_private in (("acme", True), ("default", False))
        ]
        await tenants.scheduler._pool_map.look_anew()
        outcomes: dict[str, Outcome] = {}
        listeners = Listeners(
            on_recognised=lambda _text, _language: None,
            on_outcome=outcomes.__setitem__,
            binding_of=lambda _language: Binding(),
        )
        spoken = work(
            terms=Terms("en", ""),
            names=Pseudonyms(b"key", "s-00000001"),
            audio=PACKET,
            tenant_id=tenant,
            belongs_to="someone",
        )
        tenants.scheduler._staged.start(spoken, {"ja": False, "pt": False}, listeners)
        await until(lambda: len(outcomes) == 2, 60.0)
        told = {language: outcome.result and outcome.result.text_translated for language, outcome in outcomes.items()}
        assert told == {"ja": "ja[en(words)]", "pt": "pt[en(words)]"}
        assert (jobs(own), jobs(public)) == (([1, 2], [0, 0]) if tenant == "acme" else ([0, 0], [1, 2]))
