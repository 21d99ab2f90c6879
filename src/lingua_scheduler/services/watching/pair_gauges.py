"""Gauges of the picture: the verdict, and a bounded number of language pairs, without those that no longer exist."""

from collections.abc import Sequence

from lingua_scheduler.domain.watching.figures import OTHER
from lingua_scheduler.domain.watching.pairs import is_echo, name_of
from lingua_scheduler.domain.watching.picture import Level, PairLook, Picture, WideLook
from lingua_scheduler.domain.watching.verdict import UNSERVED
from lingua_scheduler.telemetry import metrics

ANY = "*"
_GAUGES = (metrics.PAIR_NODES, metrics.PAIR_SLOTS, metrics.PAIR_FREE_SLOTS)
_VERDICTS = {None: 0, Level.NOTICE: 1, Level.WARNING: 2, Level.CRITICAL: 3}


def show_verdict(picture: Picture) -> None:
    if picture.verdict is not None:
        metrics.VERDICT.set(_VERDICTS[picture.verdict.level])


class PairGauges:
    def __init__(self, max_pairs: int) -> None:
        self._max_pairs = max_pairs
        self._shown: set[tuple[str, str]] = set()

    def show(self, picture: Picture) -> None:
        """The pairs with most nodes by name, and wide nodes together as `*`.

        There is no alert about a pair that is silenced, or that no node has ever served.

        A stale picture says nothing of now, and changes nothing.
        """
        if picture.is_stale:
            return
        quiet = {alarm.subject for alarm in picture.alarms if alarm.silenced_until_ms or alarm.code == UNSERVED}
        pairs = [pair for pair in picture.pairs if pair.nodes or name_of(pair) not in quiet]
        rows = _rows(pairs, self._max_pairs) | _wide_row(picture.wide)
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
    # Alerts need the pairs without nodes, so they come before the well served ones.
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
