"""The way to a node: its connection here, or the instance that has it."""

from typing import Any, cast

import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.services.cluster.mailroom import Posted
from lingua_scheduler.services.dispatch.routes import Elsewhere, Here, Routes
from lingua_scheduler.store.connection import RedisAway
from lingua_sdk.protocol.node import JobAssign, JobCancel
from tests.services.nodes.http.test_nodes import assign

ATTEMPT = Attempt("job-0-1", 1, "n1", 5)
HERE, THERE = Owner("i1", "c1"), Owner("i2", "c9")


class Surroundings:
    """Links, relay, departures and what is known of nodes, all in one; it keeps what it is asked."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.posted = Posted.SENT
        self.is_away = False
        self.owner = HERE
        self.sent: dict[str, int] = {"job-0-1": 1, "job-0-2": 1}
        self.links = self.departures = self.peer = self.profile = self
        self.takes = True
        self.is_in_doubt = False
        self.leases = [ATTEMPT]

    def find(self, node_id: str) -> Any:
        return self if node_id == "n1" else None

    def remember(self, attempt: Attempt) -> None:
        self.told.append(("remember", attempt))

    def forget(self, attempt: Attempt, reason: str) -> None:
        self.told.append(("forget", attempt, reason))

    def post(self, message: object) -> bool:
        self.told.append(("post", message))
        return self.takes

    async def assign(self, owner: Owner, attempt: Attempt, order: bytes, traceparent: str) -> Posted:
        assert b"job-0-1" in order
        self.told.append(("assign", owner, attempt, traceparent))
        return self.posted

    def cancel(self, owner: Owner, attempt: Attempt, reason: str) -> None:
        self.told.append(("cancel", owner, attempt, reason))

    async def has_lease(self, attempt: Attempt) -> bool:
        self.told.append(("lease", attempt))
        if self.is_away:
            raise RedisAway("nobody there")
        return attempt in self.leases

    async def remove_orphan(self, shard: int, node_id: str, owner: Owner) -> None:
        self.told.append(("orphan", shard, node_id, owner))
        if self.is_away:
            raise RedisAway("nobody there")


class Views:
    async def reports_jobs(self, node_id: str, shard: int) -> bool:
        return (node_id, shard) == ("n1", 5)


@pytest.fixture
def around() -> Surroundings:
    return Surroundings()


@pytest.fixture
def routes(around: Surroundings) -> Routes:
    return Routes("i1", cast("Any", around), cast("Any", around), cast("Any", Views()), cast("Any", around))


ORDER: JobAssign = assign("job-0-1")


def test_a_node_is_here_elsewhere_or_gone(routes: Routes) -> None:
    assert isinstance(routes.find(ATTEMPT, HERE), Here)
    assert isinstance(routes.find(ATTEMPT, THERE), Elsewhere)
    assert routes.find(ATTEMPT._replace(node_id="n2"), HERE) is None
    # It has connected again meanwhile.
    assert routes.find(ATTEMPT, Owner("i1", "c2")) is None


@pytest.mark.parametrize("takes", [True, False])
async def test_a_job_is_remembered_before_it_is_sent_here(around: Surroundings, routes: Routes, takes: bool) -> None:
    around.takes = takes
    route = routes.find(ATTEMPT, HERE)
    assert route is not None
    assert await route.send(ATTEMPT, ORDER) is takes
    assert around.told == [("remember", ATTEMPT), ("post", ORDER)]


async def test_a_job_for_a_node_that_was_written_again_is_sent_only_if_its_lease_is_there(
    around: Surroundings, routes: Routes
) -> None:
    around.is_in_doubt = True
    route = routes.find(ATTEMPT, HERE)
    assert route is not None
    assert await route.send(ATTEMPT, ORDER)
    assert around.told == [("lease", ATTEMPT), ("remember", ATTEMPT), ("post", ORDER)]
    around.told.clear()
    around.leases.clear()
    assert not await route.send(ATTEMPT, ORDER)
    around.is_away = True
    assert not await route.send(ATTEMPT, ORDER)
    assert around.told == [("lease", ATTEMPT)] * 2


async def test_a_job_is_cancelled_and_forgotten_here(around: Surroundings, routes: Routes) -> None:
    route = routes.find(ATTEMPT, HERE)
    assert route is not None
    cancel = JobCancel(job_id="job-0-1", reason="not wanted")
    route.cancel(ATTEMPT, cancel)
    route.cancel(ATTEMPT, JobCancel(job_id="job-0-1"))
    assert around.told[:3] == [("forget", ATTEMPT, "not wanted"), ("post", cancel), ("forget", ATTEMPT, "")]
    route.forget(ATTEMPT)
    route.forget(ATTEMPT)
    assert list(around.sent) == ["job-0-2"]


@pytest.mark.parametrize(("posted", "is_sent"), [(Posted.SENT, True), (Posted.GONE, False)])
@pytest.mark.parametrize("is_away", [True, False])
async def test_a_job_is_posted_to_the_instance_and_the_node_of_a_dead_one_removed(
    around: Surroundings, routes: Routes, posted: Posted, is_sent: bool, is_away: bool
) -> None:
    around.posted, around.is_away = posted, is_away
    route = routes.find(ATTEMPT, THERE)
    assert route is not None
    assert await route.send(ATTEMPT, ORDER) is is_sent
    orphaned = [] if is_sent else [("orphan", 5, "n1", THERE)]
    assert around.told == [("assign", THERE, ATTEMPT, ""), *orphaned]


async def test_a_job_elsewhere_is_cancelled_there(around: Surroundings, routes: Routes) -> None:
    route = routes.find(ATTEMPT, THERE)
    assert route is not None
    route.cancel(ATTEMPT, JobCancel(job_id="job-0-1", reason="not wanted"))
    route.cancel(ATTEMPT, JobCancel(job_id="job-0-1"))
    route.forget(ATTEMPT)
    assert around.told == [("cancel", THERE, ATTEMPT, "not wanted"), ("cancel", THERE, ATTEMPT, "")]


async def test_whether_a_node_reports_its_jobs_is_known_from_its_profile(around: Surroundings, routes: Routes) -> None:
    there = routes.find(ATTEMPT, THERE)
    assert there is not None
    assert await there.reports_jobs(ATTEMPT)
    assert not await there.reports_jobs(ATTEMPT._replace(shard=1))
    here = routes.find(ATTEMPT, HERE)
    assert here is not None
    for reports in (True, False):
        around.profile = cast("Any", type("Profile", (), {"reports_jobs": reports}))
        assert await here.reports_jobs(ATTEMPT) is reports


@pytest.mark.parametrize(("is_in_doubt", "takes"), [(False, True), (False, False), (True, True)])
def test_a_job_is_posted_at_once_only_if_nothing_has_to_be_looked_up(
    around: Surroundings, routes: Routes, is_in_doubt: bool, takes: bool
) -> None:
    around.is_in_doubt, around.takes = is_in_doubt, takes
    route = routes.find(ATTEMPT, HERE)
    assert isinstance(route, Here)
    assert route.post(ATTEMPT, ORDER) is (takes and not is_in_doubt)
    assert around.told == ([] if is_in_doubt else [("remember", ATTEMPT), ("post", ORDER)])
