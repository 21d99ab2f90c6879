"""Metrics as values: read from a registry, sent to another process, merged, and rendered for Prometheus."""

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.utils import floatToGoString

# Gauges of several workers are added up, except where a sum would say nothing.
COMBINED: Mapping[str, Callable[[float, float], float]] = {
    "lingua_redis_up": min,
    # Every worker counts all instances.
    "lingua_instances_alive": max,
    # Every worker looks at the whole fleet.
    "lingua_pair_nodes": max,
    "lingua_pair_slots": max,
    "lingua_pair_free_slots": max,
    "lingua_wanted_slots": max,
    "lingua_fleet_wanted_slots": max,
    "lingua_node_quarantined": max,
    "lingua_verdict": max,
    "lingua_snapshot_age_seconds": max,
    # Each worker loads the certificate for itself.
    "lingua_tls_certificate_expires_timestamp_seconds": min,
}


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


class MetricFamily(msgspec.Struct, frozen=True, array_like=True):
    name: str
    about: str
    kind: str
    samples: list[Sample]


def snapshot(registry: CollectorRegistry) -> list[MetricFamily]:
    return [
        MetricFamily(
            metric.name,
            metric.documentation,
            metric.type,
            [Sample(sample.name, sample.labels, sample.value) for sample in metric.samples],
        )
        for metric in registry.collect()
    ]


def lasting(families: Iterable[MetricFamily]) -> list[MetricFamily]:
    """The metrics that stay valid after their process has ended: counters and histograms."""
    return [family for family in families if family.kind != "gauge"]


def merged(parts: Iterable[Iterable[MetricFamily]]) -> list[MetricFamily]:
    """Merge the metrics of several processes."""
    kinds: dict[str, MetricFamily] = {}
    values: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Sample]] = {}
    for family in (family for part in parts for family in part):
        kinds.setdefault(family.name, family)
        samples = values.setdefault(family.name, {})
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            known = samples.get(key)
            combine = min if sample.name.endswith("_created") else COMBINED.get(family.name, operator.add)
            samples[key] = sample if known is None else sample._replace(value=combine(known.value, sample.value))
    return [MetricFamily(name, kind.about, kind.kind, list(values[name].values())) for name, kind in kinds.items()]


def total(families: Iterable[MetricFamily], name: str, labels: Mapping[str, str] | None = None) -> int:
    """One whole figure, over all labels unless some are given."""
    wanted = (labels or {}).items()
    samples = (sample for family in families for sample in family.samples)
    return int(sum(sample.value for sample in samples if sample.name == name and wanted <= sample.labels.items()))


def page(families: Iterable[MetricFamily]) -> bytes:
    """The Prometheus text format."""
    # By hand: jobs wait meanwhile, and the library's writer looks for a lot that ours do not have.
    lines = []
    for family in families:
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        lines.append(f"# HELP {name} {_escaped(family.about)}\n# TYPE {name} {family.kind}\n")
        lines += map(_line, family.samples)
    return "".join(lines).encode()


def _line(sample: Sample) -> str:
    name, labels, value = sample
    if labels:
        name = f"{name}{{{','.join([_pair(*label) for label in sorted(labels.items())])}}}"
    return f"{name} {floatToGoString(value)}\n"  # type: ignore[no-untyped-call]


def _pair(label: str, said: str) -> str:
    said = _escaped(said).replace('"', '\\"')
    return f'{label}="{said}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def replace_file(path: Path, content: bytes) -> None:
    """Write atomically: a reader sees the old file or the new one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.write_bytes(content)
    draft.replace(path)
