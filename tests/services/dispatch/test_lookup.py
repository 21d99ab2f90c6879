"""A job in one sentence, and as a record."""

from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.domain.access.visibility import Visibility
from lingua_scheduler.domain.jobs.history import JobStep
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.watching.failures import FailureFilter
from lingua_scheduler.protocol.http_jobs import CandidateView, Explanation
from lingua_scheduler.services.dispatch.lookup import Lookup, _headline, _tried, _view
from lingua_scheduler.store.jobs.records import JobFilter, JobRecord

THEN, NOW = Explanation(headline="all were busy"), Explanation(headline="nobody speaks it")
RECORD = JobRecord(
    job_id="job-0-1",
    shard=0,
    state="DISPATCHED",
    attempt=1,
    node_id="n1",
    pools=("en:zh:speech",),
    session_id="s-00000001",
    utterance_index=7,
    owner="i-here",
    reason="",
    detail="",
    times_ms={"created": 5},
    history=(),
    explanation="",
)


@pytest.mark.parametrize(
    ("changes", "then", "now", "headline"),
    [
        ({"state": "FAILED", "detail": "no node", "reason": "R", "attempt": 0}, None, None, "no node"),
        ({"state": "FAILED", "reason": "R", "attempt": 0}, None, None, "R"),
        ({"state": "FAILED", "attempt": 0}, None, None, "it failed"),
        ({"state": "FAILED", "node_id": ""}, None, None, "it failed"),
        ({"state": "FAILED", "detail": "it broke"}, None, None, "it broke; see the log of node n1 for job-0-1"),
        ({"state": "CANCELLED"}, THEN, NOW, "it was cancelled"),
        ({"state": "CREATED", "attempt": 0}, None, None, "it is waiting for its first node"),
        ({"state": "RETRYING", "attempt": 1}, None, NOW, "it is waiting for attempt 2: nobody speaks it"),
        ({"attempt": 2}, THEN, None, "it was retried, attempt 2 on n1; before that: all were busy"),
        ({"attempt": 2}, None, None, "it was retried, attempt 2 on n1"),
        ({}, THEN, None, "it waited, then was sent to n1; when it began to wait: all were busy"),
        ({"state": "DONE"}, None, None, "it was dispatched without waiting: attempt 1 on n1"),
        ({"state": "NO_TEXT"}, None, None, "it was dispatched without waiting: attempt 1 on n1"),
        ({}, None, None, "it is in progress: attempt 1 on n1"),
    ],
)
def test_a_job_is_told_in_a_sentence(
    changes: dict[str, object], then: Explanation | None, now: Explanation | None, headline: str
) -> None:
    assert _headline(RECORD._replace(**changes), then, now) == headline  # type: ignore[arg-type]


def test_the_nodes_that_lost_it_are_told_once_each_in_their_order() -> None:
    lost = [JobStep(JobState.RETRYING, 1, number, node, "") for number, node in enumerate(("n1", "n2", "n1", ""))]
    record = RECORD._replace(history=(JobStep(JobState.DISPATCHED, 0, 1, "n9", ""), *lost), node_id="n3")
    assert _tried(record) == ["n1", "n2"]
    assert _tried(record._replace(state="RETRYING")) == ["n1", "n2", "n3"]


def test_a_record_is_shown_with_its_languages() -> None:
    view = _view(RECORD._replace(reason="R", detail="D", history=(JobStep(JobState.CREATED, 5, 0, "", ""),)))
    assert (view.job_id, view.state, view.attempt, view.node_id) == ("job-0-1", "DISPATCHED", 1, "n1")
    assert (view.src_lang, view.tgt_lang, view.pools) == ("en", "zh", ["en:zh:speech"])
    assert (view.utterance_index, view.owner, view.shard) == (7, "i-here", 0)
    assert (view.reason, view.detail, view.times_ms) == ("R", "D", {"created": 5})
    assert [line.at_ms for line in view.history] == [5]
    assert view.session_id
    assert (_view(RECORD._replace(pools=())).src_lang, _view(RECORD._replace(pools=())).tgt_lang) == ("", "")


class Shelf:
    """The store, with one record; and the explainer, which keeps what it was asked."""

    def __init__(self, record: JobRecord | None) -> None:
        self.jobs = self.failures = self
        self.record = record
        self.asked: list[tuple[Any, ...]] = []

    async def find(self, job_id: str) -> JobRecord | None:
        return self.record if job_id == "job-0-1" else None

    async def latest(self, asked: Any, limit: int) -> list[Any]:
        self.asked.append((asked, limit))
        return [self.record]

    async def survey(self, pools: Any, tried: Any, headline: str = "", holder: str = "") -> Explanation:
        self.asked.append((pools, tried, headline, holder))
        return NOW


def lookup_of(record: JobRecord | None) -> tuple[Lookup, Shelf]:
    shelf = Shelf(record)
    return Lookup(cast("Any", shelf), cast("Any", shelf)), shelf


async def test_jobs_and_failures_are_found_as_asked() -> None:
    lookup, shelf = lookup_of(RECORD)
    assert await lookup.find("job-0-1") == _view(RECORD)
    assert await lookup.find("job-0-9") is None
    assert await lookup.latest(JobFilter(state="DONE"), 7) == [_view(RECORD)]
    assert len(await lookup.failures(FailureFilter(node_id="n1"), 3)) == 1
    assert shelf.asked == [(JobFilter(state="DONE"), 7), (FailureFilter(node_id="n1"), 3)]


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        # The node that has it is not held against it.
        ({"state": "RUNNING"}, [(RECORD.pools, [], "", "n1")]),
        ({"state": "RETRYING"}, [(RECORD.pools, ["n1"], "", "")]),
        ({"state": "FAILED", "attempt": 0}, [(RECORD.pools, [], "", "")]),
        ({"state": "FAILED", "attempt": 1}, []),
        ({"state": "DONE", "attempt": 0}, []),
        ({"state": "RUNNING", "pools": ()}, []),
    ],
)
async def test_what_has_not_ended_or_found_nobody_is_explained_as_of_now(
    changes: dict[str, Any], asked: list[tuple[Any, ...]]
) -> None:
    lookup, shelf = lookup_of(RECORD._replace(**changes))
    told = await lookup.explain("job-0-1")
    assert told is not None
    assert shelf.asked == asked
    assert (told.job_id, told.state, told.then) == ("job-0-1", changes["state"], None)
    assert told.now == (NOW if asked else None)
    assert told.headline == _headline(RECORD._replace(**changes), None, told.now)
    assert await lookup.explain("job-0-9") is None


async def test_what_was_explained_then_is_told_with_it() -> None:
    lookup, _ = lookup_of(RECORD._replace(state="DONE", explanation=msgspec.json.encode(THEN).decode()))
    told = await lookup.explain("job-0-1")
    assert told is not None
    assert told.then == THEN
    assert told.headline == "it waited, then was sent to n1; when it began to wait: all were busy"


async def test_a_tenant_learns_the_names_of_its_own_nodes_alone() -> None:
    history = (JobStep(JobState.RETRYING, 1, 1, "n1", ""), JobStep(JobState.DISPATCHED, 2, 2, "n2", ""))
    told = Explanation(
        headline="n1 has the job", candidates=[CandidateView(name, "full", "") for name in ("n1", "n2", "n3")]
    )
    record = RECORD._replace(
        state="FAILED",
        attempt=2,
        node_id="n1",
        detail="n1 and n2 failed",
        history=history,
        belongs_to="d",
        tenant="acme",
    )
    record = record._replace(explanation=msgspec.json.encode(told).decode())
    lookup, _ = lookup_of(record)
    mine, anothers = Visibility(tenant="acme"), Visibility(tenant="beta")
    assert await lookup.find("job-0-1", anothers, {"n2"}) is None
    assert await lookup.explain("job-0-1", anothers, {"n2"}) is None
    view = await lookup.find("job-0-1", mine, {"n2"})
    assert view is not None
    assert (view.node_id, view.detail, [line.node_id for line in view.history]) == (
        "",
        "a node and n2 failed",
        ["", "n2"],
    )
    explained = await lookup.explain("job-0-1", mine, {"n2"})
    assert explained is not None
    assert explained.then is not None
    assert (explained.headline, explained.then.headline) == ("a node and n2 failed", "a node has the job")
    assert [one.node_id for one in explained.then.candidates] == ["n2"]
    # A caller learns where its own job was, and no other node.
    own = await lookup.explain("job-0-1", Visibility(belongs_to="d"), {"n2"})
    assert own is not None
    assert own.then is not None
    assert [one.node_id for one in own.then.candidates] == ["n1", "n2"]
