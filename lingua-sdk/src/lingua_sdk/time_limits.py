"""More time for a running job: an engine asks for it from wherever it is called."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Real
from typing import Any

from lingua_sdk.failures import BrokenContract, type_name

# Asks for so many seconds from now on.
Asking = Callable[[float], None]
MAX_SECONDS = 86_400
_LOGGER = logging.getLogger("lingua.node")
_OUTSIDE = (
    "more_time() was called outside a job and has no effect. In a thread that the engine started itself, call it in a "
    "copy of the context of its method: Thread(target=contextvars.copy_context().run, args=(work,)); this is said once"
)


def more_time(seconds: float) -> None:
    """The job that is being worked on needs so many seconds from now on; for engines.

    The scheduler moves the job's deadline, at most to its own limit (`job.deadline_ms` after the dispatch). Ask again
    before the time is over, as often as necessary. A thread that the engine starts itself belongs to no job, unless it
    runs in a copy of the method's context (`contextvars.copy_context().run`). Outside a job it only logs a warning.
    """
    _must_be_seconds(seconds)
    asking = current()
    if asking is None:
        _warn_once()
    else:
        asking(float(seconds))


def current() -> Asking | None:
    return _ASKING.get()


@contextmanager
def asking_with(asking: Asking | None) -> Iterator[None]:
    token = _ASKING.set(asking)
    try:
        yield
    finally:
        _ASKING.reset(token)


def together(several: Sequence[Asking | None]) -> Asking:
    """Asks for all jobs of a batch."""

    def ask(seconds: float) -> None:
        for asking in several:
            if asking is not None:
                asking(seconds)

    return ask


def _must_be_seconds(seconds: Any) -> None:
    if not isinstance(seconds, Real) or isinstance(seconds, bool):
        raise BrokenContract(f"more_time() takes a number of seconds such as 10, got {type_name(seconds)}")
    if not 0 < float(seconds) <= MAX_SECONDS:
        raise ValueError(f"more_time() takes seconds above 0 and up to {MAX_SECONDS}, got {seconds}")


def _warn_once() -> None:
    global _has_warned  # one line for a process, whichever thread of which engine it was
    if not _has_warned:
        _has_warned = True
        _LOGGER.warning(_OUTSIDE)


_ASKING: ContextVar[Asking | None] = ContextVar("asking", default=None)
_has_warned = False
