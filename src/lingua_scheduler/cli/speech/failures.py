"""How a session of a command fails, in one sentence."""

from lingua_scheduler.cli.scheduler_access import unreachable
from lingua_sdk.line import SessionFailed
from lingua_sdk.trouble import Failures, UnwantedStatus, trouble_of

SERVICE_UNAVAILABLE = 503
# How a session fails that cannot be opened, or does not get its results.
UNREACHABLE = (SessionFailed, *Failures)


def why_unreachable(error: Exception, url: str, timeout_s: float) -> str:
    """What to tell the user about one of UNREACHABLE."""
    match error:
        case SessionFailed():
            return str(error)
        case TimeoutError():
            return f"no result within {timeout_s:g} s; lingua status shows the nodes"
        case UnwantedStatus(status=status):
            why = f"the server at {url} is not a scheduler, or the path is wrong"
            if status == SERVICE_UNAVAILABLE:
                why = f"the scheduler at {url} accepts no sessions now: it is stopping or full; try again later"
            return f"{why} (HTTP {status})"
    return unreachable(url, trouble_of(error))
