"""Metrics: one prefix, a sentence each, bounded labels."""

import re

import pytest
from prometheus_client import Metric, generate_latest

from lingua_scheduler.telemetry import metrics

FAMILIES = {family.name: family for family in metrics.REGISTRY.collect()}
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


def test_there_are_metrics() -> None:
    assert len(FAMILIES) >= 10


@every_family
def test_every_name_begins_with_our_own_prefix_and_is_in_snake_case(family: Metric) -> None:
    assert re.fullmatch(r"lingua(_[a-z]+)+", family.name)


@every_family
def test_every_metric_says_what_it_counts(family: Metric) -> None:
    assert len(family.documentation.split()) >= 3
    assert not family.documentation.endswith(".")


@every_family
def test_what_is_measured_in_time_says_its_unit(family: Metric) -> None:
    if family.type == "histogram":
        assert family.name.endswith("_seconds")


def test_every_metric_of_the_module_is_shown_at_our_own_registry() -> None:
    named = [value for name, value in vars(metrics).items() if name.isupper() and name != "REGISTRY"]
    assert {family.name for metric in named for family in metric.collect()} == set(FAMILIES)


def test_no_metric_can_be_asked_for_by_a_peer() -> None:
    """Labels are small fixed sets: each names a kind of thing, none an id.

    One gauge names quarantined nodes, for the alert about them; services/watching/quarantine_gauge.py bounds how many.
    """
    others = [value for value in vars(metrics).values() if value is not metrics.NODE_QUARANTINED]
    labels = {label for value in others for label in getattr(value, "_labelnames", ())}
    kinds = {
        "outcome",
        "state",
        "reason",
        "kind",
        "side",
        "nursery",
        "chore",
        "stage",
        "family",
        "what",
        "purpose",
        "rung",
    }
    # Languages in rooms are bounded by services/rooms/lag.py.
    assert labels <= kinds | {"src", "tgt", "language"}


def test_they_are_written_as_prometheus_reads_them() -> None:
    page = generate_latest(metrics.REGISTRY).decode()
    for name, family in FAMILIES.items():
        assert f"# HELP {name}" in page
        assert family.documentation in page
