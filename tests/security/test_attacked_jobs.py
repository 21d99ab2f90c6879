"""Jobs without a task (decision 0034) on nodes that break the rules.

Each utterance has one outcome, no node runs it twice without need, no slot stays taken, and nothing is logged as an
error. Another pair of client and node beside it is served all the time."""

import asyncio
from statistics import median

import pytest

from tests.support.attacked_jobs import Attack, Scene, do_well, scene
from tests.support.peers import FakeNode, Frame, acknowledgement, answer, result_of
from tests.support.servers import RedisProcess

ROUNDS = 10


async def ack_twice(there: Scene, node: FakeNode, job: Frame) -> None:
    await node.socket.send(acknowledgement(job, node.node_id))
    await do_well(there, node, job)


async def answer_before_the_ack(_: Scene, node: FakeNode, job: Frame) -> None:
    await answer(node, job)
    await node.socket.send(acknowledgement(job, node.node_id))
    await node.socket.send(acknowledgement(job, node.node_id) | {"type": "job_started"})


async def answer_twice(there: Scene, node: FakeNode, job: Frame) -> None:
    await do_well(there, node, job)
    await node.socket.send(result_of(job, node.node_id, text_translated="another"))


async def answer_for_other_attempts(there: Scene, node: FakeNode, job: Frame) -> None:
    for number in (0, 2, 99):
        await node.socket.send(result_of(job | {"attempt_id": number}, node.node_id, text_translated="another"))
    await do_well(there, node, job)


async def fail_and_answer(_: Scene, node: FakeNode, job: Frame) -> None:
    wrong = {"success": False, "error": {"code": "PROCESSING_ERROR", "message": "no"}}
    await node.socket.send(result_of(job, node.node_id, **wrong))
    await answer(node, job)


async def answer_and_leave(there: Scene, node: FakeNode, job: Frame) -> None:
    await do_well(there, node, job)
    node.socket.drop()
    await there.rogue(node.node_id)


async def leave_before_the_ack(there: Scene, node: FakeNode, job: Frame) -> None:
    node.socket.drop()
    await there.rogue(node.node_id)


async def answer_after_coming_back(there: Scene, node: FakeNode, job: Frame) -> None:
    """Its socket closes between order and ack; the same process comes back and sends the result."""
    node.socket.drop()
    back = await there.rogue(node.node_id)
    await answer(back, job)


async def answer_for_the_other(there: Scene, node: FakeNode, job: Frame) -> None:
    """The other node claims to have the result."""
    other = next(one for one in reversed(there.rogues) if one.node_id != node.node_id)
    await other.socket.send(result_of(job, other.node_id, text_translated="another"))
    await other.socket.send(result_of(job, node.node_id, text_translated="another"))
    await do_well(there, node, job)


ATTACKS: dict[str, tuple[Attack, int]] = {
    # And how often nodes may get the job.
    "acks twice": (ack_twice, 1),
    "answers before the ack": (answer_before_the_ack, 1),
    "answers twice": (answer_twice, 1),
    "answers for other attempts": (answer_for_other_attempts, 1),
    "answers for the other node": (answer_for_the_other, 1),
    "fails, and answers all the same": (fail_and_answer, 2),
    "answers and leaves": (answer_and_leave, 2),
    "leaves before the ack": (leave_before_the_ack, 2),
    "comes back and answers": (answer_after_coming_back, 2),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_node_that_breaks_the_rules_neither_loses_nor_doubles_a_job(name: str, server: RedisProcess) -> None:
    async with scene(server) as there:
        before = median(await there.honestly(30))
        there.attack, most_runs = ATTACKS[name]
        during: list[float] = []
        for _ in range(ROUNDS):
            outcome, taken = await asyncio.gather(there.speak(), there.honestly(3))
            during += taken
            assert outcome["type"] == "translation_result", outcome
            assert outcome["text_translated"].startswith("said")
            assert there.runs(outcome) <= most_runs
        print(f"{name}: median {before:.1f} ms before, {median(during):.1f} during: x {median(during) / before:.2f}")
        there.attack = do_well
        await there.settle()
        assert (await there.speak())["type"] == "translation_result"


async def test_a_cancellation_and_a_result_at_the_same_time_make_one_outcome(server: RedisProcess) -> None:
    async with scene(server) as there:
        ends: list[str] = []
        for number in range(3 * ROUNDS):

            async def race(there: Scene, node: FakeNode, job: Frame, number: int = number) -> None:
                await node.socket.send(acknowledgement(job, node.node_id))
                cancelling = asyncio.create_task(there.peers.post(f"/v1/jobs/{job['job_id']}/cancel"))
                await asyncio.wait((cancelling,), timeout=number / 5_000)
                await answer(node, job)
                await cancelling

            there.attack = race
            outcome, _ = await asyncio.gather(there.speak(), there.honestly())
            ends.append(outcome["type"])
            assert there.runs(outcome) == 1
        print({kind: ends.count(kind) for kind in set(ends)})
        await there.settle()
