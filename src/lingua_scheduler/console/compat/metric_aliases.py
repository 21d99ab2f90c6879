"""Metric names of earlier schedulers, computed from our metrics at each scrape."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client.utils import floatToGoString

from lingua_scheduler.telemetry.figures import MetricFamily, Sample


class Alias(NamedTuple):
    """A counter by one label; `of` says which of its values one of ours counts for, None for neither."""

    name: str
    label: str
    source: str
    about: str
    of: Callable[[dict[str, str]], str | None]


def _status(labels: dict[str, str]) -> str | None:
    """A delay is not an outcome: the same registration is counted again when its turn comes."""
    outcome = labels["outcome"]
    return None if outcome == "delayed" else "success" if outcome == "registered" else "failure"


def _is_served(labels: dict[str, str]) -> str | None:
    """A job that is queued does not look up the pool."""
    outcome = labels["outcome"]
    return None if outcome in ("queue_full", "wait_over") else "false" if outcome == "nobody" else "true"


def _result(labels: dict[str, str]) -> str:
    return "success" if labels["outcome"] == "dispatched" else "failure"


ALIASES = (
    Alias(
        "node_registration",
        "status",
        "lingua_node_registrations",
        "Node registrations: success or failure",
        _status,
    ),
    Alias(
        "pool_query",
        "success",
        "lingua_job_dispatches",
        "Lookups of a node in a pool: true if a node serves it, free or not",
        _is_served,
    ),
    Alias(
        "node_selection",
        "result",
        "lingua_job_dispatches",
        "Attempts to find a node with a free slot: success or failure",
        _result,
    ),
)
LATENCY = "node_heartbeat_latency_ms"
LATENCY_SOURCE = "lingua_node_heartbeat_seconds"
LATENCY_ABOUT = "Time from reading a heartbeat to storing it in Redis, in milliseconds"


def aliases(families: Iterable[MetricFamily]) -> list[MetricFamily]:
    """All of them, with the values that these families have."""
    known = {family.name: family for family in families}
    found = [_counter(alias, known[alias.source]) for alias in ALIASES if alias.source in known]
    if LATENCY_SOURCE in known:
        found.append(_latency(known[LATENCY_SOURCE]))
    return found


def _counter(alias: Alias, source: MetricFamily) -> MetricFamily:
    values: dict[str, float] = {}
    for sample in source.samples:
        if sample.name == f"{source.name}_total" and (value := alias.of(sample.labels)) is not None:
            values[value] = values.get(value, 0.0) + sample.value
    samples = [Sample(f"{alias.name}_total", {alias.label: value}, count) for value, count in sorted(values.items())]
    return MetricFamily(alias.name, alias.about, "counter", samples)


def _latency(source: MetricFamily) -> MetricFamily:
    samples = []
    for name, labels, value in source.samples:
        part = name.removeprefix(source.name)
        if part == "_bucket":
            bound = floatToGoString(round(float(labels["le"]) * 1000, 6))  # type: ignore[no-untyped-call]
            samples.append(Sample(LATENCY + part, {"le": bound}, value))
        elif part != "_created":
            samples.append(Sample(LATENCY + part, labels, value * 1000 if part == "_sum" else value))
    return MetricFamily(LATENCY, LATENCY_ABOUT, "histogram", samples)
