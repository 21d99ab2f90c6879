"""Wanted pairs that no node serves, and what is lacking: the first thing a person on call has to know."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from lingua_scheduler.domain.nodes.nodes import NodeState
from lingua_scheduler.domain.pools.language_names import language_name
from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_scheduler.domain.watching.pairs import covers, name_of, reaches
from lingua_scheduler.domain.watching.picture import NodeLook, PairLook, WideLook
from lingua_scheduler.domain.watching.verdict import QUARANTINED


class Lack(StrEnum):
    """What no node does."""

    UNDERSTANDS = "understands"  # recognises the source
    SPEAKS = "speaks"  # has a voice for the target
    WRITES = "writes"  # has the target at all
    TRANSLATES = "translates"  # both are there, and no node joins them

    def in_words(self, src: str, tgt: str) -> str:
        match self:
            case Lack.UNDERSTANDS:
                return f"No node understands {language_name(src)}"
            case Lack.SPEAKS | Lack.WRITES:
                return f"No node {self.value} {language_name(tgt)}"
            case Lack.TRANSLATES:
                return f"No node translates {language_name(src)} into {language_name(tgt)}"


def lost_pools(wanted: Iterable[str], pairs: Iterable[PairLook], wide: Sequence[WideLook]) -> list[str]:
    """One for each pair, in the order of their names: who gets no text gets no speech either."""
    served = {name_of(pair): pair for pair in pairs}
    lost: dict[str, str] = {}
    for pool in sorted(wanted):
        src, tgt, facet = Pool.parse(pool)
        name = f"{src}:{tgt}"
        pair = served.get(name)
        nodes = 0 if pair is None else pair.nodes if facet == Facet.SPEECH else pair.text_nodes
        if not nodes and not any(covers(one, name) for one in wide):
            lost[name] = pool
    return list(lost.values())


def last_resorts(pool: str, nodes: Iterable[NodeLook], wide: Iterable[WideLook]) -> list[str]:
    """Quarantined nodes that have the pair: they get its jobs only because no other node is left."""
    having = _having(pool, nodes, wide)
    return [node.node_id for node in having if node.state == QUARANTINED and node.free is not None]


def drained_nodes(pool: str, nodes: Iterable[NodeLook], wide: Iterable[WideLook]) -> list[str]:
    """Draining nodes that have the pair: they serve it again as soon as they are resumed."""
    return [node.node_id for node in _having(pool, nodes, wide) if node.state == NodeState.DRAINING]


def _having(pool: str, nodes: Iterable[NodeLook], wide: Iterable[WideLook]) -> Iterator[NodeLook]:
    """Nodes that have the pair and lack no service, whether or not they take work."""
    src, tgt, facet = Pool.parse(pool)
    name, is_speech = f"{src}:{tgt}", facet == Facet.SPEECH
    reached = {one.name for one in wide if reaches(one, name, one.speech if is_speech else one.text)}
    for node in nodes:
        has_pair = node.wide in reached or name in (node.speech if is_speech else node.text)
        if has_pair and not node.unavailable:
            yield node


def lack_of(src: str, tgt: str, facet: str, pairs: Iterable[PairLook], wide: Iterable[WideLook]) -> Lack:
    sources, texts, voices = set[str](), set[str](), set[str]()
    for pair in pairs:
        if pair.text_nodes:
            sources.add(pair.src)
            texts.add(pair.tgt)
        if pair.nodes:
            voices.add(pair.tgt)
    for one in wide:
        if one.text_nodes:
            sources.update(one.sources)
            texts.update(one.text)
        if one.nodes:
            voices.update(one.speech)
    if src not in sources:
        return Lack.UNDERSTANDS
    if tgt not in texts | voices:
        return Lack.SPEAKS if facet == Facet.SPEECH else Lack.WRITES
    return Lack.SPEAKS if facet == Facet.SPEECH and tgt not in voices else Lack.TRANSLATES
