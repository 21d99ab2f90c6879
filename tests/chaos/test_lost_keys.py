"""Each kind of key is deleted in turn while people talk: service comes back by itself, and no slot is sold twice."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lingua_scheduler import app
from lingua_scheduler.store.keys import TABLE
from tests.support.crowds import is_all_free
from tests.support.lost_keys import all_keys, delete
from tests.support.peers import FakeClient, FakeNode, Field, Frame, field, heartbeat, result_of
from tests.support.schedulers import scheduler_on
from tests.support.waiting import lateness, until

SLOTS, NODES, PEOPLE = 2, 4, 3
BACK_S = 8.0
# Made when there is something to keep in them, and no loss when they are not there. Those of rooms and about access are
# deleted where there are some: test_lost_room_keys, test_lost_tenant_keys.
OCCASIONAL = re.compile(
    ":(held|leases|trouble|sick|complaints|queues|recent|wide|record|inbox|dead|adopter|epochs|room|parked|trust|past|unreadable|turn|failures|events|moments|memory|asked|missed|alarms|claim)\\b|{affinity|{auth}|{audit}|{request|{session|{room:|{rooms}|{rooms:|@<tenant>"
)
# There while somebody talks.
BUSY = re.compile(":(held|leases|record)\\b")
KINDS = [doc for doc in TABLE if doc.type != "channel"]


class Talk:
    """People who say something as soon as they have heard the last outcome."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.longest_s = 0.0

    async def go_on(self, client: FakeClient) -> None:
        index = 0
        while True:
            began_s = time.monotonic()
            await client.utterance(index)
            frame = await client.outcome(30)
            self.outcomes[frame["type"]] += 1
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            index += 1
            await asyncio.sleep(0.01)


async def work(node: FakeNode, job: Frame) -> None:
    await asyncio.sleep(0.03)
    await node.socket.send(result_of(job, node.node_id))


async def beat(node: FakeNode) -> None:
    """As our nodes do: what it runs, several times a second."""
    while True:
        running = [job["job_id"] for job in node.jobs[-SLOTS:] if job["job_id"] not in done(node)]
        await node.socket.send(heartbeat(node.node_id, running_job_ids=running, heartbeat_interval_ms=1_000))
        await asyncio.sleep(0.3)


def done(node: FakeNode) -> set[str]:
    return {frame["job_id"] for frame in node.socket.said[-20:] if frame["type"] == "job_result"}


@asynccontextmanager
async def talking(peers: Field) -> AsyncIterator[tuple[Talk, list[FakeNode]]]:
    """Two nodes that tell what they run, two that do not."""
    nodes = []
    for number in range(NODES):
        tells = {"running_job_ids": [], "heartbeat_interval_ms": 1_000} if number % 2 else {}
        nodes.append(await peers.node(work, max_concurrent_jobs=SLOTS, node_id=f"node-{number}", **tells))
    talk = Talk()
    tasks = [asyncio.create_task(beat(node)) for node in nodes[1::2]]
    tasks += [asyncio.create_task(talk.go_on(await peers.client())) for _ in range(PEOPLE)]
    try:
        yield talk, nodes
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_every_kind_of_key_may_be_lost(redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "STOCK_S", 0.2)
    monkeypatch.setattr(app, "DATA_VERSION_S", 0.5)
    settings = {
        "pools__shard_size": 2,
        "pools__refresh_ms": 1_000,
        "pools__leader_ms": 1_000,
        "instances__beat_ms": 300,
    }
    async with (
        scheduler_on(redis.url, **settings) as (scheduler, store),
        field(scheduler.port) as peers,
        talking(peers) as (talk, nodes),
        lateness() as late,
    ):
        await until(lambda: talk.outcomes["translation_result"] > 20, 20, "people talking")
        for doc in KINDS:
            before, began_s = talk.outcomes.copy(), time.monotonic()
            lost = await delete(store, doc)
            while BUSY.search(doc.pattern) and not lost:
                lost = await delete(store, doc)
            await until(
                lambda: talk.outcomes["translation_result"] > before["translation_result"] + 2 * PEOPLE,  # noqa: B023
                BACK_S,
                f"service after {doc.pattern} was lost",
            )
            back_s = time.monotonic() - began_s
            if not OCCASIONAL.search(doc.pattern):
                assert lost, doc.pattern

                async def is_there_again() -> bool:
                    return set(lost) <= set(await all_keys(store))  # noqa: B023

                await until(is_there_again, BACK_S, f"{doc.pattern} written again")
            failed = sum(talk.outcomes.values()) - talk.outcomes["translation_result"]
            whole_s = time.monotonic() - began_s
            times = f"talk after {back_s:.2f} s, whole after {whole_s:.2f} s"
            print(f"{doc.pattern:40} {len(lost):3} lost, {times}, {failed} failed")
        print(dict(talk.outcomes), f"longest {talk.longest_s:.1f} s", [node.most_at_once for node in nodes])
        assert talk.outcomes.keys() == {"translation_result"}
        # What a busy machine adds to each step of it is not the scheduler's.
        assert talk.longest_s < BACK_S + 10 * late.most_s
        assert all(node.most_at_once <= SLOTS for node in nodes)
        status, _ = await peers.get("/health/ready")
        assert status == 200
    async with scheduler_on(redis.url) as (_, store):
        await until(lambda: is_all_free(store, 0), 40, "no lease for ever")
