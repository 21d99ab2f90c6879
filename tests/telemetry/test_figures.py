"""Figures of several processes become those of one."""

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from lingua_scheduler.telemetry import metrics
from lingua_scheduler.telemetry.figures import COMBINED, MetricFamily, merged, page, snapshot, total


def process(done: int, sessions: int, redis_up: int, took_s: float) -> list[MetricFamily]:
    """What one process would tell, as it arrives at another."""
    registry = CollectorRegistry()
    jobs = Counter("lingua_jobs_ended", "Jobs that ended", ["state"], registry=registry)
    jobs.labels("DONE").inc(done)
    jobs.labels("FAILED").inc(1)
    Gauge("lingua_sessions_open", "Sessions here", registry=registry).set(sessions)
    Gauge("lingua_redis_up", "Redis answers", registry=registry).set(redis_up)
    Histogram("lingua_job_seconds", "Of a job", buckets=(1, 2), registry=registry).observe(took_s)
    return msgspec.json.decode(msgspec.json.encode(snapshot(registry)), type=list[MetricFamily])


def lines(families: list[MetricFamily]) -> set[str]:
    return {line for line in page(families).decode().splitlines() if "_created" not in line}


def test_counters_histograms_and_gauges_are_added_up() -> None:
    both = merged([process(3, 5, 1, 0.5), process(4, 6, 1, 1.5)])
    assert {
        'lingua_jobs_ended_total{state="DONE"} 7.0',
        'lingua_jobs_ended_total{state="FAILED"} 2.0',
        "lingua_sessions_open 11.0",
        'lingua_job_seconds_bucket{le="1.0"} 1.0',
        'lingua_job_seconds_bucket{le="2.0"} 2.0',
        'lingua_job_seconds_bucket{le="+Inf"} 2.0',
        "lingua_job_seconds_count 2.0",
        "lingua_job_seconds_sum 2.0",
    } <= lines(both)


def test_one_worker_without_redis_shows() -> None:
    assert "lingua_redis_up 0.0" in lines(merged([process(1, 1, 1, 1), process(1, 1, 0, 1)]))


def test_the_beginning_of_a_sum_is_that_of_the_oldest() -> None:
    counted = MetricFamily("lingua_x", "", "counter", [])
    created = [msgspec.structs.replace(counted, samples=[("lingua_x_created", {}, at)]) for at in (7.0, 3.0, 5.0)]
    parts = msgspec.json.decode(msgspec.json.encode(created), type=list[MetricFamily])
    (one,) = merged([[part] for part in parts])
    assert one.samples[0].value == 3.0


def test_a_label_that_only_one_process_has_is_kept() -> None:
    registry = CollectorRegistry()
    Counter("lingua_jobs_ended", "Jobs that ended", ["state"], registry=registry).labels("NO_TEXT").inc(9)
    both = merged([process(1, 1, 1, 1), snapshot(registry)])
    assert total(both, "lingua_jobs_ended_total", {"state": "NO_TEXT"}) == 9
    assert total(both, "lingua_jobs_ended_total") == 11


def test_a_page_of_one_process_is_what_its_registry_writes() -> None:
    metrics.SNAPSHOT_AGE.set_function(lambda: 1.0)  # it grows from one look to the next
    assert page(snapshot(metrics.REGISTRY)) == generate_latest(metrics.REGISTRY)


def test_whatever_a_label_or_a_value_is_the_page_is_what_the_library_writes() -> None:
    registry = CollectorRegistry()
    odd = Gauge("lingua_odd", 'Back\\slash, "quotes"\nand lines', ["z", "a"], registry=registry)
    for number, value in enumerate((float("inf"), float("-inf"), float("nan"), 0.1, -2, 1e6, 12345678.5, 1e21)):
        odd.labels('back\\slash, "quotes",\nlines, 你好', str(number)).set(value)
    Histogram("lingua_wide", "Wide", ["kind"], buckets=(0.001, 2_000_000), registry=registry).labels("x").observe(3)
    assert page(snapshot(registry)) == generate_latest(registry)


def test_gauges_that_are_not_added_up_exist() -> None:
    assert set(COMBINED) <= {family.name for family in metrics.REGISTRY.collect() if family.type == "gauge"}
