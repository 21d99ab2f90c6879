"""What a job went through, move by move, as its record remembers it."""

from typing import NamedTuple

from lingua_scheduler.domain.jobs.jobs import ENDED, JobState


class Step(NamedTuple):
    """One move of a job. `reason` is empty where nothing went wrong."""

    state: JobState
    at_ms: int
    attempt: int
    node_id: str
    reason: str

    @property
    def moment(self) -> str:
        """What it is called among the times of a job: created, dispatched, accepted … or ended, however it did."""
        return "ended" if self.state in ENDED else self.state.value.lower()


def steps_of(lines: str) -> list[Step]:
    """The moves a record still remembers, a line each, oldest first; it forgets the oldest when there are many."""
    return [_step(line) for line in lines.split("\n") if line]


def _step(line: str) -> Step:
    state, at_ms, attempt, node_id, reason = line.split(" ", 4)
    return Step(JobState(state), int(at_ms), int(attempt), "" if node_id == "-" else node_id, reason)
