"""No cycles by sessions, jobs and sockets; and a collector that never looks at everything while people speak."""

import asyncio
import base64
import gc
import sys
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from lingua_scheduler.telemetry import garbage
from lingua_scheduler.telemetry.garbage import DEEP_EVERY_S, Tidier
from tests.support.collecting import watched
from tests.support.peers import FakeNode, Field, Frame, field, result_of, stay_silent
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET

SPEECH = PACKET * 20
TIMES = 10


async def fail(node: FakeNode, job: Frame) -> None:
    error = {"code": "PROCESSING_ERROR", "message": "no"}
    await node.socket.send(result_of(job, node.node_id, success=False, error=error))


async def sessions(peers: Field, times: int) -> None:
    """Closed as one should, cut off, and resumed."""
    for _ in range(times):
        client = await peers.client()
        await client.utterance(0, SPEECH)
        await client.outcome()
        client.socket.cut()
        again = await peers.client(resume_token=client.ack["resume_token"])
        await again.socket.send({"type": "session_close", "session_id": client.session_id})
        await again.socket.close()


async def jobs(peers: Field, times: int) -> None:
    client = await peers.client()
    for index in range(times):
        for _ in range(3):
            await client.chunk(PACKET)
        await client.chunk(is_final=True)
        await client.outcome()
        await client.utterance(1000 + index, SPEECH)
        await client.outcome()
        body = {"session_id": "x", "src_lang": "en", "tgt_lang": "zh", "audio": base64.b64encode(SPEECH).decode()}
        assert (await peers.post("/v1/dispatch/f2f", body))[0] == 200
    await client.socket.close()


async def failures(peers: Field, times: int) -> None:
    """Jobs that fail, that nobody can do, and frames and requests that nobody can read."""
    client, other = await peers.client(src_lang="en", tgt_lang="zh"), await peers.client(src_lang="de", tgt_lang="fr")
    bad = await peers.node(fail, node_id="bad")
    for index in range(times):
        for speaker in (client, other):
            await speaker.utterance(index, SPEECH)
            await speaker.outcome(20)
        for path in ("/ws/session", "/ws/node"):
            socket = await peers.socket(path)
            await socket.socket.send_str("{rubbish")
            await socket.next("error")
            socket.cut()
        await peers.get("/v1/jobs/nobody")
        await peers.post("/v1/dispatch/f2f", {"x": 1})
    bad.socket.cut()
    for speaker in (client, other):
        await speaker.socket.close()


async def nodes(peers: Field, times: int) -> None:
    """That come and go, some with work in hand."""
    for number in range(times):
        node = await peers.node(stay_silent, node_id=f"n{number}", languages=("ja", "ko"))
        client = await peers.client(src_lang="ja", tgt_lang="ko")
        await client.utterance(0, SPEECH)
        node.socket.cut()
        await client.socket.close()


async def test_no_session_job_or_node_leaves_a_cycle(server: RedisProcess) -> None:
    async with watched(server.url) as scheduler, field(scheduler.port) as peers:
        await peers.node(node_id="good", max_concurrent_jobs=50)
        for come_and_go in (sessions, jobs, failures, nodes):
            await come_and_go(peers, 1)
            first = await scheduler.cycles()  # what is done for the first time makes types and decoders
            found = await scheduler.cycles_each_time(partial(come_and_go, peers), TIMES)
            print(come_and_go.__name__, "first:", first, "then:", found)
            # A cycle of each session or job would be at least two objects, each time.
            assert sum(found.values()) < TIMES, (come_and_go.__name__, found)


class Ring:
    """A cycle."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def tidier() -> Iterator[tuple[Tidier, list[float], list[bool]]]:
    now_s, quiet = [0.0], [False]
    before = list(gc.callbacks)
    made = Tidier(lambda: quiet[0], lambda: now_s[0])
    made.start()
    yield made, now_s, quiet
    made.stop()
    assert gc.callbacks == before
    gc.unfreeze()


def survivor() -> "weakref.ref[Ring]":
    """A cycle that grew old and died then."""
    ring = Ring()
    gc.collect(0)
    gc.collect(1)
    return weakref.ref(ring)


async def test_what_grew_old_is_looked_at_in_a_quiet_moment_alone(
    tidier: tuple[Tidier, list[float], list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "QUIET_PAUSE_S", 0.02)
    made, now_s, quiet = tidier
    gone, frozen = survivor(), gc.get_freeze_count()
    assert frozen > 0
    now_s[0] = DEEP_EVERY_S
    gc.collect()  # as an automatic one would: it does not see what is frozen
    await made.look()
    assert gone() is not None  # somebody speaks
    quiet[0] = True
    looking = asyncio.ensure_future(made.look())
    await asyncio.sleep(0.05)
    quiet[0] = False
    await looking
    assert gone() is not None  # it was quiet between two jobs only
    quiet[0] = True
    await made.look()
    assert gone() is None


def test_what_is_frozen_before_the_start_is_not_looked_at_then() -> None:
    """A process that holds much already, such as one that runs all tests, would stand still at every start."""
    ring, made = Ring(), Tidier(lambda: True)
    gone = weakref.ref(ring)
    gc.freeze()
    del ring
    made.start()
    assert gone() is not None
    made.stop()
    gc.unfreeze()
    gc.collect()
    assert gone() is None


async def test_the_oldest_generation_stays_empty_however_much_is_made(
    tidier: tuple[Tidier, list[float], list[bool]],
) -> None:
    full = gc.get_stats()[2]["collections"]
    kept = [[number] for number in range(200_000)]
    assert gc.get_stats()[2]["collections"] == full
    assert len(gc.get_objects(2)) < 1_000
    assert gc.get_freeze_count() > len(kept) - 20_000


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 looks at a little of everything instead")
async def test_a_collection_of_the_middle_generation_looks_at_few_objects(
    tidier: tuple[Tidier, list[float], list[bool]],
) -> None:
    looked_at = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == garbage.MIDDLE:
            looked_at.append(len(gc.get_objects(0)) + len(gc.get_objects(1)))

    gc.callbacks.append(note)
    try:
        kept = [[number] for number in range(50_000)]
    finally:
        gc.callbacks.remove(note)
    assert kept
    assert len(looked_at) > 5
    assert max(looked_at) < 5 * gc.get_threshold()[0]


async def test_when_memory_has_grown_a_lot_nobody_waits_for_a_quiet_moment(
    tidier: tuple[Tidier, list[float], list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _, _ = tidier
    gone = survivor()
    await made.look()
    assert gone() is not None
    before = garbage.resident_bytes()
    monkeypatch.setattr(garbage, "resident_bytes", lambda: before * 2 + garbage.GROWN_BYTES + 2**26)
    await made.look()
    assert gone() is None


async def test_young_cycles_are_freed_as_ever(tidier: tuple[Tidier, list[float], list[bool]]) -> None:
    gone = weakref.ref(Ring())
    gc.collect(1)
    assert gone() is None
