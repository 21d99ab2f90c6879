"""Alarms that people can believe: raised for what somebody misses, and handled once for all instances."""

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from lingua_scheduler.services.watching.snapshot import Snapshots
from lingua_sdk.processes import stop
from tests.support.forked import fork_command
from tests.support.peers import FakeNode, Field, Frame, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until

QUICK = {"watch__interval_ms": 200, "watch__watched_interval_ms": 100}
SOON_S = 30.0
NEVER_MS = 86_400_000
UNSERVED = re.compile(r'^lingua_pair_nodes\{src="(.+)",tgt="(.+)"\} 0\.0$', re.MULTILINE)


@asynccontextmanager
async def simulated_node(port: int, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LINGUA_")}
    words = ("node", "--engine", "sim", "--url", f"127.0.0.1:{port}", *arguments)
    process = await fork_command(*words, stdout=DEVNULL, stderr=DEVNULL, environment=clean)
    try:
        yield process
    finally:
        await stop(process, 10.0)


async def picture_with(peers: Field, is_so: Any) -> Any:
    status, found = await peers.get("/v1/picture")
    return found if status == 200 and is_so(found) else None


def critical(picture: Any) -> list[str]:
    return [f"{one['code']} {one['subject']}" for one in picture["alarms"] if one["level"] == "critical"]


async def critical_events(peers: Field) -> list[str]:
    _, told = await peers.get("/v1/events?limit=500")
    return [one["text"] for one in told["events"] if one["level"] == "critical"]


def codes(picture: Any) -> set[str]:
    return {one["code"] for one in picture["alarms"]}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_simulated_node_for_five_seconds_leaves_no_alarm_about_its_pairs(
    server: RedisProcess, how: signal.Signals
) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(node_id="stays")
        # A picture taken before it came rightly says that there is no node.
        await until(partial(picture_with, peers, lambda seen: not critical(seen)), SOON_S)
        before = await critical_events(peers)
        async with simulated_node(scheduler.port, "--id", "sim-1") as process:
            await until(partial(picture_with, peers, lambda seen: len(seen["pairs"]) > 30), SOON_S)
            await asyncio.sleep(5)  # literally five seconds, as somebody who tries it
            process.send_signal(how)
            gone = await until(partial(picture_with, peers, lambda seen: len(seen["nodes"]) == 1), SOON_S)
            # The next picture says whether it is missed.
            seen = await until(partial(picture_with, peers, lambda seen: seen["serial"] > gone["serial"]), SOON_S)
        assert critical(seen) == critical(gone) == []
        # One that said goodbye is not missed; one that was killed is.
        assert ("node.lost" in codes(seen)) is (how is signal.SIGKILL)
        _, page = await peers.get("/metrics")
        assert UNSERVED.findall(page) == []
        assert await critical_events(peers) == before
        _, told = await peers.get("/v1/events?limit=500")
        of_pairs = [one for one in told["events"] if one["values"].get("count", 0) > 30]
        assert {one["kind"] for one in of_pairs} == {"pair.served", "pair.lost", "alarm.raised", "alarm.cleared"}
        assert len(told["events"]) < 20, [one["text"] for one in told["events"]]


async def test_a_pair_that_somebody_asked_for_comes_first_with_the_next_step_in_words(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(node_id="stays")
        await peers.node(node_id="goes")
        await until(partial(picture_with, peers, lambda seen: len(seen["nodes"]) == 2), SOON_S)
        peers.nodes[1].socket.cut()
        client = await peers.client(src_lang="en", tgt_lang="ko")
        await client.utterance(0, tgt_lang="ko")
        await client.outcome()
        await client.socket.close()
        # Nobody asks any more, and somebody did a moment ago.
        seen = await until(
            partial(picture_with, peers, lambda seen: {"pair.unserved", "node.lost"} <= codes(seen)), SOON_S
        )
        first = seen["alarms"][0]
        assert (first["code"], first["subject"]) == ("pair.unserved", "en:ko")
        assert "no node has ever served it: no node speaks Korean" in first["text"]
        assert first["text"].endswith("Start one with: lingua node --languages en,ko")
        # Every client may ask for anything, so it is no outage and alerts no person.
        assert (critical(seen), seen["verdict"]["level"]) == ([], "warning")
        _, page = await peers.get("/metrics")
        assert UNSERVED.findall(page) == []


async def test_a_pair_whose_only_node_is_quarantined_names_it_and_why(server: RedisProcess) -> None:
    async def fail(node: FakeNode, job: Frame) -> None:
        error = {"code": "PROCESSING_ERROR", "message": "no", "details": None}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))

    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(node_id="stays")
        await peers.node(fail, node_id="raises", languages=("en", "fr"))
        client = await peers.client(src_lang="en", tgt_lang="fr")
        for index in range(3):
            await client.utterance(index, tgt_lang="fr")
            await client.outcome()
        seen = await until(partial(picture_with, peers, lambda seen: "pair.quarantined" in codes(seen)), SOON_S)
        assert not {"pair.lost", "node.quarantined"} & codes(seen)
        # What nodes did is written in batches.
        words = "its only node, raises, is quarantined (last failure: PROCESSING_ERROR)"
        await until(partial(picture_with, peers, lambda seen: words in seen["alarms"][0]["text"]), SOON_S)


async def test_what_was_asked_for_survives_a_restart_and_a_listed_pair_is_always_wanted(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(languages=("en", "zh", "fr"))
        client = await peers.client(src_lang="en", tgt_lang="fr")
        await client.utterance(0, tgt_lang="fr")
        await client.outcome()
        await client.socket.close()
        await until(partial(picture_with, peers, lambda seen: seen["jobs_ended"]["DONE"] == 1), SOON_S)
        # Told with the next picture.
        serial = (await peers.get("/v1/picture"))[1]["serial"]
        await until(partial(picture_with, peers, lambda seen: seen["serial"] > serial + 1), SOON_S)
    async with (
        scheduler_on(server.url, pools__wanted=["de:en"], **QUICK) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        await peers.node()
        seen = await until(partial(picture_with, peers, lambda seen: "pair.lost" in codes(seen)), SOON_S)
        assert critical(seen) == ["pair.lost de:en", "pair.lost en:fr"]
        # The list is the operator's own; what was asked for can be forgotten.
        status, body = await peers.post("/v1/alarms", {"alarm": "pair.lost/de:en", "action": "forget"})
        assert (status, body["error"]) == (409, "ALARM_KEPT")
        assert (await peers.post("/v1/alarms", {"alarm": "pair.lost/en:fr", "action": "forget"}))[0] == 200
        await until(partial(picture_with, peers, lambda seen: critical(seen) == ["pair.lost de:en"]), SOON_S)


async def test_what_is_done_about_an_alarm_holds_on_every_instance_and_after_a_restart(server: RedisProcess) -> None:
    wanted: dict[str, Any] = {"pools__wanted": ["de:en", "fr:en"]} | QUICK
    async with (
        scheduler_on(server.url, **wanted) as (one, _),
        field(one.port) as here,
        field(one.port) as callers,
    ):
        await here.node()
        async with scheduler_on(server.url, **wanted) as (other, _), field(other.port) as there:
            for peers in (here, there):
                await until(partial(picture_with, peers, lambda seen: len(critical(seen)) == 2), SOON_S)
            done = {"alarm": "pair.lost/de:en", "action": "silence", "for_ms": 3_600_000, "by": "ada"}
            assert await callers.post("/v1/alarms", done) == (
                200,
                {"alarm": "pair.lost/de:en", "action": "silence"},
            )
            noted = {"alarm": "pair.lost/fr:en", "action": "acknowledge", "by": "ada"}
            assert (await callers.post("/v1/alarms", noted))[0] == 200
            for peers in (here, there):
                seen = await until(partial(picture_with, peers, is_handled), SOON_S)
                # One is being worked on, and hurts all the same; the other does not count, and comes last.
                assert (seen["verdict"]["code"], seen["verdict"]["subject"]) == ("pair.lost", "fr:en")
                assert (await peers.get("/v1/alarms"))[1]["alarms"] == seen["alarms"]
                _, page = await peers.get("/metrics")
                assert UNSERVED.findall(page) == [("fr", "en")]
        async with scheduler_on(server.url, **wanted) as (again, _), field(again.port) as there:
            await until(partial(picture_with, there, is_handled), SOON_S)
            await there.post("/v1/alarms", {"alarm": "pair.lost/de:en", "action": "reset"})
            await until(partial(picture_with, here, lambda seen: not is_handled(seen)), SOON_S)


def is_handled(picture: Any) -> bool:
    found = {one["subject"]: one for one in picture["alarms"]}
    return bool(
        list(found)[-1] == "de:en"
        and found["de:en"]["silenced_until_ms"] > picture["at_ms"]
        and found["fr:en"]["acknowledged_at_ms"]
        and found["fr:en"]["handled_by"] == "ada"
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"alarm": "pair.lost/en:ko"},
        {"alarm": "pair.lost/en:ko", "action": "eat"},
        {"alarm": "", "action": "forget"},
        {"alarm": "pair.lost/\n", "action": "silence"},
        {"alarm": "pair.lost", "action": "silence", "for_ms": 1},
        {"alarm": "pair.lost", "action": "silence", "for_ms": 10**12},
        {"alarm": "pair.lost", "action": "silence", "by": "x" * 65},
        {"alarm": "p" * 301, "action": "silence"},
        {"alarm": "pair.lost", "action": "silence", "more": 1},
    ],
)
async def test_what_cannot_be_done_is_refused(peers: Field, body: Any) -> None:
    status, answer = await peers.post("/v1/alarms", body)
    assert (status, answer["error"]) == (400, "INVALID_MESSAGE")


@pytest.mark.parametrize("alarm", ["moon.fell", "pair.lost/en:ko", "redis.full"])
async def test_what_is_not_raised_is_not_known(peers: Field, alarm: str) -> None:
    status, answer = await peers.post("/v1/alarms", {"alarm": alarm, "action": "acknowledge"})
    assert (status, answer["error"]) == (404, "UNKNOWN_ALARM")
    assert answer["detail"] == f"no alarm {alarm} is raised; lingua alarms lists them, and GET /v1/alarms"


@pytest.fixture
def own_server() -> Iterator[RedisProcess]:
    """One that may be stopped."""
    binary = binaries()["valkey"]
    assert binary is not None
    server = RedisProcess(binary)
    yield server
    server.signal(signal.SIGCONT)
    server.stop()


def pause(snapshots: Snapshots) -> None:
    """No picture is due in this test, however patient it is, so that nothing but the loss of Redis can make one."""
    settings = snapshots._settings
    snapshots._settings = msgspec.structs.replace(settings, interval_ms=NEVER_MS, watched_interval_ms=NEVER_MS)
    # It may be in the middle of a shorter pause.
    snapshots._hurry.set()


async def test_the_verdict_is_red_as_soon_as_the_scheduler_is_not_ready(own_server: RedisProcess) -> None:
    async with scheduler_on(own_server.url) as (scheduler, _), field(scheduler.port) as us:
        await us.node()
        await us.get("/v1/picture")
        pause(scheduler.snapshots)
        own_server.signal(signal.SIGSTOP)
        await until(partial(readiness, us, 503), SOON_S)
        seen = await until(partial(picture_with, us, lambda seen: seen["is_stale"]))
        assert (seen["verdict"]["level"], seen["verdict"]["code"]) == ("critical", "redis.away")
        assert seen["alarms"][0]["code"] == "redis.away"


@pytest.mark.parametrize("how", ["frozen", "stopped"])
async def test_the_verdict_is_no_longer_red_when_the_scheduler_is_ready_again(
    own_server: RedisProcess, how: str
) -> None:
    """One look after readiness, and no other chance. A Redis that was stopped is empty when it is back."""
    async with scheduler_on(own_server.url) as (scheduler, _), field(scheduler.port) as us:
        await us.node()
        await until(partial(node_is_known, us), SOON_S)
        await scheduler.snapshots.build()
        pause(scheduler.snapshots)
        own_server.signal(signal.SIGSTOP) if how == "frozen" else own_server.kill()
        await until(partial(readiness, us, 503), SOON_S)
        await until(partial(picture_with, us, lambda seen: seen["is_stale"]), SOON_S)
        own_server.signal(signal.SIGCONT) if how == "frozen" else own_server.start()
        await until(partial(readiness, us, 200), SOON_S)
        _, seen = await us.get("/v1/picture")
        assert (seen["is_stale"], len(seen["nodes"]), critical(seen)) == (False, 1, [])
        assert seen["verdict"]["level"] != "critical"


async def node_is_known(peers: Field) -> bool:
    return bool((await peers.get("/v1/nodes"))[1]["nodes"])


async def readiness(peers: Field, status: int) -> bool:
    return (await peers.get("/health/ready"))[0] == status
