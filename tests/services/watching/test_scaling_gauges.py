"""Gauges of the wanted slots: the busiest pairs by name up to a limit, and none that is gone."""

from typing import Any, cast

from lingua_scheduler.domain.watching.pair_work import PairDemand, ScalingLook
from lingua_scheduler.domain.watching.picture import Picture
from lingua_scheduler.services.watching.scaling import ScalingDesk
from lingua_scheduler.services.watching.scaling_gauges import ScalingGauges
from lingua_scheduler.telemetry import metrics
from tests.support.pictures import picture


def asking(serial: int, **loads: float) -> Picture:
    figures: dict[str, Any] = {"arrivals_per_s": 1.0, "node_s_per_job": 1.0, "real_time_factor": None, "waiting": 0}
    names = (name.split("_") for name in loads)
    rows = [
        PairDemand(src=src, tgt=tgt, load=load, **figures)
        for (src, tgt), load in zip(names, loads.values(), strict=True)
    ]
    return picture(serial=serial, scaling=ScalingLook(is_settled=True, headroom=1.5, pairs=rows))


def shown() -> dict[str, float]:
    (family,) = (family for family in metrics.REGISTRY.collect() if family.name == "lingua_wanted_slots")
    return {":".join(sample.labels.values()): sample.value for sample in family.samples}


def gauges(max_pairs: int = 5) -> ScalingGauges:
    return ScalingGauges(ScalingDesk(cast("Any", None)), max_pairs)


def test_the_busiest_pairs_are_named_and_the_loads_of_the_others_added() -> None:
    gauges(2).show(asking(1, en_zh=9.0, zh_en=4.0, de_fr=2.0, fr_de=1.0, other_other=1.0))
    assert shown() == {"en:zh": 14, "zh:en": 7, "other:other": 7}
    # Without a node nothing tells which pairs share nodes: each counts by itself.
    assert metrics.REGISTRY.get_sample_value("lingua_fleet_wanted_slots") == 14 + 7 + 5 + 3 + 3


def test_pairs_that_are_gone_have_no_gauge_and_one_that_begins_anew_clears_what_another_left() -> None:
    first = gauges()
    first.show(asking(1, en_zh=1.0, zh_en=1.0))
    first.show(asking(2, en_zh=4.0))
    assert shown() == {"en:zh": 7}
    gauges().show(asking(1, de_fr=1.0))
    assert shown() == {"de:fr": 3}


def test_a_stale_picture_changes_nothing() -> None:
    found = gauges()
    found.show(asking(1, en_zh=1.0))
    found.show(picture(serial=2, is_stale=True))
    assert shown() == {"en:zh": 3}
