"""Repair of English with Harper: fillers, stutters and agreement; what people meant to say is theirs."""

import importlib
import re
from collections.abc import Sequence
from typing import Any

from lingua_scheduler.engines.cleanup import tidy
from lingua_scheduler.engines.spares import Spares

# Of Harper's nine hundred rules, those that never change what was meant.
RULES = ("AnA", "MultipleSequentialPronouns", "PronounInflectionBe", "PronounVerbAgreement", "RepeatedWords")
# Words that are not repeated on purpose. "had had", "I told you you were right" and "very very" stay.
STUTTERED = frozenset(
    ("a", "an", "and", "but", "from", "he", "i", "my", "of", "or", "our", "she", "the", "their", "they", "we", "with")
)
# After these a verb is right in its plain form: "I suggest that he go", "did she like it", "make it work".
_PLAIN_FORM = re.compile(
    r"\b(?:do|does|did|don't|doesn't|didn't|can|could|will|would|shall|should|may|might|must|let|lets|make|makes|made|"
    r"help|helps|helped|have|see|saw|hear|heard|watch|watched|feel|felt|that|if|lest|whether|suggest|suggests|insist|"
    r"insists|recommend|recommends|demand|demands|ask|asks|and|or|won't|can't|couldn't|wouldn't|shouldn't)\W+\w+\W*$",
    re.IGNORECASE,
)
# "uh-huh" and "uh oh" mean something.
_FILLERS = re.compile(r"(?<![\w-])(?:u+h+m*|u+m+|e+r+m+|h+m+)\b(?!-|\s+oh\b)[,.…]*\s*", re.IGNORECASE)


class Harper:
    """A linter takes half a second to build, and one sentence at a time."""

    name = "harper"
    languages: Sequence[str] = ("en",)

    def __init__(self) -> None:
        self._package: Any = importlib.import_module("harper")
        self._spares = Spares(self._linter)

    def warm_up(self, slots: int) -> None:
        self._spares.prepare(slots)

    def repair(self, text: str, language: str) -> str:  # noqa: ARG002 - there is only one
        said = without_fillers(text)
        for lint in sorted(self._lints(said), key=lambda lint: lint.span.start, reverse=True):
            mended = _mended(said, lint)
            if mended is not None:
                said = said[: lint.span.start] + mended + said[lint.span.end :]
        return said

    def _lints(self, text: str) -> list[Any]:
        with self._spares.one() as linter:
            found: list[Any] = linter.lint(text, language="plaintext")
        return found

    def _linter(self) -> Any:
        linter = self._package.Linter()
        linter.set_lint_config(dict.fromkeys(linter.get_default_lint_config(), False) | dict.fromkeys(RULES, True))
        return linter


def without_fillers(text: str) -> str:
    rest = tidy(_FILLERS.sub("", text))
    rest = re.sub(r",\s*(?=[,.!?;])", "", rest)
    if not re.search(r"\w", rest):
        return tidy(text)  # "Hmm." is all that was said
    return rest[0].upper() + rest[1:] if text.lstrip()[:1].isupper() else rest


def _mended(text: str, lint: Any) -> str | None:
    """What to put in its place; None to leave it as it is: in doubt the speaker is right."""
    choices = {suggestion.replacement_text for suggestion in lint.suggestions}
    if len(choices) != 1:
        return None
    if lint.lint_kind == "Repetition":
        words = {word.lower() for word in lint.problem_text.split()}
        if len(words) > 1 or not words <= STUTTERED:
            return None
    if lint.lint_kind == "Agreement" and _PLAIN_FORM.search(text[: lint.span.start]):
        return None
    return str(choices.pop())
