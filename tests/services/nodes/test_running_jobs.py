"""What nodes run, compared with what they were given."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.services.nodes.pacing import Pace
from lingua_scheduler.services.nodes.running_jobs import RunningJobs
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.losses import Loss
from tests.support.connected import connected_to, registered
from tests.support.fleet import dispatch, ledger, order
from tests.support.schedulers import settings_with


@pytest.mark.parametrize(("reports_jobs", "expected"), [(True, 45_000), (False, 120_000)])
def test_a_slot_without_a_lease_is_held_until_the_next_beats_or_as_long_as_a_job_may_run(
    reports_jobs: bool, expected: int
) -> None:
    settings = settings_with(job__linger_ms=2_000, job__timeout_max_ms=120_000)
    nothing = cast("Any", None)
    running = RunningJobs(nothing, nothing, settings)
    link = SimpleNamespace(profile=SimpleNamespace(reports_jobs=reports_jobs), alive_ms=45_000)
    assert running.bound_ms(cast("NodeLink", cast("Any", link))) == expected


# With a real node


def long_ago(link: NodeLink, *jobs: str) -> None:
    for job_id in jobs:
        link.sent[job_id] = (Attempt(job_id, 1, "n1", 0), float("-inf"))


@pytest.fixture
async def link(store: Store) -> NodeLink:
    return await registered(connected_to(store), running_job_ids=[])


def running_on(store: Store, endings: Endings | None = None) -> RunningJobs:
    settings = settings_with()
    nobody = Assignments(lambda _step, _assignment: None)
    return RunningJobs(store.ledger, endings or Endings("i-here", store.jobs, nobody, settings.nodes), settings)


async def test_what_a_node_was_given_a_while_ago_and_does_not_run_is_lost(store: Store, link: NodeLink) -> None:
    attempt, _ = await dispatch(store, order(1))
    running = running_on(store)
    link.remember(attempt)
    await running.reconcile(link, [])
    assert list(link.sent) == [attempt.job_id]  # it may have crossed with the report
    long_ago(link, attempt.job_id)
    await running.reconcile(link, [attempt.job_id])
    assert (await ledger(store, "n1"))[0] == 1
    await running.reconcile(link, [])
    assert link.sent == {}
    assert await ledger(store, "n1") == (0, 4, 0)


async def test_what_a_node_runs_without_a_lease_takes_a_slot(store: Store, link: NodeLink) -> None:
    running = running_on(store)
    with capture_logs() as logged:
        await running.reconcile(link, ["job-0-strange", "rubbish"])
    assert [(line["event"], line["adopted"]) for line in logged] == [("leases.adopted", 1)]
    assert await ledger(store, "n1") == (1, 3, 1)
    assert link.sent["job-0-strange"][0] == Attempt("job-0-strange", ADOPTED, "n1", 0)
    await running.reconcile(link, [])
    assert await ledger(store, "n1") == (0, 4, 0)


async def test_of_many_strange_jobs_only_some_are_believed(
    store: Store, link: NodeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "may_adopt", lambda _, jobs: min(jobs, 1))
    await running_on(store).reconcile(link, ["job-0-a", "job-0-b"])
    assert len(link.sent) == 1


async def test_a_job_whose_result_came_while_redis_was_asked_gives_its_slot_back(store: Store, link: NodeLink) -> None:
    running = running_on(store)
    await running.reconcile(link, ["job-0-a"])
    del link.sent["job-0-a"]
    await running.account(link, ["job-0-a"])
    assert link.sent == {}
    assert await ledger(store, "n1") == (0, 4, 0)


async def test_when_a_job_of_a_node_that_does_not_tell_began_is_remembered(store: Store) -> None:
    silent = await registered(connected_to(store))
    silent.sent["job-0-a"] = (Attempt("job-0-a", 1, "n1", 0), 123.0)
    await running_on(store).account(silent, ["job-0-a"])
    assert silent.sent["job-0-a"] == (Attempt("job-0-a", ADOPTED, "n1", 0), 123.0)


def test_a_node_may_tell_of_no_more_jobs_than_it_may_have() -> None:
    settings = settings_with(nodes__max_jobs=2)
    nothing = cast("Any", None)
    running = RunningJobs(nothing, nothing, settings)
    assert len(running.reported([f"job-0-{number}" for number in range(10)])) == 4
    assert running.reported(["job-0-a", "x", "job-0-a"]) == {"job-0-a"}


class Heard:
    """Endings that only keep what they are told."""

    def __init__(self) -> None:
        self.lost: list[tuple[list[Attempt], str]] = []

    async def end_overdue(self, attempts: list[Attempt], reason: str) -> None:
        self.lost.append((list(attempts), reason))


@pytest.mark.parametrize(
    ("reports_jobs", "hands_back", "is_remembered"), [(True, False, True), (True, True, False), (False, False, False)]
)
async def test_what_a_process_was_given_elsewhere_is_remembered_if_it_tells_what_it_runs(
    store: Store, reports_jobs: bool, hands_back: bool, is_remembered: bool
) -> None:
    known: dict[str, Any] = {"running_job_ids": []} if reports_jobs else {}
    link = await registered(connected_to(store), **known)
    assert link.profile.reports_jobs is reports_jobs
    attempt, _ = await dispatch(store, order(1))
    heard = Heard()
    handed_back = [attempt] if hands_back else []
    await running_on(store, cast("Endings", cast("Any", heard))).take_over(link, handed_back)
    assert heard.lost == [(handed_back, Loss.NODE_RETURNED)]
    assert link.sent == ({attempt.job_id: (attempt, float("-inf"))} if is_remembered else {})
