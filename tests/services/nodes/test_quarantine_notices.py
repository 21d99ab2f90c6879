"""Nodes that know the commands are told of their quarantine; others hear nothing."""

from types import SimpleNamespace
from typing import Any

import pytest

from lingua_scheduler.domain.jobs.quarantine import QuarantineVerdict
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.services.nodes.quarantine_notices import QuarantineNotices, remind
from lingua_sdk.protocol.node import NodeControl


def link(knows: bool = True, until_ms: int = 0) -> Any:
    told: list[NodeControl] = []
    return SimpleNamespace(
        profile=SimpleNamespace(features=Features(quarantine=knows)),
        peer=SimpleNamespace(post=told.append),
        quarantined_until_ms=until_ms,
        told=told,
    )


def notices(**links: Any) -> QuarantineNotices:
    found: Any = SimpleNamespace(find=links.get)
    return QuarantineNotices(found)


def test_a_node_is_told_why_and_what_to_do_and_when_it_is_over() -> None:
    node = link()
    tell = notices(n1=node).tell
    tell("n1", "PROCESSING_ERROR", QuarantineVerdict.QUARANTINED)
    tell("n1", "", QuarantineVerdict.RECOVERED)
    begun, over = node.told
    assert begun.command == "quarantined"
    assert "PROCESSING_ERROR" in begun.reason
    assert "lingua release n1" in begun.reason
    assert over.command == "recovered"


@pytest.mark.parametrize("links", [{}, {"n1": link(knows=False)}])
def test_nodes_that_are_elsewhere_or_do_not_know_it_are_left_alone(links: dict[str, Any]) -> None:
    notices(**links).tell("n1", "PROCESSING_ERROR", QuarantineVerdict.QUARANTINED)
    assert not any(node.told for node in links.values())


def test_a_node_that_comes_back_to_its_quarantine_is_told_when_it_gets_its_probe() -> None:
    waits, due, well = link(until_ms=31_000), link(until_ms=500), link()
    for node in (waits, due, well):
        remind(node, 1_000)
    assert "in 30 s at the earliest" in waits.told[0].reason
    assert "its next job is a probe" in due.told[0].reason
    assert well.told == []
