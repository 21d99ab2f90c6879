"""One sentence for each way in which a session fails."""

import pytest

from lingua_scheduler.cli.speech.failures import UNREACHABLE, why_unreachable
from lingua_sdk.line import SessionFailed
from lingua_sdk.trouble import UnwantedStatus

URL = "ws://127.0.0.1:5010"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SessionFailed("the scheduler forgot the session"), "the scheduler forgot the session"),
        (TimeoutError(), "no result within 60 s; lingua status shows the nodes"),
        (UnwantedStatus(503), "accepts no sessions now: it is stopping or full; try again later (HTTP 503)"),
        (UnwantedStatus(404), "is not a scheduler, or the path is wrong (HTTP 404)"),
        (OSError("gone"), f"no scheduler answers at {URL} (gone); start one with: lingua serve"),
    ],
)
def test_what_is_told(error: Exception, words: str) -> None:
    assert isinstance(error, UNREACHABLE)
    assert why_unreachable(error, URL, 60.0).endswith(words)
