"""Counters of workers that have ended stay in the sum."""

from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge

from lingua_scheduler.telemetry import departed
from lingua_scheduler.telemetry.figures import MetricFamily, lasting, snapshot, total


def figures(done: int) -> list[MetricFamily]:
    registry = CollectorRegistry()
    Counter("lingua_jobs_ended", "Jobs that ended", ["state"], registry=registry).labels("DONE").inc(done)
    Gauge("lingua_sessions_open", "Sessions here", registry=registry).set(5)
    return snapshot(registry)


def test_the_dead_keep_their_counts_but_not_their_gauges(tmp_path: Path) -> None:
    for name, done in (("0-11", 3), ("1-12", 4)):
        departed.note(tmp_path, name, figures(done))
    assert departed.living(tmp_path) == ["0-11", "1-12"]
    departed.bury(tmp_path, "0-11")
    departed.bury(tmp_path, "1-12")
    gone = departed.read(tmp_path)
    assert gone.names == ["0-11", "1-12"]
    assert total(gone.families, "lingua_jobs_ended_total", {"state": "DONE"}) == 7
    assert total(gone.families, "lingua_sessions_open") == 0
    assert departed.living(tmp_path) == []


def test_a_worker_that_never_told_anything_is_buried_too(tmp_path: Path) -> None:
    departed.bury(tmp_path, "0-11")
    assert departed.read(tmp_path).names == ["0-11"]
    assert lasting(departed.read(tmp_path).families) == []
