"""What was found of each check: passed, failed with what was expected and what came, not tested, or not reached."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from lingua_scheduler.conformance.checks import Check, PeerProfile

# Of a value that a peer sent.
MAX_SHOWN_CHARS = 200
NEEDS_COMMAND = "needs --command"


class CheckVerdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_TESTED = "not tested"
    NOT_REACHED = "not reached"
    NOT_APPLICABLE = "does not apply"


class CheckResult(NamedTuple):
    """`expected` and `came` are of a failure; `why` is of a check without either."""

    check: Check
    verdict: CheckVerdict
    expected: str = ""
    came: str = ""
    why: str = ""


class Book:
    def __init__(self, checks: Sequence[Check], profile: PeerProfile) -> None:
        self.profile = profile
        self._results = {one.name: CheckResult(one, CheckVerdict.NOT_REACHED) for one in checks}
        if profile is PeerProfile.EXISTING:
            for one in checks:
                if one.standard_only:
                    self.does_not_apply(one.name, "peers of the first generation cannot do this")

    def passed(self, name: str) -> None:
        """A failure stays one."""
        if self._results[name].verdict is CheckVerdict.NOT_REACHED:
            self._set(name, CheckVerdict.PASSED)

    def failed(self, name: str, expected: str, came: str) -> None:
        """The first failure of a check is kept."""
        if self.applies(name) and not self.has_failed(name):
            self._set(name, CheckVerdict.FAILED, expected=expected, came=shown(came))

    def judge(self, name: str, is_met: bool, expected: str, came: str) -> bool:
        if is_met:
            self.passed(name)
        else:
            self.failed(name, expected, came)
        return is_met

    def does_not_apply(self, name: str, why: str) -> None:
        if self._results[name].verdict is CheckVerdict.NOT_REACHED:
            self._set(name, CheckVerdict.NOT_APPLICABLE, why=why)

    def not_tested(self, name: str) -> None:
        """The kit must be able to start the peer, and was not told how."""
        if self.is_open(name):
            self._set(name, CheckVerdict.NOT_TESTED, why=NEEDS_COMMAND)

    def not_reached(self, why: str) -> None:
        """The reason of all that is still open."""
        for name, one in self._results.items():
            if one.verdict is CheckVerdict.NOT_REACHED:
                self._set(name, CheckVerdict.NOT_REACHED, why=why)

    def applies(self, name: str) -> bool:
        return self._results[name].verdict is not CheckVerdict.NOT_APPLICABLE

    def has_failed(self, name: str) -> bool:
        return self._results[name].verdict is CheckVerdict.FAILED

    def is_open(self, name: str) -> bool:
        return self._results[name].verdict is CheckVerdict.NOT_REACHED

    @property
    def results(self) -> list[CheckResult]:
        return list(self._results.values())

    @property
    def conforms(self) -> bool:
        """Nothing failed, and everything that applies was tested."""
        return all(one.verdict in (CheckVerdict.PASSED, CheckVerdict.NOT_APPLICABLE) for one in self._results.values())

    def of(self, verdict: CheckVerdict) -> list[str]:
        return [name for name, one in self._results.items() if one.verdict is verdict]

    def _set(self, name: str, verdict: CheckVerdict, **words: str) -> None:
        self._results[name] = CheckResult(self._results[name].check, verdict, **words)


def shown(value: object) -> str:
    """Short enough for a line, whatever a peer sent."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def as_json(book: Book) -> dict[str, Any]:
    return {
        "profile": book.profile,
        "conforms": book.conforms,
        "checks": [
            {"name": one.check.name, "must": one.check.must, "page": f"docs/{one.check.anchor}", "verdict": one.verdict}
            | {key: text for key, text in (("expected", one.expected), ("came", one.came), ("why", one.why)) if text}
            for one in book.results
        ],
    }
