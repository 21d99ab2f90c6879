"""What a node says too fast waits; the newest wins, and nothing it changed is forgotten."""

from typing import Any

import pytest

from lingua_scheduler.services.nodes.pacing import Pace, merged
from lingua_sdk.protocol.node import LanguageCapabilities, NodeHeartbeat, ResourceUsage
from tests.support.schedulers import settings_with

# As plain values: a limit that changes is noticed.
STRAYS = 128
STRAYS_PATIENCE = 1_000
STRAYS_PER_S = 32

FRENCH, GERMAN = (LanguageCapabilities(asr_languages=[code]) for code in ("fr", "de"))


def beat(timestamp: int = 1, **more: Any) -> NodeHeartbeat:
    return NodeHeartbeat(
        node_id="n1",
        timestamp=timestamp,
        resource_usage=ResourceUsage(cpu_percent=0, mem_percent=0, running_jobs=0),
        installed_services=[],
        capability_by_type=[],
        **more,
    )


class Watch:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def pace(watch: Watch) -> Pace:
    return Pace(settings_with(nodes__max_heartbeats_per_s=2, nodes__max_changes_per_min=6).nodes, watch)


def test_the_later_heartbeat_wins_and_what_it_leaves_out_stays() -> None:
    found = merged(beat(1, language_capabilities=FRENCH, max_concurrent_jobs=3), beat(2, max_concurrent_jobs=4))
    assert (found.timestamp, found.language_capabilities, found.max_concurrent_jobs) == (2, FRENCH, 4)


def test_a_node_that_beats_as_it_should_never_waits(pace: Pace, watch: Watch) -> None:
    for _ in range(100):
        assert pace.may_beat()
        watch.now_s += 0.5


def test_of_what_comes_too_fast_the_newest_is_heeded_later(pace: Pace, watch: Watch) -> None:
    assert [pace.may_beat() for _ in range(6)] == [True] * 4 + [False] * 2
    assert pace.wait(beat(1, language_capabilities=FRENCH, running_job_ids=["job-0-1"]))
    assert pace.wait(beat(2))
    assert not pace.is_time()
    watch.now_s += 0.5
    assert pace.is_time()
    assert pace.may_beat()
    late = pace.catch_up(beat(3))
    # What it runs by now is another matter.
    assert (late.timestamp, late.language_capabilities, late.running_job_ids) == (3, FRENCH, None)
    assert pace.put_off is None


def test_a_long_list_of_pairs_counts_for_many_changes(pace: Pace, watch: Watch) -> None:
    many = LanguageCapabilities(nmt_capabilities=["en-zh"] * 16_000)
    assert pace.may_change(many)
    assert not pace.may_change(GERMAN)
    watch.now_s += 10
    assert pace.may_change(GERMAN)
    assert not pace.may_change(many)
    watch.now_s += 60
    assert pace.may_change(many)


def test_a_node_that_goes_on_is_closed(pace: Pace) -> None:
    answers = [pace.wait(beat(number)) for number in range(101)]
    assert (all(answers[:100]), answers[100]) == (True, False)
    changes = [pace.wait(beat(number), is_change=True) for number in range(19)]
    assert (all(changes[:18]), changes[18]) == (True, False)


def test_jobs_nobody_gave_it_are_accounted_for_at_once_then_slowly(pace: Pace, watch: Watch) -> None:
    assert pace.may_adopt(300) == 300
    assert pace.may_adopt(300) == 212
    watch.now_s += 1
    assert pace.may_adopt(300) == 32


def test_what_a_node_ran_then_is_not_heeded_later(pace: Pace) -> None:
    """By then it runs other jobs."""
    assert pace.wait(beat(1, running_job_ids=["job-0-1"], max_concurrent_jobs=3))
    assert pace.put_off is not None
    assert (pace.put_off.running_job_ids, pace.put_off.max_concurrent_jobs) == (None, 3)


def test_reports_that_change_nothing_make_a_node_rest_and_then_leave(pace: Pace, watch: Watch) -> None:
    assert {pace.stray() for _ in range(STRAYS)} == {0.0}
    assert pace.stray() == pytest.approx(1 / STRAYS_PER_S)
    rests = [pace.stray() for _ in range(STRAYS_PATIENCE)]
    assert None not in rests[:-1]
    assert rests[-1] is None
    watch.now_s += 3600
    assert pace.stray() == 0


def test_reading_lists_is_limited_by_itself(pace: Pace, watch: Watch) -> None:
    said = LanguageCapabilities()
    reads = 0
    while pace.may_read(said):
        reads += 1
    assert reads == 6
    assert pace.may_change(said)
    watch.now_s += 10
    assert pace.may_read(said)
    assert not pace.may_read(said)


def test_without_a_heartbeat_that_waits_it_is_never_time_for_it(pace: Pace) -> None:
    assert not pace.is_time()
    pace.wait(beat())
    assert pace.is_time()
