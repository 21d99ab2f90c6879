"""Structured events: static names, ids as fields, never speech."""

import logging
import sys
import traceback
from collections.abc import MutableMapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Literal, TextIO

import structlog

from lingua_scheduler.telemetry.storms import Storms

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]
Event = MutableMapping[str, Any]
_Failure = tuple[type[BaseException], BaseException, TracebackType | None]

# Causes of causes that are shown.
MAX_CAUSES = 5
USUAL_LINES = 100

get = structlog.get_logger

_ids: ContextVar[dict[str, object]] = ContextVar("ids", default={})  # noqa: B039 - never changed, only replaced
_storms = Storms(USUAL_LINES)
# Whether debug events are written. Asked before those of a hot path, which then cost nothing.
shows_debug = False


def bind(**ids: object) -> None:
    """Bind fields: every event of this task and its child tasks has them, unless it sets its own."""
    _ids.set(_ids.get() | ids)


def add_ids(_logger: object, _method: str, event: Event) -> Event:
    """What is bound becomes part of the event."""
    return {**_ids.get(), **event}


def configure(level: Level, log_format: Format, storm_lines: int = USUAL_LINES, **always: object) -> None:
    """Set up logging for the process: to standard error, as JSON unless it is a terminal.

    `always` is part of every event, to distinguish processes that write to the same place.
    """
    global _storms, shows_debug
    _storms = Storms(storm_lines)
    shows_debug = level == "debug"
    pretty = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_write_failure)
        if pretty
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            _limit,
            add_ids,
            lambda _logger, _method, event: {**event, **always},
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if pretty else [structlog.processors.ExceptionRenderer(failure)]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        # A line is one write: processes that share a file must not get between a line and its end.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Libraries(logging.WARNING)], level=logging.WARNING, force=True)


class _Libraries(logging.Handler):
    """Log records of libraries become events too: the logger, the static part of the message, and the type of error."""

    def emit(self, record: logging.LogRecord) -> None:
        note = str(record.msg).partition("\n")[0]
        if record.levelno >= logging.ERROR:
            get().error("library.failed", library=record.name, note=note, exc_info=record.exc_info or None)
        else:
            get().warning("library.warned", library=record.name, note=note)


async def tell_storms() -> None:
    """Log how many lines expired windows suppressed. A periodic chore, because no further event may come."""
    for name, lines in _storms.over():
        get().warning("log.limited", limited=name, lines=lines)


def failure(exc_info: _Failure) -> str:
    """The place and type of an exception.

    Its message is omitted, because it may quote the data that was processed, which may be speech.
    """
    causes: list[BaseException] = []
    error: BaseException | None = exc_info[1]
    while error is not None and len(causes) < MAX_CAUSES:
        causes.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    told = ("".join((*traceback.format_tb(one.__traceback__), type(one).__name__)) for one in reversed(causes))
    return "\nwhich led to:\n".join(told)


def _write_failure(out: TextIO, exc_info: _Failure) -> None:
    out.write("\n" + failure(exc_info))


def _limit(_logger: object, _method: str, event: Event) -> Event:
    if event["event"] != "log.limited":
        for name, lines in _storms.over():
            get().warning("log.limited", limited=name, lines=lines)
        if not _storms.may_write(event["event"]):
            raise structlog.DropEvent
    return event
