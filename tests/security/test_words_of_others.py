"""What somebody says is told to the people it is for, and to no other credential: not to administrators either."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp

from lingua_scheduler.console.needs import PAGES
from lingua_scheduler.domain.access.scopes import OPEN
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import CALLERS, MadeKey
from tests.support.peers import FakeNode, Frame, result_of
from tests.support.room_house import RoomReader
from tests.support.servers import RedisProcess
from tests.support.tenants import Tenants, tenants_at
from tests.support.waiting import until

HEARD, SAID, PARTLY, FAILED, WRITTEN, NAME = "zebrafinch", "wolverine", "quokka", "axolotl", "marmoset", "Cassowary"
VOICE = base64.b64encode(b"a pangolin speaks " * 20).decode()
PLANTED = (HEARD, SAID, PARTLY, FAILED, WRITTEN, NAME, VOICE[:40], "pangolin")
OWNER = "acme"
# Where nothing ends by itself.
STREAMS = ("/v1/watch", "/ws/session", "/ws/node")


async def speak(node: FakeNode, job: Frame) -> None:
    """The first utterance of a session is translated, the second fails with a message that tells what was said."""
    about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
    partly = {"type": "asr_partial", "node_id": node.node_id, "text": PARTLY, "is_final": False}
    await node.socket.send(partly | about)
    if job["utterance_index"] == 1:
        error = {"code": "PROCESSING_ERROR", "message": f"cannot translate {FAILED}", "details": {"text": FAILED}}
        await node.socket.send(result_of(job, node.node_id, success=False, text_asr=FAILED, error=error))
    else:
        words = {"text_asr": HEARD, "text_translated": SAID, "tts_audio": VOICE, "tts_format": "pcm16"}
        await node.socket.send(result_of(job, node.node_id, **words))


def planted_in(raw: bytes | str) -> list[str]:
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return [word for word in PLANTED if word in text]


class Watcher:
    """Takes all bytes of a watch stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.raw = bytearray()
        self._response = response

    async def read(self) -> None:
        async for some in self._response.content.iter_any():
            self.raw += some


@asynccontextmanager
async def watched(tenants: Tenants, keys: dict[str, MadeKey]) -> AsyncIterator[dict[str, Watcher]]:
    async with AsyncExitStack() as stack:
        found = {}
        for (name, key), query in product(keys.items(), ("", "?only=events")):
            response = await stack.enter_async_context(
                tenants.http.get(f"/v1/watch{query}", headers=key.header, timeout=aiohttp.ClientTimeout(total=None))
            )
            assert response.status == 200, name
            found[name + query] = Watcher(response)
        reading = [asyncio.create_task(one.read()) for one in found.values()]
        try:
            yield found
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)


async def spoken(tenants: Tenants, owner: MadeKey) -> list[str]:
    """Over a socket, over HTTP, and in a room. The ids of its jobs."""
    client = await tenants.client_with(owner)
    await client.utterance(0)
    told = await client.outcome()
    assert {HEARD, SAID} <= set(planted_in(str(told)))
    await client.utterance(1)
    failed = await client.outcome()
    assert failed["type"] == "missing_result"
    body = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": base64.b64encode(bytes(640)).decode()}
    status, placed = await tenants.ask("POST", "/v1/dispatch/f2f", owner, json=body)
    assert status == 200, placed
    _, found = await tenants.ask("GET", f"/v1/jobs/{placed['job_id']}/result?wait_ms=5000", owner)
    assert HEARD in planted_in(str(found)), "the owner is told"
    _, listed = await tenants.ask("GET", "/v1/jobs?limit=500", owner)
    return [job["job_id"] for job in listed["jobs"]]


async def in_a_room(tenants: Tenants, owner: MadeKey, other: MadeKey) -> tuple[RoomReader, RoomReader]:
    port = tenants.scheduler.port
    pages = [RoomReader(tenants.http, port, query=f"?access_token={key.text}") for key in (owner, other)]
    speaker, listener = [await page.ready(src_lang="en", tgt_lang="zh") for page in pages]
    code = await speaker.create(display_name=NAME, preferred_lang="en")
    await listener.enter(code, preferred_lang="zh")
    audio = base64.b64encode(bytes(6_400)).decode()
    whole = {"utterance_index": 0, "manual_cut": True, "src_lang": "en", "tgt_lang": "zh", "audio": audio}
    await speaker.send("utterance", session_id=speaker.session_id, audio_format="pcm16", sample_rate=16_000, **whole)
    await speaker.say(WRITTEN)
    await until(lambda: {SAID, WRITTEN, NAME} <= set(planted_in(str(listener.heard))), what="the room is told")
    return speaker, listener


async def paths_of(tenants: Tenants, job_ids: list[str], node_id: str) -> list[str]:
    """Every address that is asked with GET, with ids that exist."""

    async def rooms() -> list[str]:
        return [room["room_id"] for room in (await tenants.ask("GET", "/v1/rooms"))[1]["rooms"]]

    _, keys = await tenants.ask("GET", "/v1/keys")
    known = {
        "job_id": job_ids,
        "node_id": [node_id],
        "room_id": await until(rooms),
        "key_id": [keys["keys"][0]["id"]],
    }
    assert all(known.values())
    templates = [one.path for one in tenants.scheduler.operations if one.method == "GET"]
    templates += [path for path, needs in PAGES.items() if needs != OPEN and path not in STREAMS]
    found = []
    for template in templates:
        path = template.replace("{src}", "en").replace("{tgt}", "zh")
        names = [name for name in known if f"{{{name}}}" in path]
        found += [path.replace(f"{{{name}}}", one) for name in names for one in known[name]] if names else [path]
    assert not [path for path in found if "{" in path]
    return found


async def text_of(tenants: Tenants, path: str, key: MadeKey) -> tuple[int, str]:
    async with tenants.http.get(path, headers=key.header) as response:
        return response.status, await response.text()


async def test_nobody_reads_what_another_caller_says(server: RedisProcess, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"watch__interval_ms": 200, "watch__watched_interval_ms": 200, "job__max_attempts": 1}
    async with tenants_at(server.url, tmp_path, **changes) as tenants:
        owner, friend = [await tenants.key(KeyKind.SERVICE, tenant=OWNER) for _ in range(2)]
        strangers = {"admin": tenants.admin, "friend": friend}
        for name, make in CALLERS.items():
            made = make().credential
            for tenant in {made.tenant, OWNER} if made.tenant != "*" else {"*"}:
                about = {"tenant": tenant} | ({"role": made.role} if made.kind is KeyKind.OPERATOR else {})
                strangers[f"{name} of {tenant}"] = await tenants.key(made.kind, **about)
        operators = {name: key for name, key in strangers.items() if key.credential.kind is KeyKind.OPERATOR}
        node = await tenants.node("gpu", OWNER, work=speak)
        async with watched(tenants, operators) as watchers:
            jobs = await spoken(tenants, owner)
            assert len(jobs) == 3
            pages = await in_a_room(tenants, owner, friend)
            # They see that there are jobs.
            await until(lambda: any(job.encode() in watchers["admin"].raw for job in jobs))
            asked = {200: 0, 403: 0, 404: 0}
            for path in await paths_of(tenants, jobs, node.node_id):
                for name, key in strangers.items():
                    status, told = await text_of(tenants, path, key)
                    asked[status] += 1
                    assert not planted_in(told), f"{name} reads it in {path}"
            assert min(asked.values()) > 20, asked
            for name, watcher in watchers.items():
                assert watcher.raw, name
                assert not planted_in(bytes(watcher.raw)), f"{name} reads it in the watch stream"
            for page in pages:
                await page.close()
