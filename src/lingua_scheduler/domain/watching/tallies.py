"""How a node has done lately: its attempts, how long they took, and its last errors, counted in steps of time."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from lingua_sdk.domain.losses import Loss, known_reason

STEP_MS = 300_000
STEPS = 12
WINDOW_MS = STEP_MS * STEPS
ERRORS_MAX = 10
# Existing nodes say nothing when there is nothing to say, and a caller may change its mind: no failure of the node.
_NO_FAILURE = frozenset({Loss.PART_TIMEOUT, Loss.NO_ANSWER, Loss.CANCELLED})
_SUMS = 6


class TalliedError(msgspec.Struct, frozen=True, gc=False):
    at_ms: int
    # An error code, or a loss of the scheduler's list; never the node's own words.
    reason: str
    job_id: str


class TallySums(NamedTuple):
    """Of attempts that ended; of those with a known length of audio also that, for the real-time factor."""

    done: int = 0
    failed: int = 0
    took_ms: int = 0
    slowest_ms: int = 0
    audio_ms: int = 0
    audio_took_ms: int = 0

    def plus(self, other: "TallySums") -> "TallySums":
        return TallySums(
            self.done + other.done,
            self.failed + other.failed,
            self.took_ms + other.took_ms,
            max(self.slowest_ms, other.slowest_ms),
            self.audio_ms + other.audio_ms,
            self.audio_took_ms + other.audio_took_ms,
        )


class NodeTally(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node in the last hour, by all instances together."""

    done: int = 0
    failed: int = 0
    # Of those that were done; None: there were none.
    mean_ms: int | None = None
    slowest_ms: int | None = None
    # Time taken for a second of audio: below 1 the node keeps up with speech.
    real_time_factor: float | None = None
    # The newest first.
    errors: list[TalliedError] = []

    @property
    def failed_percent(self) -> float | None:
        ended = self.done + self.failed
        return round(100 * self.failed / ended, 1) if ended else None


def is_failure(reason: str) -> bool:
    return reason not in _NO_FAILURE


def tally_of(fields: Mapping[str, str], now_ms: int) -> NodeTally | None:
    """As it is written: a field for each step of time, and one for the errors. None: it cannot be read."""
    first = now_ms // STEP_MS - STEPS
    sums = TallySums()
    try:
        for name, text in fields.items():
            if name != "errors" and int(name) > first:
                sums = sums.plus(TallySums(*_numbers(text)))
        errors = [_error(line) for line in fields.get("errors", "").splitlines()]
    except ValueError:
        return None
    return NodeTally(
        done=sums.done,
        failed=sums.failed,
        mean_ms=sums.took_ms // sums.done if sums.done else None,
        slowest_ms=sums.slowest_ms if sums.done else None,
        real_time_factor=round(sums.audio_took_ms / sums.audio_ms, 3) if sums.audio_ms else None,
        errors=sorted((one for one in errors if now_ms - one.at_ms < WINDOW_MS), key=lambda one: -one.at_ms),
    )


def error_line(error: TalliedError) -> str:
    return f"{error.at_ms} {known_reason(error.reason)} {error.job_id}"


def _error(line: str) -> TalliedError:
    at_ms, reason, job_id = line.split(" ")
    return TalliedError(_number(at_ms), reason, job_id)


def _numbers(text: str) -> Sequence[int]:
    numbers = [_number(word) for word in text.split(" ")]
    if len(numbers) != _SUMS:
        raise ValueError(text)
    return numbers


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 19):
        raise ValueError(word)
    return int(word)
