"""Gauges of the wanted slots: of the fleet, and of a bounded number of pairs, without those that are gone."""

from lingua_scheduler.domain.watching.pair_work import REST
from lingua_scheduler.domain.watching.picture import Picture
from lingua_scheduler.domain.watching.scaling import PairScaling, slots_for
from lingua_scheduler.services.watching.scaling import ScalingDesk
from lingua_scheduler.telemetry import metrics


class ScalingGauges:
    def __init__(self, desk: ScalingDesk, max_pairs: int) -> None:
        self._desk = desk
        self._max_pairs = max_pairs
        self._shown: set[tuple[str, str]] | None = None

    def show(self, picture: Picture) -> None:
        """A stale picture says nothing of now, and changes nothing."""
        if picture.is_stale:
            return
        found = self._desk.of(picture)
        metrics.FLEET_WANTED_SLOTS.set(found.wanted_slots)
        wanted = _rows(found.pairs, self._max_pairs, picture.scaling.headroom)
        if self._shown is None:
            metrics.WANTED_SLOTS.clear()
        for gone in (self._shown or set()) - wanted.keys():
            metrics.WANTED_SLOTS.remove(*gone)
        for labels, slots in wanted.items():
            metrics.WANTED_SLOTS.labels(*labels).set(slots)
        self._shown = set(wanted)


def _rows(pairs: list[PairScaling], most: int, headroom: float) -> dict[tuple[str, str], int]:
    """The busiest by name, the others as one: their loads are added before slots are counted."""
    rest = tuple(REST.split(":"))
    named = [pair for pair in pairs if (pair.src, pair.tgt) != rest]
    rows = {(pair.src, pair.tgt): pair.wanted_slots for pair in named[:most]}
    load = sum(pair.load for pair in (*named[most:], *(pair for pair in pairs if (pair.src, pair.tgt) == rest)))
    return rows | ({(rest[0], rest[1]): slots_for(load, headroom)} if load else {})
