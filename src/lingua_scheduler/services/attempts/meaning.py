"""What a node's result means for its job: the event, and the reason if it failed."""

from typing import NamedTuple

from lingua_scheduler.domain.jobs.jobs import JobEvent, event_of_result
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.losses import Loss, known_code
from lingua_sdk.protocol.node import JobResult

# Existing nodes answer a job id, or an utterance of a session, that they have had before with PROCESSING_ERROR and a
# message that begins so.
_DUPLICATE = "DUPLICATE_"


class Meaning(NamedTuple):
    event: JobEvent
    # Empty for a success, else an error code or a Loss.
    reason: str = ""


# Of most results, made once.
_FINISHED = Meaning(JobEvent.FINISH)


def meaning_of(result: JobResult) -> Meaning:
    if result.success and not (result.extra and "reason" in result.extra):
        return _FINISHED
    error = result.error
    code = known_code(error.code) if error is not None and error.code else None
    event = event_of_result(result.success, (result.extra or {}).get("reason"), code)
    if result.success:
        return Meaning(event)
    if event is JobEvent.LOSE_ATTEMPT and error is not None and error.message.startswith(_DUPLICATE):
        return Meaning(event, Loss.DUPLICATE)
    return Meaning(event, code or ErrorCode.PROCESSING_ERROR.value)
