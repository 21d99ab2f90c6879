"""Where a node lives, as Redis has it."""

import pytest

from lingua_scheduler.domain.nodes.places import Place


def test_a_place_is_read_back_as_it_was_written() -> None:
    assert str(Place(7, 2)) == "7 2"
    assert Place.parse("7 2") == Place(7, 2)


@pytest.mark.parametrize("text", ["", "7", "7 ", "7 2 1", "-1 2", "12345 1", "٧ 1", "7 2\n", f"7 {'1' * 16}"])
def test_what_is_no_place_is_none(text: str) -> None:
    assert Place.parse(text) is None
