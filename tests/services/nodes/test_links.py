"""The table of connected nodes, and what each was sent."""

from types import SimpleNamespace
from typing import Any, cast

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.complaints import Complaint, SuspendOutcome
from lingua_scheduler.domain.nodes.nodes import Features, MachineLoad, Profile
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.domain.pools.pools import Languages
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.nodes.links import NodeLink, NodeLinks
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.losses import Loss
from tests.support.connected import Ear

# As plain values: a limit that changes is noticed.
IN_DOUBT_S = 30.0

ATTEMPT = Attempt("job-0-a", 1, "n1", 0)


def link_of(*, reports_jobs: bool = False, max_jobs: int = 4, clock: Clock = SYSTEM_CLOCK) -> NodeLink:
    profile = Profile(Languages(), frozenset(), max_jobs, Features(), reports_jobs, True, "b", "1", "linux")
    return NodeLink("n1", Owner("i-here", "c1"), Ear(), profile, 45_000, cast("Any", None), clock)


def test_only_the_latest_connection_of_a_node_is_current() -> None:
    links, first, second = NodeLinks("i-here"), link_of(), link_of()
    for link in (first, second):
        links.add(link)
    assert (len(links), links.find("n1"), links.is_current(first)) == (1, second, False)
    assert (links.drop(first), "n1" in links) == (False, True)
    assert (links.drop(second), links.drop(second), links.all()) == (True, False, [])


def test_a_node_that_is_sent_away_is_not_current_and_may_come_back() -> None:
    links, link = NodeLinks("i-here"), link_of()
    links.add(link)
    links.send_away(link)
    assert not links.is_current(link)
    assert cast("Ear", link.peer).closed == [CloseCode.COME_BACK]


def test_what_a_node_was_sent_is_over_when_it_is_lost_unless_the_node_vanished_or_tells_itself() -> None:
    for reports_jobs, reason, is_remembered in (
        (False, Loss.ACK_TIMEOUT, False),
        (False, Loss.NODE_SILENT, True),
        (True, Loss.ACK_TIMEOUT, True),
    ):
        link = link_of(reports_jobs=reports_jobs)
        link.remember(ATTEMPT)
        link.forget(ATTEMPT, reason)
        assert (ATTEMPT.job_id in link.sent) is is_remembered


def test_what_a_silent_node_was_sent_long_ago_counts_as_over_when_much_is_remembered() -> None:
    link = link_of(max_jobs=1)
    for serial in range(5):
        link.remember(ATTEMPT._replace(job_id=f"job-0-{serial}"))
    link.run_max_s = -1.0
    link.remember(ATTEMPT)
    assert list(link.sent) == [ATTEMPT.job_id]


def test_a_new_link_knows_nothing_yet_of_its_node() -> None:
    link = link_of()
    assert (link.place, link.written_profile, link.epoch, link.pools) == (Place(), None, "", frozenset())
    assert (link.shard, link.sent, link.digest, link.look, link.trust) == (Place().shard, {}, "", "", "")
    assert (link.queue, link.written_queue, link.tells_interval, link.hinted) == (0, None, False, None)
    assert link.load == MachineLoad()
    assert link.run_max_s == 60.0


def test_a_hint_is_told_once_until_it_changes() -> None:
    link, told = link_of(), list[Any]()
    link.peer = cast("Any", SimpleNamespace(post=told.append))
    for hint in ("too long", "too long", None, "too long", "too short"):
        link.hint(hint)
    assert [(message.code, message.message) for message in told] == [
        ("INVALID_CAPABILITY_SCHEMA", hint) for hint in ("too long", "too long", "too short")
    ]


def test_connected_nodes_are_counted() -> None:
    links, link = NodeLinks("i-here"), link_of()
    links.add(link)
    assert metrics.REGISTRY.get_sample_value("lingua_nodes_connected") == 1
    links.drop(link)
    assert metrics.REGISTRY.get_sample_value("lingua_nodes_connected") == 0


def test_orders_for_a_node_that_was_written_again_are_in_doubt_for_a_while() -> None:
    now_s = [100.0]
    link = link_of(clock=lambda: now_s[0])
    assert not link.is_in_doubt
    link.doubt()
    assert link.is_in_doubt
    now_s[0] += IN_DOUBT_S - 1
    assert link.is_in_doubt
    now_s[0] += 1
    assert [link.is_in_doubt, link.is_in_doubt] == [False, False]


def test_a_node_complains_of_a_service_every_five_seconds_and_thirty_times_in_ten() -> None:
    link = link_of()
    complaints = [Complaint(f"service-{number}") for number in range(31)]
    judged = [link.complaints.judge(complaint, 1_000.0) for complaint in complaints]
    assert judged == [SuspendOutcome.SUSPENDED] * 30 + [SuspendOutcome.LIMITED]
    assert link.complaints.judge(complaints[0], 5_999.0) is SuspendOutcome.DEBOUNCED
    assert link.complaints.judge(complaints[0], 6_000.0) is SuspendOutcome.LIMITED
    assert link.complaints.judge(complaints[0], 11_000.0) is SuspendOutcome.SUSPENDED
