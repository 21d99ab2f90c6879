"""Watching over real sockets: a picture, then what changes, for as long as anybody reads."""

import asyncio
import json
import socket
from functools import partial
from itertools import pairwise
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.console import watching
from lingua_scheduler.domain.watching.changes import delta
from lingua_scheduler.domain.watching.picture import Picture
from lingua_scheduler.services.watching.snapshot import STEPS_KEPT
from tests.support.peers import FakeNode, Field, Frame, answer, field, heartbeat, result_of
from tests.support.pictures import after, node
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.streams import stream_of
from tests.support.waiting import until

QUICK = {"watch__interval_ms": 200, "watch__watched_interval_ms": 100}


async def fail(node: FakeNode, job: Frame) -> None:
    error = {"code": "UNSUPPORTED_FEATURE", "message": "secret words"}
    await node.socket.send(result_of(job, node.node_id, success=False, error=error))


async def test_the_picture_has_nodes_pairs_sessions_and_jobs(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        fake = await peers.node()
        client = await peers.client()
        await client.utterance(0)
        await client.outcome()
        found = await until(partial(picture_with, peers, lambda seen: seen["jobs_ended"]["DONE"]))
        (seen,) = found["nodes"]
        assert (seen["node_id"], seen["state"], seen["speech"]) == (
            fake.node_id,
            "ready",
            ["en:en", "en:zh", "zh:en", "zh:zh"],
        )
        assert (seen["cpu"], seen["memory"], seen["cores"], seen["types"]) == (1.0, 2.0, 2.0, ["asr"])
        assert (found["session_languages"], found["leader"]) == ({"en:zh": 1}, scheduler.instance)
        assert [pair["hangs_on"] for pair in found["pairs"]] == [fake.node_id] * 4
        (instance,) = found["instances"]
        assert (instance["nodes"], instance["sessions"], instance["is_leader"]) == (1, 1, True)
        assert found["alarms"] == []


async def picture_with(peers: Field, is_so: Any) -> Any:
    status, found = await peers.get("/v1/picture")
    assert status == 200, found
    return found if is_so(found) else None


async def test_a_stream_begins_with_the_picture_and_goes_on_with_changes(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        first = await peers.node()
        await until(partial(picture_with, peers, lambda seen: seen["nodes"]))
        async with stream_of(scheduler.port) as stream:
            whole = (await stream.next()).data
            assert stream.response.headers["Content-Type"].startswith("text/event-stream")
            assert "X-Request-Id" in stream.response.headers
            assert (stream.retry_ms, sorted(whole)) == (2_000, ["events", "history", "picture"])
            assert [seen["node_id"] for seen in whole["picture"]["nodes"]] == [first.node_id]
            assert whole["history"][-1] == whole["picture"]["now"]
            change = (await stream.next("change")).data
            assert change["serial"] == whole["picture"]["serial"] + 1

            second = await peers.node()
            joined = await stream.change_with("nodes")
            assert joined["nodes"][second.node_id]["state"] == "ready"
            assert {"node.joined"} <= {event["kind"] for event in joined["events"]}
            assert joined["pairs"]["en:zh"]["nodes"] == 2

            await peers.post(f"/v1/nodes/{second.node_id}/drain")
            drained = await stream.change_with("nodes")
            assert drained["nodes"][second.node_id]["state"] == "draining"
            assert drained["events"][0]["values"] == {"node_id": second.node_id, "from": "ready", "to": "draining"}

            busy = {"cpu_percent": 55.0, "mem_percent": 30.0, "running_jobs": 0}
            await first.socket.send(heartbeat(first.node_id, resource_usage=busy))
            loaded = await stream.change_with("loads")
            assert loaded["loads"][first.node_id][3:] == [55.0, 30.0, None]

            for leaving in (first, second):
                await leaving.socket.close()
            gone: dict[str, Any] = {}
            kinds: set[str] = set()
            while len(gone) < 2:
                change = await stream.change_with("nodes")
                gone |= change["nodes"]
                kinds |= {event["kind"] for event in change["events"]}
            assert gone == {first.node_id: None, second.node_id: None}
            assert {"node.left", "pair.lost", "alarm.raised"} <= kinds


async def test_a_failed_job_is_an_event_and_its_words_stay_out(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        fake = await peers.node(fail)
        client = await peers.client()
        async with stream_of(scheduler.port, "?only=events") as stream:
            await client.utterance(0)
            while "job.failed" not in (kinds := {event["kind"]: event for event in (await events(stream))}):
                pass
        failed = kinds["job.failed"]["values"]
        assert (failed["src"], failed["tgt"], failed["reason"]) == ("en", "zh", "UNSUPPORTED_FEATURE")
        assert (failed["node_id"], failed["job_id"]) == (fake.node_id, fake.jobs[0]["job_id"])
        _, found = await peers.get("/v1/picture")
        assert [job["job_id"] for job in found["failures"]] == [failed["job_id"]]
        assert "secret" not in json.dumps(found)
        _, listed = await peers.get("/v1/events?limit=1")
        assert len(listed["events"]) == 1


async def events(stream: Any) -> list[Any]:
    message = await stream.next()
    assert (message.name, list(message.data)) == ("events", ["events"])
    return list(message.data["events"])


async def test_slow_jobs_are_shown(server: RedisProcess) -> None:
    async def take_time(node: FakeNode, job: Frame) -> None:
        await asyncio.sleep(0.05)
        await answer(node, job)

    # A job may take less than a millisecond.
    async with scheduler_on(server.url, watch__slow_ms=20, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        fake = await peers.node(take_time)
        client = await peers.client()
        await client.utterance(0)
        await client.outcome()
        found = await until(partial(picture_with, peers, lambda seen: seen["slow"]))
        (slow,) = found["slow"]
        assert (slow["state"], slow["node_id"], slow["attempts"]) == ("DONE", fake.node_id, 1)


async def test_what_failed_before_a_restart_is_still_shown(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        fake = await peers.node(fail)
        client = await peers.client()
        await client.utterance(0)
        await client.outcome()
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        _, found = await peers.get("/v1/picture")
        assert [job["job_id"] for job in found["failures"]] == [fake.jobs[0]["job_id"]]


# Those who read


async def test_what_two_watchers_get_is_encoded_once(server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def counted(before: Picture, later: Picture) -> dict[str, Any]:
        encoded.append(later.serial)
        return delta(before, later)

    monkeypatch.setattr(watching, "delta", counted)
    async with scheduler_on(server.url, **QUICK) as (scheduler, _):
        async with stream_of(scheduler.port) as one, stream_of(scheduler.port) as other:
            for _ in range(3):
                assert (await one.next("change")).data["serial"]
                assert (await other.next("change")).data["serial"]
    assert len(encoded) == len(set(encoded)) >= 3


async def test_a_slow_reader_gets_a_whole_picture_again_and_holds_up_nobody(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        await peers.get("/v1/picture")
        reader, writer = await slow_reader(scheduler.port)
        async with stream_of(scheduler.port) as quick:
            last = (await quick.next("picture")).data["picture"]["serial"] + 3 * STEPS_KEPT
            swell(scheduler)
            # More than any buffer between us holds, and more steps than are kept.
            while (await quick.next("change")).data["serial"] < last:
                pass
        serials = await read_serials(reader, last)
        writer.close()
        names = [name for name, _ in serials]
        assert names.count("picture") >= 2
        for (_, before), (name, serial) in pairwise(serials):
            assert name == "picture" or serial == before + 1


async def slow_reader(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    link.setblocking(False)
    await asyncio.get_running_loop().sock_connect(link, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=link, limit=4_096)
    writer.write(b"GET /v1/watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return reader, writer


def swell(scheduler: Scheduler) -> None:
    """Every picture from now on has other nodes than the one before, a lot of them."""
    maker = scheduler.snapshots._maker

    async def make(before: Picture | None) -> Picture:
        assert before is not None
        await asyncio.sleep(0)
        return after(before, nodes=[node(f"{before.serial}-{number}", version="x" * 20_000) for number in range(50)])

    maker.make = make  # type: ignore[method-assign]


async def read_serials(reader: asyncio.StreamReader, last: int) -> list[tuple[str, int]]:
    """Name and serial of every message until that one."""
    found: list[tuple[str, int]] = []
    name, text = "", b""
    async with asyncio.timeout(90):
        while not found or found[-1][1] < last:
            text += await reader.read(65_536)
            *lines, text = text.split(b"\n")
            for line in lines:
                if line.startswith(b"event: "):
                    name = line[7:].decode()
                elif line.startswith(b"id: "):
                    found.append((name, int(line[4:])))
            text = text[-200:] if not text.startswith((b"event", b"id")) else text
    return found


async def test_only_so_many_may_watch(server: RedisProcess) -> None:
    async with scheduler_on(server.url, watch__max_watchers=1) as (scheduler, _), field(scheduler.port) as peers:
        async with stream_of(scheduler.port):
            status, body = await peers.get("/v1/watch")
            assert (status, body["error"]) == (503, "SERVICE_UNAVAILABLE")
        await until(partial(can_watch, scheduler.port))


async def test_one_address_may_not_take_every_stream(server: RedisProcess) -> None:
    few = {"server__trusted_proxies": ["127.0.0.1"], "watch__max_watchers_per_address": 2, "watch__max_watchers": 4}
    few |= {"auth__mode": "off"}  # who comes through a proxy needs a key otherwise
    async with scheduler_on(server.url, **few) as (scheduler, _), aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{scheduler.port}/v1/watch"
        stranger, other = ({"X-Forwarded-For": f"203.0.113.{number}"} for number in (7, 8))
        async with http.get(url, headers=stranger) as first:
            async with http.get(url, headers=stranger) as second, http.get(url, headers=stranger) as third:
                assert (first.status, second.status, third.status) == (200, 200, 429)
                body = await third.json()
                assert body["error"] == "RATE_LIMITED"
                assert "watch.max_watchers_per_address" in body["detail"]
                async with http.get(url, headers=other) as beside, http.get(url) as operator:
                    assert (beside.status, operator.status) == (200, 200)
        await until(lambda: not scheduler.snapshots._watchers)
        assert not scheduler.snapshots._of_address


async def can_watch(port: int) -> bool:
    try:
        async with stream_of(port):
            return True
    except AssertionError:
        return False


async def test_a_stream_ends_when_the_scheduler_stops(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _):
        async with stream_of(scheduler.port) as stream, asyncio.timeout(90):
            await stream.next("picture")
            stopping = asyncio.create_task(scheduler.stop())
            await stream.ended()
            await stopping


async def test_a_quiet_stream_beats(server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BEAT_S", 0.05)
    async with scheduler_on(server.url) as (scheduler, _), stream_of(scheduler.port) as stream:
        await stream.next("picture")
        await stream.next("change")
        assert "beat" in stream.comments


async def test_strange_questions_are_refused(peers: Field) -> None:
    for query in ("?only=all", "?what=1", "?only=events&more=1"):
        status, body = await peers.get(f"/v1/watch{query}")
        assert (status, body["error"]) == (400, "INVALID_MESSAGE")
    async with aiohttp.ClientSession() as http, http.head(f"http://127.0.0.1:{peers.port}/v1/watch") as response:
        assert response.status == 405
    assert (await peers.get("/v1/events?limit=0"))[0] == 400


async def test_the_front_page_names_the_stream(peers: Field) -> None:
    _, page = await peers.get("/")
    assert "/v1/watch" in page
    assert "/v1/picture" in page
