"""The history of a job: its transitions, as stored in its record."""

from typing import NamedTuple

from lingua_scheduler.domain.jobs.jobs import ENDED, JobState


class JobStep(NamedTuple):
    """One transition of a job. `reason` is empty unless something failed."""

    state: JobState
    at_ms: int
    attempt: int
    node_id: str
    reason: str

    @property
    def moment(self) -> str:
        """What it is called among the times of a job: created, dispatched, accepted … or ended, however it did."""
        return "ended" if self.state in ENDED else self.state.value.lower()


def steps_of(lines: str) -> list[JobStep]:
    """The transitions in a record, one per line, oldest first. Only the latest are kept."""
    return [_step(line) for line in lines.split("\n") if line]


def _step(line: str) -> JobStep:
    state, at_ms, attempt, node_id, reason = line.split(" ", 4)
    return JobStep(JobState(state), int(at_ms), int(attempt), "" if node_id == "-" else node_id, reason)
