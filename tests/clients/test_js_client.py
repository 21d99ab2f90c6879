"""The JavaScript client against a real scheduler: nothing is lost and nothing comes twice, whatever breaks."""

import base64
import signal
from pathlib import Path

import pytest

from tests.support.breaking import Proxy
from tests.support.cutting import Cut, Cutter
from tests.support.js_client import JsClient, js_client
from tests.support.peers import Field, field, stay_silent
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until


async def test_whole_utterances_and_chunks_are_translated(built: Path, peers: Field) -> None:
    node = await peers.node()
    async with js_client(built, peers.port) as client:
        client.do(read=None)
        client.do(utterance=None)
        client.do(utterance=None)
        await client.next("heard", 2)
        client.do(send=False, final=None)
        client.do(send=True)
        client.do(finish=None)
        assert await client.over() == {"over": True}
        assert client.outcomes == [0, 1, 2, 3]
        assert len(node.jobs) == 4
        assert [one["kind"] for one in client.of("heard")] == ["translation"] * 4
        assert "INPUT_ENDED" in [one["step"] for one in client.of("progress")]


STEPS = [
    Cut(kind, is_before)
    for kind in ("session_init_ack", "utterance", "translation_result", "session_close", "session_close_ack")
    for is_before in (True, False)
]


def name_of(cut: Cut) -> str:
    return f"{'before' if cut.is_before else 'after'} {cut.type}"


@pytest.mark.parametrize("cut", STEPS, ids=name_of)
async def test_of_whole_utterances_nothing_is_lost_and_nothing_comes_twice(built: Path, peers: Field, cut: Cut) -> None:
    node = await peers.node()
    async with Cutter(peers.port, cut, cut) as cutter, js_client(built, cutter.port) as client:
        client.do(read=None)
        for _ in range(3):
            client.do(utterance=None)
        client.do(finish=None)
        assert await client.over() == {"over": True}
        assert sorted(client.outcomes) == [0, 1, 2]
        assert cutter.connections > 1 or cut == Cut("session_close_ack", False)
        assert len(node.jobs) == 3


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("kind", ["binary", "translation_result", "session_close"])
async def test_of_chunks_nothing_is_lost_and_nothing_comes_twice(
    built: Path, peers: Field, kind: str, is_before: bool
) -> None:
    node = await peers.node()
    cuts = [Cut(kind, is_before)] * 3
    async with Cutter(peers.port, *cuts) as cutter, js_client(built, cutter.port) as client:
        client.do(read=None)
        for _ in range(3):
            client.do(send=False)
            client.do(send=True)
        client.do(finish=None)
        assert await client.over() == {"over": True}
        assert cutter.connections > 1
        assert sorted(client.outcomes) == [0, 1, 2]
        # Every sample arrived at the node once.
        assert sorted(len(base64.b64decode(job["audio"])) for job in node.jobs) == [12_800] * 3
        assert client.of("restarted") == []


async def spoken(client: JsClient, count: int) -> None:
    for _ in range(count):
        client.do(utterance=None)
    await client.until(lambda: len([one for one in client.of("did") if one == "utterance"]) >= count)


@pytest.mark.parametrize("is_killed", [True, False])
async def test_it_goes_on_at_a_scheduler_that_was_restarted(
    built: Path, server: RedisProcess, tmp_path: Path, is_killed: bool
) -> None:
    arguments = ("--redis-url", server.url)
    async with serve_process(tmp_path, *arguments) as first:
        await until(lambda: first.port)
        async with Proxy(first.port) as proxy, js_client(built, proxy.port) as client:
            client.do(read=None)
            async with field(first.port) as before:
                silent = await before.node(stay_silent)
                await spoken(client, 2)
                await until(lambda: silent.jobs)
                first.process.send_signal(signal.SIGKILL if is_killed else signal.SIGTERM)
                if is_killed:
                    await first.process.wait()
            (second_folder := tmp_path / "second").mkdir()
            async with serve_process(second_folder, *arguments) as second:
                await until(lambda: second.port)
                proxy.move(second.port)
                async with field(second.port) as after:
                    await after.node()
                    client.do(utterance=None, finish=None)
                    assert await client.over() == {"over": True}
        assert sorted(client.outcomes) == [0, 1, 2]
        assert client.texts.count("job_failed") == 0


async def test_a_session_that_is_gone_begins_again_and_says_what_has_no_outcome(
    built: Path, server: RedisProcess
) -> None:
    async with scheduler_on(server.url) as (first, _):
        async with Proxy(first.port) as proxy, js_client(built, proxy.port) as client:
            async with field(first.port) as before:
                await before.node()
                client.do(read=None)
                await spoken(client, 1)
                await client.next("heard")
                for node in before.nodes:
                    node.work = stay_silent
                await spoken(client, 1)
                client.do(send=False, final=None)
                await until(lambda: len(before.nodes[0].jobs) == 3)
                proxy.is_cut = True
            await first.stop()
            server.flush()
            async with scheduler_on(server.url) as (second, _), field(second.port) as after:
                node = await after.node()
                proxy.move(second.port)
                proxy.is_cut = False
                client.do(finish=None)
                assert await client.over() == {"over": True}
                assert client.of("restarted") == [{"lost": 0}]
                assert len(client.outcomes) == len(set(client.outcomes)) == 3
                assert client.outcomes[:2] == [0, 1]
                assert len(node.jobs) == 2


async def test_the_job_of_a_node_that_dies_is_translated_by_another(built: Path, peers: Field) -> None:
    doomed = await peers.node(stay_silent)
    async with js_client(built, peers.port) as client:
        client.do(read=None, utterance=None)
        await until(lambda: doomed.jobs)
        await peers.node()
        doomed.socket.drop()
        client.do(finish=None)
        assert await client.over() == {"over": True}
        assert [one["kind"] for one in client.of("heard")] == ["translation"]


async def test_it_pauses_when_the_scheduler_asks_for_it_and_loses_nothing(built: Path, server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, sessions__max_frames_per_s=20) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        node = await peers.node()
        async with js_client(built, scheduler.port) as client:
            client.do(read=None)
            for _ in range(99):
                client.do(send=False)
            client.do(send=True, finish=None)
            assert await client.over() == {"over": True}
            assert "paused" in client.of("state")
            assert sum(len(base64.b64decode(job["audio"])) for job in node.jobs) == 100 * 6_400
            assert client.outcomes == list(range(len(node.jobs)))


async def test_an_address_where_no_scheduler_answers_is_an_error_with_a_type(built: Path, peers: Field) -> None:
    async with Proxy(peers.port) as proxy:
        proxy.is_cut = True
        async with js_client(built, proxy.port) as client:
            failed = await client.over()
    assert (failed["failed"], failed["code"]) == ("Unreachable", "UNREACHABLE")
