"""Repair for languages without a repairer: it tidies, and does not pretend to understand."""

import re
from collections.abc import Sequence

_SPACES = re.compile(r"\s+")
_SPACE_BEFORE_MARK = re.compile(r"\s+([,.;:!?…])(?=\s|$)")
# A recogniser caught in a loop says a word or two over and over. People say a word two or three times and mean it.
_LOOP = re.compile(r"\b(\w+(?:\W+\w+){0,3}?)(?:\W+\1\b){3,}", re.IGNORECASE)


class Cleanup:
    """White space, and words that a recogniser caught in a loop repeats; nothing else, in whatever language."""

    name = "cleanup"

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = tuple(languages)

    def repair(self, text: str, language: str) -> str:  # noqa: ARG002 - all alike
        return tidy(_LOOP.sub(r"\1", text))


def tidy(text: str) -> str:
    return _SPACE_BEFORE_MARK.sub(r"\1", _SPACES.sub(" ", text)).strip()
