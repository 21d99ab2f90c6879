"""Words for a loss: ours and the codes, and one for whatever a peer makes up."""

import pytest

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.losses import OTHER, Loss, known_code, known_reason


@pytest.mark.parametrize("word", [*Loss, *ErrorCode])
def test_known_words_are_kept(word: str) -> None:
    assert known_reason(str(word)) == word


@pytest.mark.parametrize("word", ["", "meet me at noon", "node_gone ", "NODE_GONE", "processing_error", "x" * 10_000])
def test_made_up_words_are_not_repeated(word: str) -> None:
    assert known_reason(word) == OTHER
    assert known_code(word) == OTHER


def test_our_own_words_are_no_codes() -> None:
    """Or a node could blame what only we can know."""
    assert all(known_code(word) == OTHER for word in Loss)
    assert all(known_code(code) == code for code in ErrorCode)
