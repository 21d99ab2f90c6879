"""Quarantined nodes are named in a gauge: few at once, few new ones in a day, and none that is well again."""

from collections.abc import Iterator

import msgspec
import pytest

from lingua_scheduler.domain.watching.figures import OTHER
from lingua_scheduler.domain.watching.picture import Level, Picture
from lingua_scheduler.services.watching.quarantine_gauge import NAMED_MAX, NAMES_A_DAY, QuarantineGauge
from lingua_scheduler.telemetry import metrics
from tests.support.pictures import alarm, node, picture


@pytest.fixture(autouse=True)
def _clear() -> Iterator[None]:
    yield
    metrics.NODE_QUARANTINED.clear()


def shown() -> dict[str, float]:
    (metric,) = metrics.NODE_QUARANTINED.collect()
    return {sample.labels["node_id"]: sample.value for sample in metric.samples}


def sick(*names: str, **more: object) -> Picture:
    nodes = [node("well"), *(node(name, state="quarantined") for name in names)]
    return msgspec.structs.replace(picture(nodes=nodes), **more)


def test_a_quarantined_node_is_named_until_it_is_well_again() -> None:
    gauge = QuarantineGauge()
    gauge.show(sick("gpu-7", "gpu-8"))
    assert shown() == {"gpu-7": 1, "gpu-8": 1}
    gauge.show(sick("gpu-8"))
    assert shown() == {"gpu-8": 1}
    gauge.show(sick())
    assert shown() == {}


def test_a_stale_picture_changes_nothing() -> None:
    gauge = QuarantineGauge()
    gauge.show(sick("gpu-7"))
    gauge.show(sick(is_stale=True))
    assert shown() == {"gpu-7": 1}


def test_a_node_whose_alarm_is_silenced_raises_no_alert() -> None:
    silenced = msgspec.structs.replace(alarm("node.quarantined", "gpu-7", Level.WARNING), silenced_until_ms=9)
    QuarantineGauge().show(sick("gpu-7", "gpu-8", alarms=[silenced]))
    assert shown() == {"gpu-8": 1}


def test_of_many_some_are_named_and_keep_their_name_and_the_rest_are_counted() -> None:
    gauge = QuarantineGauge()
    many = [f"gpu-{number:03}" for number in range(NAMED_MAX + 5)]
    gauge.show(sick(*many))
    named = shown()
    assert (len(named), named[OTHER]) == (NAMED_MAX + 1, 5)
    gauge.show(sick(*many, "a-new-one"))
    assert shown() == named | {OTHER: 6}


def test_ever_new_names_do_not_make_ever_new_series() -> None:
    now_s = 0.0
    gauge = QuarantineGauge(lambda: now_s)
    seen: set[str] = set()
    for number in range(3 * NAMES_A_DAY):
        gauge.show(sick(f"made-up-{number}"))
        seen |= shown().keys()
    assert len(seen - {OTHER}) == NAMES_A_DAY
    now_s = 86_400.0
    gauge.show(sick("gpu-7"))
    assert shown() == {"gpu-7": 1}
