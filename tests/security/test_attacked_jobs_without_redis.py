"""Jobs without a task (decision 0034) while Redis fails between any two of their steps: nothing is lost, nothing runs
twice without need, no slot stays taken, and nothing is logged as an error but that Redis is away."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.attacked_jobs import FRENCH, Attack, Scene, do_well, scene
from tests.support.peers import FakeNode, Frame, acknowledgement, answer
from tests.support.servers import RedisProcess
from tests.support.waiting import until

ROUNDS = 10
# Shorter than Redis may take, and longer.
FROZEN_S = 0.3, 1.8


class Fault:
    """Something that Redis does for a while; `redis.down` may be logged then, and nothing else."""

    def __init__(
        self, begin: Callable[[RedisProcess], None], end: Callable[[RedisProcess], None], lasts_s: float
    ) -> None:
        self._begin = begin
        self._end = end
        self._lasts_s = lasts_s

    async def happen(self, server: RedisProcess, meanwhile: Awaitable[Any]) -> None:
        self._begin(server)
        try:
            await meanwhile
            await asyncio.sleep(self._lasts_s)
        finally:
            self._end(server)


def nothing(_: RedisProcess) -> None:
    pass


def freeze(server: RedisProcess) -> None:
    server.signal(signal.SIGSTOP)


def thaw(server: RedisProcess) -> None:
    server.signal(signal.SIGCONT)


def refuse(server: RedisProcess) -> None:
    """What needs memory."""
    server.command("CONFIG", "SET", "maxmemory", "1")


def accept(server: RedisProcess) -> None:
    server.command("CONFIG", "SET", "maxmemory", "0")


def refuse_all(server: RedisProcess) -> None:
    server.command("CONFIG", "SET", "min-replicas-to-write", "1")


def accept_all(server: RedisProcess) -> None:
    server.command("CONFIG", "SET", "min-replicas-to-write", "0")


FAULTS = {
    "frozen shortly": Fault(freeze, thaw, FROZEN_S[0]),
    "frozen for long": Fault(freeze, thaw, FROZEN_S[1]),
    "out of memory": Fault(refuse, accept, FROZEN_S[1]),
    "refusing writes": Fault(refuse_all, accept_all, FROZEN_S[1]),
    "flushed": Fault(RedisProcess.flush, nothing, 0.0),
}


def at_the_ack(fault: Fault) -> Attack:
    async def attack(there: Scene, node: FakeNode, job: Frame) -> None:
        await fault.happen(there.server, node.socket.send(acknowledgement(job, node.node_id)))
        await answer(node, job)

    return attack


def at_the_result(fault: Fault) -> Attack:
    async def attack(there: Scene, node: FakeNode, job: Frame) -> None:
        await node.socket.send(acknowledgement(job, node.node_id))
        await until(lambda: any(grant["job_id"] == job["job_id"] for grant in node.socket.of_type("job_grant")))
        await fault.happen(there.server, answer(node, job))

    return attack


def after_the_result(fault: Fault) -> Attack:
    async def attack(there: Scene, node: FakeNode, job: Frame) -> None:
        await do_well(there, node, job)
        await fault.happen(there.server, asyncio.sleep(0))

    return attack


def as_the_node_leaves(fault: Fault) -> Attack:
    async def attack(there: Scene, node: FakeNode, job: Frame) -> None:
        await fault.happen(there.server, leave(node))
        await until(lambda: there.is_back(node.node_id))

    return attack


async def leave(node: FakeNode) -> None:
    node.socket.drop()


STEPS = {
    "at the ack": at_the_ack,
    "at the result": at_the_result,
    "after the result": after_the_result,
    "as the node leaves": as_the_node_leaves,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", STEPS)
async def test_a_redis_that_fails_between_two_steps_neither_loses_nor_doubles_a_job(
    step: str, fault: str, server: RedisProcess
) -> None:
    async with scene(server) as there:
        there.attack = STEPS[step](FAULTS[fault])
        outcome = await there.speak()
        there.attack = do_well
        assert outcome["type"] == "translation_result", outcome
        assert there.runs(outcome) <= (2 if step == "as the node leaves" else 1)
        # The next one would be refused at once while Redis is away.
        await until(lambda: there.store.is_ready and not there.attacks)
        await there.settle()
        await there.honestly()
        assert (await there.speak())["type"] == "translation_result"


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_redis_that_fails_as_a_slot_is_asked_for_leaks_none(fault: str, server: RedisProcess) -> None:
    async with scene(server) as there:
        index = next(there.numbers)
        await FAULTS[fault].happen(server, there.client.utterance(index, **FRENCH))
        outcome = await there.client.outcome()
        print(f"{fault}: {outcome['type']}")
        assert outcome["type"] == "translation_result" or fault in ("out of memory", "refusing writes")
        assert there.runs(outcome) <= 1
        await until(lambda: there.store.is_ready)
        await there.settle()
        assert (await there.speak())["type"] == "translation_result"


@pytest.mark.parametrize("fault", ["frozen for long", "refusing writes"])
async def test_a_node_that_leaves_while_redis_is_away_gets_no_job_afterwards(fault: str, server: RedisProcess) -> None:
    """Long before its heartbeats run out: it looks idle, and every job of its languages would be tried there."""
    async with scene(server) as there:
        gone = there.rogues[0]
        await FAULTS[fault].happen(server, leave(gone))
        await until(lambda: there.store.is_ready)

        async def is_removed() -> bool:
            return gone.node_id not in {view.node_id for view in await there.store.node_views.all()}

        await until(is_removed)
        for _ in range(ROUNDS):
            assert (await there.speak())["type"] == "translation_result"
        assert there.scheduler._dispatcher.retries_made == 0
        await there.settle()
