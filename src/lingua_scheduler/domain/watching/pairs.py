"""Language pairs as the fleet serves them: by how many nodes, with how many slots, and which hang on one node."""

from collections.abc import Collection, Iterator

from lingua_scheduler.domain.pools.lookup import ServedTags, nearest
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.pools.reach import SPEECH, TEXT, Reach
from lingua_scheduler.domain.watching.picture import NodeLook, PairLook, Picture, WideLook
from lingua_scheduler.domain.watching.verdict import PROBATION, READY, pair_level, room_of
from lingua_sdk.domain.languages import Pair

# Without one of these there is no text; without a voice there is no speech.
_NEEDED = frozenset({"asr", "nmt", "semantic"})
_VOICE = "tts"


def name_of(pair: PairLook) -> str:
    return str(Pair(pair.src, pair.tgt))


def is_echo(name: str) -> bool:
    """A language into itself: nodes serve it implicitly, and its loss is no problem."""
    src, tgt = Pair.parse(name)
    return src == tgt


def takes_work(node: NodeLook) -> bool:
    """Quarantined nodes are a last resort and do not count; one on probation gets its next job like any other."""
    return node.free is not None and node.state in (READY, PROBATION)


def can_write(node: NodeLook) -> bool:
    return takes_work(node) and _NEEDED.isdisjoint(node.unavailable)


def can_speak(node: NodeLook) -> bool:
    return can_write(node) and _VOICE not in node.unavailable


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
    """Nodes go in one by one, so that a large fleet can be looked at in slices.

    Most say what others say: those are counted together, and then once for each of their pairs.
    """

    def __init__(self) -> None:
        self._pairs: dict[str, _Nodes] = {}
        # By the lists that nodes of a kind share; kept here, so that no other list gets their identity.
        self._kinds: dict[tuple[int, int], tuple[list[str], list[str], _Nodes]] = {}
        self._wide: dict[str, tuple[Reach, _Nodes]] = {}
        self._size = 0

    def add(self, node: NodeLook, reach: Reach | None = None) -> None:
        """With the reach of a wide node."""
        self._size += 1
        counts = can_write(node)
        speaks = counts and _VOICE not in node.unavailable
        if reach is not None:
            group = self._wide.setdefault(node.wide, (reach, _Nodes()))[1]
            group.text_nodes += counts
            if speaks:
                group.speaks(node)
        identity = (id(node.text), id(node.speech))
        kind = self._kinds.get(identity)
        if kind is None:
            kind = self._kinds[identity] = (node.text, node.speech, _Nodes())
        kind[2].text_nodes += counts
        if speaks:
            kind[2].speaks(node)

    def settle(self) -> Iterator[None]:
        """Count each kind of node in its pairs; after each of them others may have a turn."""
        while self._kinds:
            text, speech, nodes = self._kinds.popitem()[1]
            for name in text:
                self._pair(name).text_nodes += nodes.text_nodes
            for name in speech:
                self._pair(name).join(nodes)
            yield

    def as_served(self, pools: Collection[str]) -> set[str]:
        """The pools under the names that nodes use, whether or not these accept jobs now; unchanged if none does."""
        known = {pool for pool in pools if self._is_known(pool)}
        others = set(pools) - known
        if others:
            tags = {tag for name in self._pairs for tag in Pair.parse(name)}
            tags.update(tag for reach, _ in self._wide.values() for tag in reach.sources | reach.text)
            served = ServedTags(tags)
            known.update(nearest(pool, served, self._is_known) for pool in others)
        return known

    def _is_known(self, pool: str) -> bool:
        pair = Pool.parse(pool).pair
        return str(pair) in self._pairs or any(reach.serves(*pair, TEXT) for reach, _ in self._wide.values())

    def mention(self, name: str) -> None:
        """A requested pair is listed separately, even if no node serves it any more."""
        self._pair(name)

    def mention_unless_covered(self, name: str) -> None:
        """A pair that is wanted is shown, unless wide nodes serve it: they are shown as a whole."""
        src, tgt = Pair.parse(name)
        if not any(nodes.nodes and reach.serves(src, tgt, SPEECH) for reach, nodes in self._wide.values()):
            self._pair(name)

    def looks(self) -> list[PairLook]:
        for _ in self.settle():
            pass
        found = []
        for name, own in sorted(self._pairs.items()):
            src, tgt = Pair.parse(name)
            pair = self._with_wide(own, src, tgt)
            room = room_of(pair.nodes, pair.slots, pair.free)
            found.append(
                PairLook(
                    src=src,
                    tgt=tgt,
                    nodes=pair.nodes,
                    slots=pair.slots,
                    free=pair.free,
                    text_nodes=pair.text_nodes,
                    hangs_on=pair.first,
                    room=room,
                    level=pair_level(room, is_thin=self._is_thin(pair) and src != tgt),
                )
            )
        return found

    def wide_looks(self) -> Iterator[WideLook]:
        """One at a time: the first look at a reach of thousands of pairs takes milliseconds."""
        for name, (reach, group) in sorted(self._wide.items()):
            room = room_of(group.nodes, group.slots, group.free)
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
                room=room,
                level=pair_level(room, is_thin=self._is_thin(group)),
            )

    def _is_thin(self, nodes: _Nodes) -> bool:
        """With one node every pair depends on it; this need not be shown."""
        return bool(nodes.first) and self._size > 1

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
    return bool(wide.nodes) and reaches(wide, name, wide.speech)


def reaches(wide: WideLook, name: str, targets: Collection[str]) -> bool:
    """Whether these nodes have a pair, src:tgt, whether or not they take work; `targets` is their text or speech."""
    src, tgt = Pair.parse(name)
    if src not in wide.sources or tgt not in targets:
        return False
    return src == tgt or wide.translations is None or tgt in wide.translations.get(src, ())


def private_nodes(picture: Picture) -> int:
    """How many of the nodes are for one tenant alone: slots and pairs are counted without them."""
    return sum(node.is_private for node in picture.nodes)


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
