"""Language pairs as the fleet serves them: by how many nodes, with how many slots, and which hang on one node."""

from lingua_scheduler.domain.picture import NodeLook, PairLook

READY = "ready"
PROBATION = "probation"
QUARANTINED = "quarantined"
# Without one of these there is no text; without a voice there is no speech.
_NEEDED = frozenset({"asr", "nmt", "semantic"})
_VOICE = "tts"


def name_of(pair: PairLook) -> str:
    return f"{pair.src}:{pair.tgt}"


def is_echo(name: str) -> bool:
    """A language into itself: nodes offer it by the way, and nobody misses it."""
    src, _, tgt = name.partition(":")
    return src == tgt


def takes_work(node: NodeLook) -> bool:
    """Quarantined nodes are a last resort and do not count; one on probation gets its next job like any other."""
    return node.free is not None and node.state in (READY, PROBATION)


class _Pair:
    __slots__ = ("first", "free", "nodes", "slots", "text_nodes")

    def __init__(self) -> None:
        self.nodes = self.slots = self.free = self.text_nodes = 0
        self.first = ""


class Pairs:
    """Nodes go in one by one, so that a large fleet can be looked at in slices."""

    def __init__(self) -> None:
        self._pairs: dict[str, _Pair] = {}

    def add(self, node: NodeLook) -> None:
        counts = takes_work(node) and not _NEEDED & set(node.unavailable)
        speaks = counts and _VOICE not in node.unavailable
        for name in node.text:
            pair = self._pair(name)
            pair.text_nodes += counts
        for name in node.speech:
            pair = self._pair(name)
            if speaks:
                pair.nodes += 1
                pair.slots += node.max_jobs
                pair.free += node.free or 0
                pair.first = node.node_id if pair.nodes == 1 else ""

    def mention(self, name: str) -> None:
        """A pair that somebody misses is shown, even if no node knows it any more."""
        self._pair(name)

    def looks(self) -> list[PairLook]:
        found = []
        for name, pair in sorted(self._pairs.items()):
            src, _, tgt = name.partition(":")
            found.append(
                PairLook(
                    src=src,
                    tgt=tgt,
                    nodes=pair.nodes,
                    slots=pair.slots,
                    free=pair.free,
                    text_nodes=pair.text_nodes,
                    hangs_on=pair.first,
                )
            )
        return found

    def _pair(self, name: str) -> _Pair:
        pair = self._pairs.get(name)
        if pair is None:
            pair = self._pairs[name] = _Pair()
        return pair
