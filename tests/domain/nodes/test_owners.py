"""Who holds a node, as Redis has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.domain.nodes.owners import Owner, Ownership


def test_an_ownership_is_its_epoch_its_connection_and_what_the_node_announced() -> None:
    ownership = Ownership("12", Owner("i-here", "c1"), Features(acknowledges=True, lid=True))
    assert str(ownership) == "12 i-here c1 1l"
    assert Ownership.parse("12 i-here c1 1l") == ownership


@pytest.mark.parametrize(
    "text",
    ["", "garbage", "12 i-here c1", "x i-here c1 1", "12 i here c1 1", "12 i-here c1 1 more", "12 i-here c1 1\n"],
)
def test_what_no_scheduler_can_have_written_is_none(text: str) -> None:
    assert Ownership.parse(text) is None


@given(st.from_regex(r"\A[0-9]{1,19} [A-Za-z0-9_.-]{1,64} \S{1,128} [01]l?c?s?t?\Z"))
def test_whatever_is_read_is_written_the_same(text: str) -> None:
    found = Ownership.parse(text)
    assert found is None or str(found) == text
