"""Language pairs as gauges: a bounded number of them, and none that is not there any more."""

from collections.abc import Sequence

from lingua_scheduler.domain.watching.figures import OTHER
from lingua_scheduler.domain.watching.pairs import is_echo, name_of
from lingua_scheduler.domain.watching.picture import PairLook, Picture, WideLook
from lingua_scheduler.telemetry import metrics

ANY = "*"
_GAUGES = (metrics.PAIR_NODES, metrics.PAIR_SLOTS, metrics.PAIR_FREE_SLOTS)


class PairGauges:
    def __init__(self, max_pairs: int) -> None:
        self._max_pairs = max_pairs
        self._shown: set[tuple[str, str]] = set()

    def show(self, picture: Picture) -> None:
        """The pairs with most nodes by name, and wide nodes together as `*`.

        A stale picture says nothing of now, and changes nothing.
        """
        if picture.is_stale:
            return
        rows = _rows(picture.pairs, self._max_pairs) | _wide_row(picture.wide)
        if not self._shown:
            for gauge in _GAUGES:
                gauge.clear()
        for gone in self._shown - rows.keys():
            for gauge in _GAUGES:
                gauge.remove(*gone)
        for labels, figures in rows.items():
            for gauge, figure in zip(_GAUGES, figures, strict=True):
                gauge.labels(*labels).set(figure)
        self._shown = set(rows)


def _rows(pairs: Sequence[PairLook], most: int) -> dict[tuple[str, str], tuple[int, int, int]]:
    # A pair that nobody serves is what alerts are made of: it comes before the well served ones.
    wanted = (pair for pair in pairs if not is_echo(name_of(pair)))
    ranked = sorted(wanted, key=lambda pair: (pair.nodes > 0, -pair.nodes, pair.src, pair.tgt))
    rows = {(pair.src, pair.tgt): (pair.nodes, pair.slots, pair.free) for pair in ranked[:most]}
    rest = [(pair.nodes, pair.slots, pair.free) for pair in ranked[most:]]
    if rest:
        nodes, slots, free = map(sum, zip(*rest, strict=True))
        rows[OTHER, OTHER] = (nodes, slots, free)
    return rows


def _wide_row(wide: Sequence[WideLook]) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Nodes that serve too many pairs to name each; they count in the named pairs too."""
    if not wide:
        return {}
    return {(ANY, ANY): (sum(one.nodes for one in wide), sum(one.slots for one in wide), sum(one.free for one in wide))}
