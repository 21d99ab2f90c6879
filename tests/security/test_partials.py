"""A node that floods a listener with partials: the listener stays connected and gets its result."""

import asyncio

from lingua_scheduler.telemetry import metrics
from tests.support.peers import FakeNode, Frame, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

FLOOD = 400


async def flood(node: FakeNode, job: Frame) -> None:
    about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
    for number in range(FLOOD):
        said = {"text": "x" * 20_000, "is_final": number % 2 == 0, "node_id": node.node_id}
        await node.socket.send({"type": "asr_partial"} | about | said)
    await node.socket.send(result_of(job, node.node_id))


async def test_a_flood_of_partials_does_not_close_its_listener(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, server__outbox_max_bytes=500_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        await peers.node(flood)
        listener = await peers.client()
        overflows, dropped = metrics.OVERFLOWS._value.get(), metrics.PARTIALS_DROPPED._value.get()
        listener.socket.fall_silent()
        await listener.utterance(0)
        await asyncio.sleep(1)
        listener.socket._transport.resume_reading()
        assert (await listener.outcome())["type"] == "translation_result"
        shown = len(listener.socket.of_type("asr_partial"))
        print(f"{FLOOD} partials were sent, {shown} shown")
        assert 0 < shown < FLOOD / 2
        assert metrics.OVERFLOWS._value.get() == overflows
        assert metrics.PARTIALS_DROPPED._value.get() > dropped
