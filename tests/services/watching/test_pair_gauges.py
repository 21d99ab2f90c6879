"""Gauges of the picture: the verdict, pairs by name up to a limit, and none that is gone."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.watching.picture import Alarm, Level, WideLook
from lingua_scheduler.services.watching.pair_gauges import PairGauges, show_verdict
from lingua_scheduler.telemetry import metrics
from tests.support.pictures import alarm, judged_whole, pair, picture


def wide(name: str, nodes: int, slots: int, free: int) -> WideLook:
    counts: dict[str, Any] = {"nodes": nodes, "slots": slots, "free": free, "text_nodes": nodes, "pairs": 4}
    return WideLook(name=name, sources=["en"], text=["zh"], speech=["zh"], **counts)


def shown() -> dict[str, tuple[float, ...]]:
    """Nodes, slots and free slots of each pair that has gauges."""
    gauges = ("lingua_pair_nodes", "lingua_pair_slots", "lingua_pair_free_slots")
    found: dict[str, dict[str, float]] = {}
    for metric in metrics.REGISTRY.collect():
        for sample in metric.samples if metric.name in gauges else ():
            found.setdefault(":".join(sample.labels.values()), {})[sample.name] = sample.value
    return {name: tuple(values[gauge] for gauge in gauges) for name, values in found.items()}


def test_pairs_without_nodes_and_those_with_most_are_named_and_the_rest_summed() -> None:
    pairs = [
        pair("en:zh", nodes=1, slots=4, free=3),
        pair("de:fr", nodes=1, slots=5, free=1),
        pair("en:ko", nodes=3, slots=9, free=2),
        pair("en:xx", nodes=0, slots=0, free=0),
        pair("echo:echo", nodes=7, slots=7, free=7),
        pair("en:ja", nodes=1, slots=2, free=2),
    ]
    PairGauges(3).show(picture(pairs=pairs))
    assert shown() == {"en:xx": (0, 0, 0), "en:ko": (3, 9, 2), "de:fr": (1, 5, 1), "other:other": (2, 6, 5)}


def test_wide_nodes_are_one_row_and_what_is_gone_is_removed() -> None:
    gauges = PairGauges(5)
    looks = [wide("w1", nodes=1, slots=2, free=1), wide("w2", nodes=2, slots=8, free=4)]
    gauges.show(picture(pairs=[pair("en:zh", nodes=1, slots=4, free=3)], wide=looks))
    assert shown() == {"en:zh": (1, 4, 3), "*:*": (3, 10, 5)}
    gauges.show(picture(pairs=[pair("en:fr", nodes=2, slots=4, free=3)]))
    assert shown() == {"en:fr": (2, 4, 3)}
    # One that begins anew clears what another left.
    PairGauges(5).show(picture(pairs=[pair("en:de", nodes=2, slots=4, free=3)]))
    assert shown() == {"en:de": (2, 4, 3)}


def test_a_stale_picture_changes_nothing() -> None:
    gauges = PairGauges(5)
    gauges.show(picture(pairs=[pair("en:zh", nodes=1, slots=4, free=3)]))
    gauges.show(picture(pairs=[], is_stale=True))
    assert shown() == {"en:zh": (1, 4, 3)}


def test_a_pair_that_is_silenced_has_no_row_while_no_node_serves_it() -> None:
    silenced = msgspec.structs.replace(alarm("pair.lost", "en:xx"), silenced_until_ms=9)
    pairs = [pair("en:xx", nodes=0, slots=0, free=0), pair("en:yy", nodes=0, slots=0, free=0)]
    gauges = PairGauges(5)
    gauges.show(picture(pairs=pairs, alarms=[silenced, alarm("pair.lost", "en:yy")]))
    assert set(shown()) == {"en:yy"}
    gauges.show(picture(pairs=[pair("en:xx", nodes=1, slots=1, free=1)], alarms=[silenced]))
    assert set(shown()) == {"en:xx"}


def test_a_pair_that_was_never_served_has_no_row() -> None:
    asked = pair("en:xx", nodes=0, slots=0, free=0)
    PairGauges(5).show(picture(pairs=[asked], alarms=[alarm("pair.unserved", "en:xx", Level.WARNING)]))
    assert shown() == {}


@pytest.mark.parametrize(
    ("alarms", "level"),
    [
        ([], 0),
        ([alarm("pair.thin", "en:zh", Level.NOTICE)], 1),
        ([alarm("node.sick", "n1", Level.WARNING)], 2),
        ([alarm("pair.lost", "en:zh", Level.CRITICAL)], 3),
    ],
)
def test_the_verdict_is_a_number(alarms: list[Alarm], level: int) -> None:
    metrics.VERDICT.set(9)
    show_verdict(picture())
    assert metrics.REGISTRY.get_sample_value("lingua_verdict") == 9
    show_verdict(judged_whole(picture(alarms=alarms)))
    assert metrics.REGISTRY.get_sample_value("lingua_verdict") == level
