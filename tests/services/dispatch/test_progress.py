"""What nodes report: a result that is in Redis is told, whatever happens after."""

import asyncio
from typing import Any, cast

import pytest

from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.domain.nodes.nodes import Features, Profile
from lingua_scheduler.domain.pools.pools import Languages
from lingua_scheduler.protocol.node import JobResult
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.judging import Judge
from lingua_scheduler.services.dispatch.progress import Progress
from lingua_scheduler.services.dispatch.relay import Relay
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.complaints import Complaints
from lingua_scheduler.services.nodes.pacing import Pace
from lingua_scheduler.services.nodes.registry import NodeLink
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.nodes.nodes import Place
from lingua_scheduler.store.store import Store
from tests.support.fleet import HERE, dispatch, entry, join, ledger, order
from tests.support.schedulers import settings_with
from tests.support.speech import work
from tests.support.waiting import until
from tests.support.walls import Wall

RUN_MAX_MS = 50
PROFILE = Profile(
    declared=Languages(),
    down=frozenset(),
    max_jobs=2,
    features=Features(acknowledges=False),
    reports_jobs=False,
    takes_jobs=True,
    boot_id="",
    version="1",
    platform="test",
)


class NoRelay:
    """All jobs are of this instance."""

    def foreign(self, _job_id: str, _link: NodeLink) -> None:
        return None


def progress(store: Store, assignments: Assignments) -> Progress:
    settings = settings_with()
    return Progress(
        "i-here",
        store,
        Judge(store.jobs, settings.nodes),
        cast("Complaints", cast("Any", None)),
        cast("Relay", cast("Any", NoRelay())),
        assignments,
        WaitingRoom(10, 1.0),
        lambda _work, _partial: None,
        RUN_MAX_MS,
    )


async def test_the_result_of_an_adopted_job_is_told_though_its_slot_cannot_be_freed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join(store, entry("n1"))
    attempt, placed = await dispatch(store, order(1))
    assignments = Assignments(lambda _step, _assignment: None)
    assignment = assignments.open(attempt, work(), "i-here", acknowledges=False)
    link = NodeLink("n1", HERE, Wall(), PROFILE, 45_000, Pace(settings_with().nodes))
    link.epoch, link.place = placed.epoch, Place(0)
    link.sent[attempt.job_id] = (Attempt(attempt.job_id, ADOPTED, "n1", 0), float("-inf"))
    result = JobResult(
        job_id=attempt.job_id,
        attempt_id=1,
        node_id="n1",
        session_id="s-00000001",
        utterance_index=0,
        success=True,
        trace_id="t",
        text_asr="a",
        text_translated="b",
    )
    go_on, asked = asyncio.Event(), asyncio.Event()

    async def fail(*_: object) -> None:
        asked.set()
        await go_on.wait()
        raise RedisAway("gone at that moment")

    monkeypatch.setattr(store.jobs, "end", fail)
    telling = asyncio.create_task(progress(store, assignments).result(link, result))
    await asked.wait()
    await until(lambda: assignment.report is result)  # nobody waits for the slot to be freed
    go_on.set()
    assert await telling
    assert await ledger(store, "n1") == (0, 2, 0)
