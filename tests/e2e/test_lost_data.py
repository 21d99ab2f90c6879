"""Redis loses everything while many people speak at two instances: it is noticed by all, and mended once."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.protocol.signals import DataLost
from lingua_scheduler.store.store import Store
from tests.support.peers import FakeClient, FakeNode, Frame, answer, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

# At each instance.
PEOPLE = 30
# How often each instance tells of the loss and writes its nodes again: as a rule once because an utterance met it, and
# once because the other instance told. The stock, or a beat that finds us forgotten, may notice it too. In a storm it
# would be once for each utterance.
FEW = PEOPLE // 5
# All slots that a node claims are its own, and on a busy machine nobody gives up.
PATIENT = {"nodes__believed_slots": 0, "job__timeout_base_ms": 60_000, "dispatch__queue_wait_ms": 30_000}


class Listener:
    """Hears on the real channel who tells of lost data."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()

    def hear(self, signal: DataLost) -> None:
        self.told[signal.instance] += 1


@asynccontextmanager
async def listener_on(store: Store) -> AsyncIterator[Listener]:
    listener = Listener()
    task = asyncio.create_task(store.signals.listen(defaultdict(lambda: _ignore, {DataLost: listener.hear})))
    await store.signals.listening.wait()
    try:
        yield listener
    finally:
        task.cancel()


def _ignore(_signal: object) -> None:
    """What else instances tell each other."""


def count_writes(scheduler: Scheduler, written: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """How often an instance writes all of its nodes again; it does so as ever."""
    reassert = scheduler._connected.reassertion.reassert

    async def counted() -> None:
        written[scheduler.instance] += 1
        await reassert()

    monkeypatch.setattr(scheduler._connected.reassertion, "reassert", counted)


async def test_a_loss_that_many_people_meet_at_two_instances_is_mended_once_and_costs_no_utterance(
    server: RedisProcess, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_finish = asyncio.Event()
    written: Counter[str] = Counter()

    async def later(node: FakeNode, job: Frame) -> None:
        await may_finish.wait()
        await answer(node, job)

    async with (
        scheduler_on(server.url, **PATIENT) as (a, _),
        scheduler_on(server.url, **PATIENT) as (b, _),
        field(a.port) as at_a,
        field(b.port) as at_b,
        listener_on(store) as listener,
    ):
        nodes = [await peers.node(later, max_concurrent_jobs=2 * PEOPLE) for peers in (at_a, at_b)]
        clients = [await peers.client() for peers in (at_a, at_b) for _ in range(PEOPLE)]
        await asyncio.gather(*(client.utterance(0) for client in clients))
        await until(lambda: sum(node.running for node in nodes) == len(clients))
        for scheduler in (a, b):
            count_writes(scheduler, written, monkeypatch)

        server.flush()
        # Half of the slots are taken, and all that is said now finds nobody in Redis.
        await asyncio.gather(*(client.utterance(1) for client in clients))
        await until(lambda: sum(node.running for node in nodes) == 2 * len(clients), 30)
        may_finish.set()
        heard = [await both_outcomes(client) for client in clients]

        assert heard == [[(0, "translation_result"), (1, "translation_result")]] * len(clients)
        assert sum(len(node.jobs) for node in nodes) == 2 * len(clients)  # nothing was translated twice
        assert all(node.most_at_once <= 2 * PEOPLE for node in nodes)
        assert listener.told.keys() <= {a.instance, b.instance}
        assert max(listener.told.values(), default=0) <= FEW
        assert set(written) == {a.instance, b.instance}
        assert max(written.values()) <= FEW
        for client in clients:
            await until(partial(store.line.call, "EXISTS", store.keys.session(client.session_id)), 30)


async def both_outcomes(client: FakeClient) -> list[tuple[int, str]]:
    outcomes = [await client.outcome(30) for _ in range(2)]
    return sorted((outcome["utterance_index"], outcome["type"]) for outcome in outcomes)
