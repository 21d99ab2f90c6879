"""Language tags as the world writes them, and the pairs of nodes in every form: through real sockets."""

import base64
import io
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.protocol.uploads import wav_of
from tests.support.peers import Field, Frame, heartbeat, registration
from tests.support.sounds import sample_pcm16
from tests.support.speech import PACKET
from tests.support.waiting import until


def able(*languages: str, **more: Any) -> Frame:
    lists = {f"{kind}_languages": list(languages) for kind in ("asr", "semantic", "tts")}
    return {"language_capabilities": lists | more}


@pytest.mark.parametrize(
    ("src", "tgt"), [("en-US", "pt-BR"), ("EN", "PT"), ("en_us", "pt"), ("en", "pt_BR"), ("En-Latn-US", "pt")]
)
async def test_a_session_is_served_by_nodes_of_the_plain_language(peers: Field, src: str, tgt: str) -> None:
    node = await peers.node(**able("en", "pt"))
    client = await peers.client(src_lang=src, tgt_lang=tgt)
    await client.utterance(0, src_lang=src, tgt_lang=tgt)
    assert (await client.outcome())["type"] == "translation_result"
    assert (node.jobs[0]["src_lang"], node.jobs[0]["tgt_lang"]) == ("en", "pt")
    assert client.ack["languages_used"] == {"src_lang": "en", "tgt_lang": "pt"}


async def test_an_exact_tag_wins(peers: Field) -> None:
    plain, exact = await peers.node(**able("en", "pt")), await peers.node(**able("en-US", "pt-BR"))

    async def is_known() -> bool:
        client = await peers.client(src_lang="en-US", tgt_lang="pt-BR")
        await client.socket.close()
        return bool(client.ack.get("languages_used") == {"src_lang": "en-US", "tgt_lang": "pt-BR"})

    # While the scheduler has not read the pools again, it knows the plain language alone, and uses it.
    await until(is_known)
    for index in range(4):
        client = await peers.client(src_lang="en-US", tgt_lang="pt-BR")
        await client.utterance(index, src_lang="en-US", tgt_lang="pt-BR")
        assert (await client.outcome())["type"] == "translation_result"
    assert (len(plain.jobs), len(exact.jobs)) == (0, 4)
    assert exact.jobs[0]["src_lang"] == "en-US"


async def test_both_ways_of_a_conversation_are_matched(peers: Field) -> None:
    node = await peers.node(**able("zh", "en"))
    asked = {"src_lang": "auto", "tgt_lang": "en-US", "mode": "two_way_auto", "lang_a": "zh-CN", "lang_b": "en-US"}
    client = await peers.client(**asked, auto_langs=["zh-CN", "en-US"])
    await client.chunk(PACKET * 20, is_final=True)
    assert (await client.outcome())["type"] == "translation_result"
    (job,) = node.jobs
    assert (job["src_lang"], job["tgt_lang"], job["lang_a"], job["lang_b"]) == ("auto", "en", "zh", "en")
    assert job["auto_langs"] == client.ack["languages_used"]["auto_langs"] == ["zh", "en"]


async def test_a_session_that_began_before_its_node_came_is_served(peers: Field) -> None:
    client = await peers.client(src_lang="en-US", tgt_lang="pt-BR")
    assert "languages_used" not in client.ack
    await peers.node(**able("EN", "pt"))
    await client.utterance(0, src_lang="en-US", tgt_lang="pt-BR")
    assert (await client.outcome())["type"] == "translation_result"


async def test_a_pair_that_is_served_under_another_tag_is_not_missed(peers: Field) -> None:
    await peers.node(**able("en", "pt"))
    await peers.client(src_lang="en-US", tgt_lang="pt-BR")
    await peers.client(src_lang="en", tgt_lang="ko")

    async def alarms() -> str:
        _, picture = await peers.get("/v1/picture")
        return str(picture["alarms"])

    # What nobody serves is missed, in the same picture.
    told = await until(lambda: _with("ko", alarms), 30)
    assert "en-US" not in told


async def test_a_pair_that_was_asked_for_before_its_node_came_is_not_missed_afterwards(peers: Field) -> None:
    async def lost() -> set[str]:
        _, picture = await peers.get("/v1/picture")
        return {alarm["subject"] for alarm in picture["alarms"] if alarm["code"] in ("pair.lost", "pair.unserved")}

    async def are_lost(*pairs: str) -> bool:
        return await lost() == set(pairs)

    await peers.node(node_id="other", **able("en", "fr"))
    client = await peers.client(src_lang="en-US", tgt_lang="pt-BR")
    await client.utterance(0, src_lang="en-US", tgt_lang="pt-BR")
    assert (await client.outcome(30))["type"] == "missing_result"
    await client.socket.close()
    # It was asked for, which is remembered without the session.
    await until(lambda: are_lost("en-US:pt-BR"), 30)
    await peers.node(node_id="served", **able("en", "pt"))
    await until(are_lost, 30)


async def _with(word: str, alarms: Callable[[], Awaitable[str]]) -> str:
    told = await alarms()
    return told if word in told else ""


async def test_what_is_no_tag_is_refused_in_words(peers: Field) -> None:
    client = await peers.client(src_lang="English", tgt_lang="pt")
    assert (client.ack["type"], client.ack["code"]) == ("error", "INVALID_MESSAGE")


async def test_over_http_the_answer_says_which_languages_are_used(peers: Field) -> None:
    node = await peers.node(**able("en", "pt"))
    speech = {"audio": base64.b64encode(bytes(640)).decode(), "session_id": "caller"}
    status, placed = await peers.post("/v1/dispatch/f2f", speech | {"src_lang": "en_GB", "tgt_lang": "PT-br"})
    assert (status, placed["languages_used"]) == (200, {"src_lang": "en", "tgt_lang": "pt"})
    assert node.jobs[0]["src_lang"] == "en"


# The pairs of nodes


@pytest.mark.parametrize("pairs", [["en:de"], ["en-de"], [["en", "de"]], {"en": ["de"]}, [{"src": "en", "tgt": "de"}]])
async def test_a_node_serves_the_pairs_it_declares_and_no_others(peers: Field, pairs: object) -> None:
    node = await peers.node(**able("en", "de", nmt_capabilities=pairs))
    _, about = await peers.get(f"/v1/nodes/{node.node_id}")
    assert {pair for pair in about["pairs"] if len(set(pair.split(":"))) == 2} == {"en:de"}
    assert node.socket.of_type("error") == []


async def test_pairs_of_which_none_can_be_read_are_refused_and_the_node_hears_why(peers: Field) -> None:
    socket = await peers.socket("/ws/node")
    await socket.send(registration(**able("en", "de", nmt_capabilities=["English to German"])))
    error = await socket.next("error")
    assert error["code"] == "INVALID_CAPABILITY_SCHEMA"
    assert error["message"].startswith('nmt_capabilities[0] is not a language pair; write "en:de"')
    assert await socket.closed() == 1013


async def test_an_unreadable_pair_among_others_is_left_out_and_told_once(peers: Field) -> None:
    lists = able("en", "de", nmt_capabilities=["en:de", "de to en"])
    node = await peers.node(**lists)
    for _ in range(2):
        await node.socket.send(heartbeat(node.node_id, **lists))
    # A heartbeat without a readable pair changes nothing, and is answered behind the others.
    await node.socket.send(heartbeat(node.node_id, **able("en", "de", nmt_capabilities=[7])))
    while "[0]" not in (error := await node.socket.next("error"))["message"]:
        assert error["message"].startswith("nmt_capabilities[1] is not a language pair")
    assert len(node.socket.of_type("error")) == 2
    _, about = await peers.get(f"/v1/nodes/{node.node_id}")
    assert "en:de" in about["pairs"]
    assert "de:en" not in about["pairs"]


async def test_over_http_every_form_is_read_and_a_slip_is_refused(peers: Field) -> None:
    lists = {"semantic_langs": ["en", "de"], "tts_langs": ["de"], "health": "ok"}
    for number, pairs in enumerate(([["en", "de"]], {"en": ["de"]}, [{"en": ["de"]}])):
        status, _ = await peers.post("/v1/node/register", lists | {"node_id": f"http-{number}", "nmt_pairs": pairs})
        assert status == 200
    status, refusal = await peers.post("/v1/node/register", lists | {"node_id": "h", "nmt_pairs": ["en:de", "de"]})
    assert (status, refusal["error"]) == (400, "INVALID_MESSAGE")
    assert 'nmt_pairs[1]": expected "en:de"' in refusal["detail"]


async def translate(peers: Field, pair: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{peers.port}/v1/translate?{pair}"
        async with http.post(url, data=io.BytesIO(wav_of(sample_pcm16()))) as response:
            return response.status, await response.json()


@pytest.mark.parametrize(("src", "tgt"), [("en-US", "pt-BR"), ("EN", "PT"), ("en_us", "pt_BR")])
async def test_a_sound_file_is_translated_under_every_spelling(peers: Field, src: str, tgt: str) -> None:
    node = await peers.node(**able("en", "pt"))
    status, body = await translate(peers, f"src={src}&tgt={tgt}")
    assert status == 200, body
    assert (body["src_lang"], body["tgt_lang"]) == (src, tgt)
    assert body["languages_used"] == {"src_lang": "en", "tgt_lang": "pt"}
    assert (node.jobs[0]["src_lang"], node.jobs[0]["tgt_lang"]) == ("en", "pt")


@pytest.mark.parametrize(
    ("pair", "detail"),
    [
        ("src=English&tgt=pt", "invalid src: expected a language tag such as en or pt-BR"),
        ("src=en&tgt=auto", "invalid tgt: expected a language tag such as en or pt-BR"),
        ("src=auto&tgt=pt", "src=auto is for sessions only; name the language that is spoken"),
    ],
)
async def test_a_sound_file_with_no_tag_is_refused_by_the_parameter(peers: Field, pair: str, detail: str) -> None:
    status, body = await translate(peers, pair)
    assert (status, body) == (400, {"error": "INVALID_MESSAGE", "detail": detail})
