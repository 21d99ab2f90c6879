"""A world in which everybody says the same recognisable thing, in every place where anything can be said."""

import asyncio
import base64
import json
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from tests.support.http_nodes import http_node
from tests.support.instances import Instance
from tests.support.peers import FakeClient, FakeNode, Field, Frame, result_of
from tests.support.waiting import until

TEXT = 'zebrafinch "sings" 斑胸草雀'
AUDIO = b"ZEBRA-AUDIO-" * 100
# What of it would give it away.
_SAID = ("zebrafinch", "斑胸草雀")
_PLAYED = b"ZEBRA-AUDIO"
REQUEST_ID = "request-of-the-caller"
CODES = ("PROCESSING_ERROR", "NMT_TIMEOUT", TEXT, "zebrafinch", "ZEBRAFINCH", "", "MODEL_NOT_AVAILABLE")


def needles() -> set[str]:
    """As it is, escaped, in hexadecimal, and in base64 wherever in a stream it may begin; in lower case."""
    found = set()
    for said in (*(text.encode() for text in _SAID), _PLAYED):
        found |= {said.decode(), json.dumps(said.decode())[1:-1], said.hex(), repr(said)[2:-1]}
        for ahead in range(3):
            # Whole groups of three bytes, which do not depend on what comes before or after.
            cut = said[-ahead % 3 :]
            found.add(base64.b64encode(cut[: len(cut) // 3 * 3]).decode())
    return {needle.lower() for needle in found}


def told_in(texts: Iterable[str]) -> list[str]:
    """The texts that give it away."""
    return [text for text in texts if any(needle in text.lower() for needle in needles())]


async def speak_well(node: FakeNode, job: Frame) -> None:
    """Partials, a result with everything in it, and the same result again."""
    about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
    for is_final in (False, True):
        partial = {"type": "asr_partial", "node_id": node.node_id, "text": TEXT, "is_final": is_final}
        await node.socket.send(about | partial)
    extra = {"emotion": TEXT, "reason": TEXT, "service_timings": {"asr_ms": TEXT, "nmt_ms": 1e308, "tts_ms": -5}}
    said = {"text_asr": TEXT, "text_translated": TEXT, "tts_audio": base64.b64encode(AUDIO).decode(), "extra": extra}
    for _ in range(2):
        await node.socket.send(result_of(job, node.node_id, **said))


class Grumbler:
    """A node that fails every job, each time in another way."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self, node: FakeNode, job: Frame) -> None:
        code = CODES[self.times % len(CODES)]
        self.times += 1
        details = {"service_id": TEXT, "service_version": TEXT, "reason": TEXT}
        error = {"code": code, "message": f"cannot say {TEXT}", "details": details}
        await node.socket.send(result_of(job, node.node_id, success=False, text_asr=TEXT, error=error))


async def talk(client: FakeClient, count: int) -> list[Frame]:
    outcomes = []
    for index in range(count):
        await client.utterance(index, AUDIO, request_id=f"r{index}")
        outcomes.append(await client.outcome(30))
    return outcomes


async def speak_rubbish(field: Field) -> None:
    """Frames that cannot be used, at both doors, and over HTTP."""
    rubbish: list[Any] = [
        {"type": TEXT},
        {"type": "utterance", "session_id": TEXT, "utterance_index": TEXT},
        {"type": "audio_chunk", "session_id": TEXT, "seq": 1, "is_final": False, "payload": TEXT},
        {"type": "session_init", "src_lang": TEXT, "tgt_lang": TEXT, "client_version": TEXT},
        # What a node says of itself is kept, of course; but not as its name.
        {"type": "node_register", "node_id": TEXT, "language_capabilities": {"asr_languages": [TEXT]}},
        {"type": "job_result", "job_id": TEXT, "text_asr": TEXT},
        {"type": "node_error", "node_id": TEXT, "code": TEXT, "message": TEXT},
        [TEXT],
        TEXT,
    ]
    for path in ("/ws/session", "/ws/node"):
        socket = await field.socket(path)
        await socket.socket.send_str("{" + TEXT)
        await socket.next("error")
        # A socket that speaks for no session is closed after an utterance that cannot be read, and what it has sent
        # since may destroy the answers on their way.
        with suppress(ConnectionError):
            for frame in rubbish:
                await socket.socket.send_str(json.dumps(frame))
            await socket.socket.send_bytes(AUDIO)
            await socket.next("error")
    for path in ("/v1/dispatch/f2f", "/v1/job/done", "/v1/job/fail", "/v1/node/register"):
        for body in rubbish:
            await field.post(path, body)
        await field.ask("POST", path, data="{" + TEXT, headers={"Content-Type": "application/json"})


async def complain(node: FakeNode) -> None:
    """About itself, and about jobs that nobody knows."""
    for code in CODES:
        about = {"code": code, "message": TEXT, "details": {"service_id": TEXT, "text": TEXT}}
        await node.socket.send({"type": "node_error", "node_id": node.node_id} | about)
    ghost = {"job_id": "job-0-x", "attempt_id": 1, "session_id": TEXT, "utterance_index": 0, "trace_id": TEXT}
    await node.socket.send(result_of(ghost, node.node_id, text_asr=TEXT))
    for kind in ("job_ack", "job_started"):
        await node.socket.send({"type": kind, "node_id": node.node_id, "timestamp": 1, **ghost})


async def over_http(field: Field) -> None:
    """Jobs by an HTTP caller on a node that is driven over HTTP: done, failed, and lost."""
    node = await http_node(field, node_id="caller", semantic_langs=["sw", "de"], tts_langs=["sw", "de"])
    asked = {"session_id": "caller", "src_lang": "sw", "tgt_lang": "de", "audio": base64.b64encode(AUDIO).decode()}
    said = {"text_asr": TEXT, "text_translated": TEXT, "tts_audio": base64.b64encode(AUDIO).decode()}
    failed, lost = ({"error": {"code": code, "message": TEXT, "details": TEXT}} for code in (TEXT, "PROCESSING_ERROR"))
    for verb, report in (("done", said), ("fail", failed), ("fail", lost)):
        named = {"X-Request-Id": REQUEST_ID}
        status, placed = await field.ask("POST", "/v1/dispatch/f2f", json=asked, headers=named)
        assert status == 200, placed
        job = await node.fetch()
        await node.report("ack", job)
        await node.report(verb, job, **report)
        await field.get(f"/v1/jobs/{placed['job_id']}/result?wait_ms=5000")


async def gossip(here: Field, there: Field, instances: list[Instance]) -> None:
    """Clients and a failing node at one instance, good nodes at both, and liars everywhere."""
    good = await there.node(speak_well, node_id="good", max_concurrent_jobs=8)
    await here.node(Grumbler(), node_id="grumbler", max_concurrent_jobs=8)
    for instance in instances:
        await until(partial(_knows, instance, "good"))
    await asyncio.sleep(0.3)  # a miss of a moment ago is believed for 0.1 s
    client = await here.client(enable_streaming_asr=True)
    outcomes = await talk(client, 30)
    assert any(outcome["type"] == "translation_result" for outcome in outcomes)
    await client.chunk(AUDIO)
    await client.chunk(is_final=True)
    await client.outcome(30)
    await asyncio.gather(speak_rubbish(here), speak_rubbish(there), complain(good), over_http(here))
    good.socket.drop()
    await client.utterance(31, AUDIO)
    await client.outcome(30)
    await client.socket.send({"type": "session_close", "session_id": client.session_id, "reason": TEXT})
    await client.socket.next("session_close_ack")


async def _knows(instance: Instance, node_id: str) -> bool:
    nodes = await instance.get("/v1/nodes")
    return any(node["node_id"] == node_id for node in nodes["nodes"])
