"""Pairs as the fleet serves them."""

from typing import Any

import pytest

from lingua_scheduler.domain.watching.pairs import Pairs
from lingua_scheduler.domain.watching.picture import NodeLook, PairLook
from tests.support.pictures import node, pair


def looks(*nodes: NodeLook, missed: tuple[str, ...] = ()) -> list[PairLook]:
    pairs = Pairs()
    for one in nodes:
        pairs.add(one)
    for name in missed:
        pairs.mention(name)
    return pairs.looks()


def test_nodes_slots_and_free_slots_are_summed() -> None:
    assert looks(node("n1", held=1, free=3), node("n2")) == [pair(nodes=2, slots=8, free=7, text_nodes=2)]


def test_a_pair_that_one_node_serves_hangs_on_it() -> None:
    (only,) = looks(node("n1"))
    assert only.hangs_on == "n1"


@pytest.mark.parametrize(
    ("about", "speech", "text"),
    [
        ({"state": "draining", "free": None}, 0, 0),
        ({"state": "degraded", "free": None}, 0, 0),
        ({"state": "quarantined"}, 0, 0),
        ({"state": "probation"}, 1, 1),
        ({"unavailable": ["tts"]}, 0, 1),
        ({"unavailable": ["asr"]}, 0, 0),
        ({"unavailable": ["tone"]}, 1, 1),
        ({"speech": []}, 0, 1),
    ],
)
def test_who_counts_for_a_pair(about: dict[str, Any], speech: int, text: int) -> None:
    (found,) = looks(node("n1", **about))
    assert (found.nodes, found.text_nodes) == (speech, text)


def test_a_pair_somebody_misses_is_shown_without_nodes() -> None:
    assert looks(missed=("en:fr",)) == [pair("en:fr", nodes=0, slots=0, free=0, text_nodes=0)]


@pytest.mark.parametrize("about", [{}, {"state": "quarantined"}])
def test_what_is_wanted_under_another_tag_is_what_nodes_serve(about: dict[str, Any]) -> None:
    """Whenever it was asked for, and if the node accepts no job just now: one pair has one name."""
    pairs = Pairs()
    pairs.add(node("n1", **about))
    assert list(pairs.settle()) == [None]
    wanted = {"en-US:zh-Hans-CN:speech", "EN:zh:text", "en:zh:speech", "en:ko:speech", "en-US:ko:speech"}
    served = {"en:zh:speech", "en:zh:text", "en:ko:speech", "en-US:ko:speech"}
    assert pairs.as_served(wanted) == served
    assert Pairs().as_served(wanted) == wanted
