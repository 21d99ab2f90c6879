"""Words for a loss: ours and the codes, and one for whatever a peer makes up."""

import asyncio
from typing import Any

import pytest

from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.losses import OTHER, Loss, exception_name, known_cause, known_code, known_reason


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


@pytest.mark.parametrize(
    ("details", "words"),
    [
        (None, ""),
        ("ValueError", ""),
        ({"stage": "translate", "exception": "ValueError"}, "ValueError in translate"),
        ({"exception": "KeyError"}, "KeyError"),
        ({"stage": "speak"}, "in speak"),
        # What a peer made up may be what was said.
        ({"stage": "meet me at noon", "exception": "MeetMeAtNoonError"}, ""),
        ({"stage": ["translate"], "exception": {"ValueError": 1}}, ""),
        ({"exception": "print"}, ""),
    ],
)
def test_of_what_a_node_tells_of_its_failure_only_known_words_are_kept(details: Any, words: str) -> None:
    assert known_cause(details) == words


def test_an_exception_is_told_by_the_nearest_one_of_python() -> None:
    class SecretError(LookupError):
        pass

    assert exception_name(KeyError) == "KeyError"
    assert exception_name(SecretError) == "LookupError"
    assert exception_name(asyncio.IncompleteReadError) == "EOFError"
