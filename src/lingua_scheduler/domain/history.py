"""What a job went through, move by move, as its record remembers it."""

from collections.abc import Mapping
from typing import NamedTuple

from lingua_scheduler.domain.jobs import JobState


class Step(NamedTuple):
    """One move of a job. `reason` is empty where nothing went wrong."""

    state: JobState
    at_ms: int
    attempt: int
    node_id: str
    reason: str


def steps_of(record: Mapping[str, str]) -> list[Step]:
    """The moves a record still remembers, oldest first; it forgets the oldest when there are many."""
    fields = sorted(
        (int(name.removeprefix("step")), line)
        for name, line in record.items()
        if name.startswith("step") and name != "steps"
    )
    # The fields are a ring: the next one to be written over is the oldest.
    oldest = int(record.get("steps", 0)) % len(fields) if fields else 0
    return [_step(line) for _, line in fields[oldest:] + fields[:oldest]]


def _step(line: str) -> Step:
    state, at_ms, attempt, node_id, reason = line.split(" ", 4)
    return Step(JobState(state), int(at_ms), int(attempt), node_id, reason)
