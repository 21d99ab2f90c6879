"""Names that alerts and dashboards from before know, made from our own figures at the moment somebody asks."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client.utils import floatToGoString

from lingua_scheduler.telemetry.figures import Family, Sample


class Alias(NamedTuple):
    """A counter by one label; `of` says which of its values one of ours counts for, None for neither."""

    name: str
    label: str
    source: str
    about: str
    of: Callable[[dict[str, str]], str | None]


def _status(labels: dict[str, str]) -> str | None:
    """Being delayed is no end: the same registration is counted again when its turn has come."""
    outcome = labels["outcome"]
    return None if outcome == "delayed" else "success" if outcome == "registered" else "failure"


def _is_served(labels: dict[str, str]) -> str | None:
    """Whoever stands in line does not look at the pool."""
    outcome = labels["outcome"]
    return None if outcome in ("queue_full", "wait_over") else "false" if outcome == "nobody" else "true"


def _result(labels: dict[str, str]) -> str:
    return "success" if labels["outcome"] == "dispatched" else "failure"


ALIASES = (
    Alias(
        "node_registration",
        "status",
        "lingua_node_registrations",
        "Registrations of nodes: success or failure",
        _status,
    ),
    Alias(
        "pool_query",
        "success",
        "lingua_job_dispatches",
        "Looks for a node in a pool: true if anybody serves it, free or not",
        _is_served,
    ),
    Alias(
        "node_selection",
        "result",
        "lingua_job_dispatches",
        "Tries to find a node with a free slot: success or failure",
        _result,
    ),
)
LATENCY = "node_heartbeat_latency_ms"
LATENCY_SOURCE = "lingua_node_heartbeat_seconds"
LATENCY_ABOUT = "From reading a heartbeat until Redis has it, in milliseconds"


def aliases(families: Iterable[Family]) -> list[Family]:
    """All of them, with the values that these families have."""
    known = {family.name: family for family in families}
    found = [_counter(alias, known[alias.source]) for alias in ALIASES if alias.source in known]
    if LATENCY_SOURCE in known:
        found.append(_latency(known[LATENCY_SOURCE]))
    return found


def _counter(alias: Alias, source: Family) -> Family:
    values: dict[str, float] = {}
    for sample in source.samples:
        if sample.name == f"{source.name}_total" and (value := alias.of(sample.labels)) is not None:
            values[value] = values.get(value, 0.0) + sample.value
    samples = [Sample(f"{alias.name}_total", {alias.label: value}, count) for value, count in sorted(values.items())]
    return Family(alias.name, alias.about, "counter", samples)


def _latency(source: Family) -> Family:
    samples = []
    for name, labels, value in source.samples:
        part = name.removeprefix(source.name)
        if part == "_bucket":
            bound = floatToGoString(round(float(labels["le"]) * 1000, 6))  # type: ignore[no-untyped-call]
            samples.append(Sample(LATENCY + part, {"le": bound}, value))
        elif part != "_created":
            samples.append(Sample(LATENCY + part, labels, value * 1000 if part == "_sum" else value))
    return Family(LATENCY, LATENCY_ABOUT, "histogram", samples)
