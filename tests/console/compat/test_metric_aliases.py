"""The names of before hold the same values as ours."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from lingua_scheduler.console.compat.metric_aliases import ALIASES, LATENCY, LATENCY_SOURCE, aliases
from lingua_scheduler.telemetry import metrics
from lingua_scheduler.telemetry.figures import MetricFamily, merged, page, snapshot


def process(**counts: int) -> list[MetricFamily]:
    """What one process counted of a few outcomes."""
    registry = CollectorRegistry()
    registrations = Counter("lingua_node_registrations", "r", ["outcome"], registry=registry)
    for outcome in ("registered", "refused", "conflict", "world_full", "delayed"):
        registrations.labels(outcome).inc(counts.get(outcome, 0))
    dispatches = Counter("lingua_job_dispatches", "d", ["outcome"], registry=registry)
    for outcome in ("dispatched", "full", "nobody", "queue_full", "wait_over"):
        dispatches.labels(outcome).inc(counts.get(outcome, 0))
    beats = Histogram(LATENCY_SOURCE, "h", buckets=(0.001, 0.0025, 1), registry=registry)
    for _ in range(counts.get("beats", 0)):
        beats.observe(0.002)
    return snapshot(registry)


def lines(families: list[MetricFamily]) -> set[str]:
    return {line for line in page(aliases(families)).decode().splitlines() if not line.startswith("#")}


def test_each_outcome_counts_where_it_belongs() -> None:
    told = lines(
        process(
            registered=5, refused=1, conflict=2, world_full=4, delayed=9, dispatched=7, full=3, nobody=2, wait_over=1
        )
    )
    assert {
        'node_registration_total{status="success"} 5.0',
        'node_registration_total{status="failure"} 7.0',
        'node_selection_total{result="success"} 7.0',
        'node_selection_total{result="failure"} 6.0',
        'pool_query_total{success="true"} 10.0',
        'pool_query_total{success="false"} 2.0',
    } <= told


def test_seconds_become_milliseconds() -> None:
    assert {
        'node_heartbeat_latency_ms_bucket{le="1.0"} 0.0',
        'node_heartbeat_latency_ms_bucket{le="2.5"} 3.0',
        'node_heartbeat_latency_ms_bucket{le="1000.0"} 3.0',
        'node_heartbeat_latency_ms_bucket{le="+Inf"} 3.0',
        "node_heartbeat_latency_ms_count 3.0",
        "node_heartbeat_latency_ms_sum 6.0",
    } <= lines(process(beats=3))


def test_workers_are_added_up_before_the_names_are_made() -> None:
    told = lines(merged([process(registered=1, beats=1), process(registered=2, beats=2)]))
    assert 'node_registration_total{status="success"} 3.0' in told
    assert "node_heartbeat_latency_ms_count 3.0" in told


def test_every_alias_is_made_from_a_metric_we_have() -> None:
    ours = {family.name for family in metrics.REGISTRY.collect()}
    assert {alias.source for alias in ALIASES} | {LATENCY_SOURCE} <= ours
    assert {family.name for family in aliases(snapshot(metrics.REGISTRY))} == {
        *(alias.name for alias in ALIASES),
        LATENCY,
    }
