"""The nodes of a speaker's turn."""

from lingua_scheduler.services.attempts.work import Binding
from lingua_scheduler.services.rooms.speakers import TurnNodes
from tests.support.speech import work


def test_a_turn_has_a_node_for_each_language() -> None:
    nodes = TurnNodes()
    first, later = work(turn_id="1", binding=Binding()), work(turn_id="2", binding=Binding())
    zh = nodes.binding(first, "zh")
    assert zh is nodes.binding(first, "zh")
    assert zh is not nodes.binding(first, "pt")
    assert zh is not nodes.binding(later, "zh")


def test_a_whole_utterance_is_bound_to_no_node() -> None:
    assert TurnNodes().binding(work(), "zh") is None
