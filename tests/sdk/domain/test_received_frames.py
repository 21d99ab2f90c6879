"""Numbered frames: what has come, whatever the order, with a bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from lingua_sdk.domain.received_frames import MAX_AHEAD, Received


def test_the_next_number_is_the_lowest_that_has_not_come() -> None:
    received = Received()
    assert received.next == 0
    received.add(0)
    received.add(2)  # a final that overtook the chunk before it
    assert received.next == 1
    assert 2 in received
    assert 1 not in received
    received.add(1)
    assert received.next == 3


def test_a_number_may_come_twice() -> None:
    received = Received()
    for seq in (0, 0, 2, 2, 1, 0):
        received.add(seq)
    assert received.next == 3


def test_numbers_that_never_come_are_not_waited_for_without_end() -> None:
    received = Received()
    for seq in range(1, MAX_AHEAD + 1):
        received.add(seq)
    assert received.next == 0
    received.add(MAX_AHEAD + 1)
    assert received.next == MAX_AHEAD + 2


@given(st.permutations(range(MAX_AHEAD)))
def test_in_whatever_order_they_come_all_have_come_at_the_end(order: list[int]) -> None:
    received = Received()
    came = set[int]()
    for seq in order:
        received.add(seq)
        came.add(seq)
        assert received.next == min(set(range(MAX_AHEAD + 1)) - came)
        assert {seq for seq in range(MAX_AHEAD) if seq in received} == came
