"""More time for a running job: an engine asks for it from wherever it is called."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

# Asks for so many seconds from now on.
Asking = Callable[[float], None]


def more_time(seconds: float) -> None:
    """The job that is being worked on needs so many seconds from now on; for engines, in any thread of theirs.

    The scheduler moves the job's deadline, at most to its own limit (`job.deadline_ms` after the dispatch). Ask again
    before the time is over, as often as necessary. Outside a job it does nothing.
    """
    asking = current()
    if asking is not None:
        asking(seconds)


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


_ASKING: ContextVar[Asking | None] = ContextVar("asking", default=None)
