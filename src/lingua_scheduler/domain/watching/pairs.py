"""Language pairs as the fleet serves them: by how many nodes, with how many slots, and which hang on one node."""

from collections.abc import Iterator

from lingua_scheduler.domain.pools.reach import SPEECH, TEXT, Reach
from lingua_scheduler.domain.watching.picture import NodeLook, PairLook, Picture, WideLook

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


class _Nodes:
    """Nodes of a pair, or of a wide pool, summed up."""

    __slots__ = ("first", "free", "nodes", "slots", "text_nodes")

    def __init__(self) -> None:
        self.nodes = self.slots = self.free = self.text_nodes = 0
        self.first = ""

    def speaks(self, node: NodeLook) -> None:
        self.nodes += 1
        self.slots += node.max_jobs
        self.free += node.free or 0
        self.first = node.node_id if self.nodes == 1 else ""

    def join(self, others: "_Nodes") -> None:
        self.first = (self.first or others.first) if self.nodes + others.nodes == 1 else ""
        self.nodes += others.nodes
        self.slots += others.slots
        self.free += others.free


class Pairs:
    """Nodes go in one by one, so that a large fleet can be looked at in slices."""

    def __init__(self) -> None:
        self._pairs: dict[str, _Nodes] = {}
        self._wide: dict[str, tuple[Reach, _Nodes]] = {}

    def add(self, node: NodeLook, reach: Reach | None = None) -> None:
        """With the reach of a wide node."""
        counts = takes_work(node) and not _NEEDED & set(node.unavailable)
        speaks = counts and _VOICE not in node.unavailable
        if reach is not None:
            group = self._wide.setdefault(node.wide, (reach, _Nodes()))[1]
            group.text_nodes += counts
            if speaks:
                group.speaks(node)
        for name in node.text:
            self._pair(name).text_nodes += counts
        for name in node.speech:
            pair = self._pair(name)
            if speaks:
                pair.speaks(node)

    def mention(self, name: str) -> None:
        """A pair that somebody asks for is shown by itself, even if no node knows it any more."""
        self._pair(name)

    def mention_unless_covered(self, name: str) -> None:
        """A pair that was served is shown, unless wide nodes serve it still: they are shown as a whole."""
        src, _, tgt = name.partition(":")
        if not any(nodes.nodes and reach.serves(src, tgt, SPEECH) for reach, nodes in self._wide.values()):
            self._pair(name)

    def looks(self) -> list[PairLook]:
        found = []
        for name, own in sorted(self._pairs.items()):
            src, _, tgt = name.partition(":")
            pair = self._with_wide(own, src, tgt)
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

    def wide_looks(self) -> Iterator[WideLook]:
        """One at a time: the first look at a reach of thousands of pairs takes milliseconds."""
        for name, (reach, group) in sorted(self._wide.items()):
            yield WideLook(
                name=name,
                sources=sorted(reach.sources),
                text=sorted(reach.text),
                speech=sorted(reach.speech),
                translations=reach.by_source,
                pairs=reach.count(SPEECH),
                nodes=group.nodes,
                slots=group.slots,
                free=group.free,
                text_nodes=group.text_nodes,
                hangs_on=group.first,
            )

    def _with_wide(self, own: _Nodes, src: str, tgt: str) -> _Nodes:
        if not self._wide:
            return own
        summed = _Nodes()
        summed.text_nodes = own.text_nodes
        summed.join(own)
        for reach, group in self._wide.values():
            if reach.serves(src, tgt, TEXT):
                summed.text_nodes += group.text_nodes
            if reach.serves(src, tgt, SPEECH):
                summed.join(group)
        return summed

    def _pair(self, name: str) -> _Nodes:
        pair = self._pairs.get(name)
        if pair is None:
            pair = self._pairs[name] = _Nodes()
        return pair


def covers(wide: WideLook, name: str) -> bool:
    """Whether these nodes speak a pair, src:tgt, and some of them take work."""
    src, _, tgt = name.partition(":")
    if not wide.nodes or src not in wide.sources or tgt not in wide.speech:
        return False
    return src == tgt or wide.translations is None or tgt in wide.translations.get(src, ())


def unlisted(picture: Picture) -> int:
    """How many pairs are served by wide nodes and not listed one by one, without languages into themselves."""
    targets: dict[str, set[str]] = {}
    for wide in picture.wide:
        if wide.nodes:
            speech = set(wide.speech)
            for src in wide.sources:
                some = speech if wide.translations is None else speech & set(wide.translations.get(src, ()))
                targets.setdefault(src, set()).update(some)
    count = sum(len(some - {src}) for src, some in targets.items())
    listed = (pair for pair in picture.pairs if pair.src != pair.tgt)
    return count - sum(pair.tgt in targets.get(pair.src, ()) for pair in listed)


def served_in_words(node: NodeLook, most: int) -> str:
    """The pairs a node speaks, the first few by name."""
    if node.wide:
        return f"{node.wide_pairs} pairs"
    more = len(node.speech) - most
    return " ".join(node.speech[:most]) + (f" +{more}" if more > 0 else "")
