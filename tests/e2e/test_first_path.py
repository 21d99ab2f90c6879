"""The first path, end to end, as existing peers walk it."""

import base64

from tests.support.peers import Field, answer, result_of
from tests.support.speech import PACKET
from tests.support.waiting import until

# 200 ms of framed Opus: ten packets of 20 ms.
OPUS = PACKET * 10
PCM16 = bytes(range(1, 251)) * 26


async def test_speech_in_chunks_comes_back_translated(peers: Field) -> None:
    node = await peers.node()
    client = await peers.client()
    await client.chunk(OPUS)
    await client.chunk(OPUS)
    await client.chunk(is_final=True)
    result = await client.outcome()
    assert result["type"] == "translation_result"
    assert result["session_id"] == client.session_id
    assert result["utterance_index"] == 0
    assert result["text_translated"] == f"said {client.known_as(node.node_id)} 0"
    job = node.jobs[0]
    assert base64.b64decode(job["audio"]) == OPUS * 2
    assert job["audio_format"] == "opus"


async def test_a_whole_utterance_comes_back_translated(peers: Field) -> None:
    node = await peers.node()
    client = await peers.client()
    await client.utterance(0, PCM16)
    result = await client.outcome()
    assert result["text_asr"] == f"heard {client.known_as(node.node_id)} 0"
    assert base64.b64decode(node.jobs[0]["audio"]) == PCM16
    assert node.jobs[0]["audio_format"] == "pcm16"


async def test_the_acknowledgement_of_a_session_is_what_clients_expect(peers: Field) -> None:
    await peers.node()
    client = await peers.client(trace_id="9176")
    ack = client.ack
    assert ack.pop("session_id").startswith("s-")
    assert len(client.session_id) == 18
    assert client.session_id[2:].isupper() or client.session_id[2:].isdigit()
    assert ack.pop("resume_token")
    assert ack == {
        "type": "session_init_ack",
        "message": "session created",
        "trace_id": "9176",
        "protocol_version": "1.0",
        "use_binary_frame": False,
        "negotiated_codec": "opus",
        "negotiated_audio_format": "opus",
        "negotiated_sample_rate": 16000,
        "negotiated_channel_count": 1,
        "languages_used": {"src_lang": "en", "tgt_lang": "zh"},
    }


async def test_a_job_carries_every_field_existing_nodes_rely_on_and_none_they_trip_over(peers: Field) -> None:
    node = await peers.node()
    client = await peers.client(
        src_lang="auto", tgt_lang="en", mode="two_way_auto", lang_a="zh", lang_b="en", auto_langs=["zh", "en"]
    )
    await client.chunk(OPUS, is_final=True)
    await client.outcome()
    job = node.jobs[0]
    assert job["job_id"].startswith("job-0-")
    assert job["trace_id"]
    assert job["turn_id"]
    del job["job_id"], job["trace_id"], job["turn_id"], job["audio"]
    assert job == {
        "type": "job_assign",
        "attempt_id": 1,
        "session_id": client.known_as(node.node_id),
        "utterance_index": 0,
        "src_lang": "auto",
        "tgt_lang": "en",
        "pipeline": {"use_asr": True, "use_nmt": True, "use_tts": True, "use_semantic": False, "use_tone": False},
        "audio_format": "opus",
        "sample_rate": 16000,
        "enable_streaming_asr": True,
        "partial_update_interval_ms": 1000,
        "features": {},
        "mode": "two_way_auto",
        "lang_a": "zh",
        "lang_b": "en",
        "auto_langs": ["zh", "en"],
        "padding_ms": 280,
        "is_manual_cut": True,
    }


async def test_a_node_that_announces_more_gets_more(peers: Field) -> None:
    node = await peers.node(advanced_features=["lid", "semantic", "turns"])
    client = await peers.client(
        src_lang="auto", tgt_lang="en", mode="two_way_auto", lang_a="zh", lang_b="en", auto_langs=["zh", "en"]
    )
    await client.chunk(OPUS, is_final=True)
    await client.outcome()
    job = node.jobs[0]
    assert job["lid"] == {"candidates": ["zh", "en"]}
    assert job["pipeline"]["use_semantic"] is True
    assert job["turn_id"] == f"turn-{client.known_as(node.node_id)}-0"


async def test_the_api_gateway_may_close_and_speak_on_another_socket(peers: Field) -> None:
    await peers.node()
    first = await peers.client()
    await first.socket.close()
    second = await peers.socket("/ws/session")
    first.socket = second
    await first.utterance(0)
    assert (await first.outcome())["type"] == "translation_result"


async def test_results_leave_in_the_order_of_their_utterances(peers: Field) -> None:
    held = []

    async def second_first(node, job):  # type: ignore[no-untyped-def]
        held.append(job)
        if len(held) == 2:
            await answer(node, held[1])
            await answer(node, held[0])

    await peers.node(second_first)
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: held)
    await client.utterance(1)
    assert [(await client.outcome())["utterance_index"] for _ in range(2)] == [0, 1]


async def test_silence_is_said_so(peers: Field) -> None:
    async def hears_nothing(node, job):  # type: ignore[no-untyped-def]
        await node.socket.send(result_of(job, node.node_id, text_asr="", extra={"reason": "ASR_EMPTY"}))

    await peers.node(hears_nothing)
    client = await peers.client()
    await client.utterance(0)
    outcome = await client.outcome()
    assert (outcome["type"], outcome["reason"]) == ("missing_result", "no_text")


async def test_a_pair_nobody_serves_is_refused_in_words(peers: Field) -> None:
    await peers.node()
    client = await peers.client(tgt_lang="fr")
    await client.chunk(OPUS, is_final=True)
    event = await client.failure()
    told = "no node translates English into French or speaks French; start one with: lingua node --languages en,fr"
    assert (event["error_code"], event["hint"]) == ("NO_CAPABLE_NODE", told)
    assert (await client.outcome())["reason"] == "job_failed"


async def test_a_heartbeat_is_answered(peers: Field) -> None:
    client = await peers.client()
    await client.socket.send({"type": "client_heartbeat", "session_id": client.session_id, "timestamp": 1})
    assert (await client.socket.next("server_heartbeat"))["session_id"] == client.session_id


async def test_closing_a_session_still_translates_what_was_said(peers: Field) -> None:
    await peers.node()
    client = await peers.client()
    await client.chunk(OPUS)
    await client.socket.send({"type": "session_close", "session_id": client.session_id, "reason": "bye"})
    assert (await client.outcome())["type"] == "translation_result"
    assert (await client.socket.next("session_close_ack"))["session_id"] == client.session_id
    await client.chunk(OPUS)
    assert (await client.socket.next("error"))["code"] == "INVALID_SESSION"
