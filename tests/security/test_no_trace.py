"""Speech and text leave no trace: not in Redis, and not in the files it writes, whatever happened to those who spoke.

Redis appends every write to a file (AOF) and dumps everything (RDB); both are searched for planted words."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.protocol.bus import Finished
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.cluster.seals import load_or_make
from lingua_scheduler.store.store import Store
from tests.support import gossip
from tests.support.peers import FakeNode, Field, Frame, field, result_of, stay_silent
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until

BRISK = {"instances__beat_ms": 100, "instances__dead_ms": 1_000, "inbox__max_deliveries": 1, "sessions__grace_ms": 500}
SAID = {
    "text_asr": gossip.TEXT,
    "text_translated": gossip.TEXT,
    "tts_audio": base64.b64encode(gossip.AUDIO).decode(),
}
BOTH = {"enable_streaming_asr": True}


@pytest.fixture
def writing_server() -> Iterator[RedisProcess]:
    """Every write is in its file at once, as it was said."""
    server = RedisProcess(
        str(binaries()["valkey"]), "--appendonly", "yes", "--appendfsync", "always", "--rdbcompression", "no"
    )
    yield server
    server.stop()


@asynccontextmanager
async def pair(url: str, keyring: Keyring | None) -> AsyncIterator[tuple[Scheduler, Scheduler, Store]]:
    """Two instances that know of each other."""
    async with (
        scheduler_on(url, None, keyring, server__instance_id="a", **BRISK) as (a, store),
        scheduler_on(url, None, keyring, server__instance_id="b", **BRISK) as (b, _),
    ):
        for scheduler in (a, b):
            await scheduler.presence.look()
        yield a, b, store


def traces(server: RedisProcess) -> list[str]:
    """Files that give away what was said."""
    server.command("SAVE")
    needles = [needle.encode() for needle in gossip.needles()]
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    assert any("aof" in path.name for path in files)
    assert any(path.name == "dump.rdb" for path in files)
    return [path.name for path in files if any(needle in path.read_bytes().lower() for needle in needles)]


async def keys_that_tell(store: Store) -> list[str]:
    """Everything that is in Redis now."""
    return [key for key in await store.line.call("KEYS", "*") if gossip.told_in([str(await dumped(store, key))])]


async def dumped(store: Store, key: str) -> object:
    match await store.line.call("TYPE", key):
        case "string":
            return await store.line.call("GET", key)
        case "hash":
            return await store.line.call("HGETALL", key)
        case "list":
            return await store.line.call("LRANGE", key, 0, -1)
        case "stream":
            return await store.line.call("XRANGE", key, "-", "+")
        case _:
            return key


async def speak_across(at_a: Field, at_b: Field) -> None:
    """A client here, a node there: speech goes there by letter, partials by signal, the result comes back by letter."""
    node = await at_b.node(gossip.speak_well, node_id="far")
    client = await at_a.client(**BOTH)
    for index in range(100):
        await client.utterance(index, gossip.AUDIO)
        outcome = await client.outcome(30)
        if outcome["type"] == "translation_result":
            break
        await asyncio.sleep(0.05)  # this instance has not heard of the node yet
    assert outcome["text_translated"] == gossip.TEXT
    assert client.socket.of_type("asr_partial")
    await node.stop()


async def park_and_end(at_a: Field, store: Store) -> None:
    """A client vanishes, its outcome comes, and nobody ever asks for it."""
    node = await at_a.node(stay_silent, node_id="near")
    client = await at_a.client()
    await client.utterance(0, gossip.AUDIO)
    await until(lambda: node.jobs)
    await client.socket.close()
    await tell(node, node.jobs[0])
    parked = store.keys.parked(client.session_id)
    await until(lambda: store.line.call("EXISTS", parked))
    assert await keys_that_tell(store) == []
    await until(lambda: _is_gone(store, parked))
    await node.stop()


async def _is_gone(store: Store, key: str) -> bool:
    return not await store.line.call("EXISTS", key)


async def tell(node: FakeNode, job: Frame) -> None:
    await node.socket.send(result_of(job, node.node_id, **SAID))


async def let_a_letter_die(a: Scheduler, b: Scheduler, store: Store) -> None:
    def fail(_message: Finished, _letter: Letter) -> None:
        raise ValueError(gossip.TEXT)

    b.mailroom.handle(Finished, fail)
    speech = Finished(Attempt("job-0-1", 1, "n1", 0), f"{gossip.TEXT} {SAID['tts_audio']}".encode())
    await a.mailroom.post("b", speech)
    (dead,) = await until(lambda: store.inboxes.dead_letters("b", 10))
    assert (dead.reason, dead.subject) == ("failed", "job-0-1")


@pytest.mark.expects_surprise("letter.dead")
async def test_nothing_is_in_redis_or_its_files_after_runs_parked_sessions_and_dead_letters(
    writing_server: RedisProcess,
) -> None:
    async with pair(writing_server.url, Keyring([b"k" * 32])) as (a, b, store):
        async with field(a.port) as at_a, field(b.port) as at_b:
            await speak_across(at_a, at_b)
            await park_and_end(at_a, store)
        await let_a_letter_die(a, b, store)
        assert await keys_that_tell(store) == []
    assert traces(writing_server) == []


async def test_the_search_finds_what_is_not_sealed(writing_server: RedisProcess) -> None:
    async with pair(writing_server.url, None) as (a, b, _), field(a.port) as at_a, field(b.port) as at_b:
        await speak_across(at_a, at_b)
    assert traces(writing_server) != []


@pytest.mark.expects_surprise("letter.dead")
async def test_nothing_is_left_of_what_was_said_to_an_instance_that_was_killed(
    writing_server: RedisProcess, tmp_path: Path
) -> None:
    """It is frozen with speech in its inbox, then killed: others adopt the inbox, and open it with the same key."""
    key = tmp_path / "cluster.key"
    settings = [f"{name.replace('__', '.')}={value}" for name, value in BRISK.items()]
    words = [word for setting in settings for word in ("--set", setting)]
    named = ("--redis-url", writing_server.url, "--set", "server.instance_id=b")
    async with (
        serve_process(tmp_path, *named, *words, LINGUA_PRIVACY_CLUSTER_KEY_FILE=str(key)) as dying,
        scheduler_on(writing_server.url, None, load_or_make(key), server__instance_id="a", **BRISK) as (a, store),
    ):
        await until(lambda: dying.port, 60)
        await a.presence.look()
        assert a.presence.all_can(load_or_make(key).ids[0])
        async with field(a.port) as at_a, field(dying.port) as at_b:
            node = await at_b.node(stay_silent, node_id="far")
            client = await at_a.client()
            await client.utterance(0, gossip.AUDIO)
            await until(lambda: node.jobs)
            dying.process.send_signal(19)
            await client.utterance(1, gossip.AUDIO)
            await until(lambda: store.line.call("XLEN", store.keys.inbox("b")))
            assert await keys_that_tell(store) == []
            dying.process.kill()
            await until(lambda: _is_empty(store, "b"), 30)
            again = await at_a.node(gossip.speak_well, node_id="near")
            assert [(await client.outcome(30))["type"] for _ in range(2)] == ["translation_result"] * 2
            await again.stop()
        assert await keys_that_tell(store) == []
    assert traces(writing_server) == []


async def _is_empty(store: Store, instance: str) -> bool:
    return not await store.line.call("XLEN", store.keys.inbox(instance))
