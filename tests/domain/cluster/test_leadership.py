"""A term of leading, as Redis has it."""

import pytest

from lingua_scheduler.domain.cluster.leadership import Term


def test_a_term_names_its_instance_and_its_epoch() -> None:
    assert Term.parse("i-here 12") == Term("i-here", "12")


@pytest.mark.parametrize(
    "text", ["", "i-here", "i-here x", "i here 1", "i-here 1 2", " 1", f"i-here {'1' * 19}", "i-here 1\n"]
)
def test_what_no_leader_can_have_written_is_none(text: str) -> None:
    assert Term.parse(text) is None
