"""Repair for languages without a repairer: it tidies, and does not pretend to understand."""

import re
from collections.abc import Sequence

_SPACES = re.compile(r"\s+")
_SPACE_BEFORE_MARK = re.compile(r"\s+([,.;:!?…])(?=\s|$)")
# A model ends a sentence that has ended already. Three dots are meant.
_ENDED_TWICE = re.compile(r"(?<![.。])([.。])\s?\1(?![.。])")
# A recogniser caught in a loop says a word or two over and over. People say a word two or three times and mean it.
_LOOP = re.compile(r"\b(\w+(?:\W+\w+){0,3}?)(?:\W+\1\b){3,}", re.IGNORECASE)


class Cleanup:
    """Removes excess white space and words that a recogniser repeats in a loop; works for any language."""

    name = "cleanup"

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = tuple(languages)

    def repair(self, text: str, language: str) -> str:  # noqa: ARG002 - all alike
        return tidy(_LOOP.sub(r"\1", text))


def tidy(text: str) -> str:
    """One space between words, none before a mark, and one full stop at the end of a sentence."""
    return _ENDED_TWICE.sub(r"\1", _SPACE_BEFORE_MARK.sub(r"\1", _SPACES.sub(" ", text))).strip()
