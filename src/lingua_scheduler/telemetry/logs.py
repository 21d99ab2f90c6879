"""Structured events: static names, ids as fields, never speech."""

import logging
import sys
from typing import Any, Literal

import structlog

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]

get = structlog.get_logger


def configure(level: Level, log_format: Format, **always: object) -> None:
    """Set up logging for the whole process: to standard error, JSON unless a person is watching.

    `always` is part of every event, to tell processes apart that write to the same place.
    """
    pretty = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    renderer: Any = (
        # A plain traceback: the rich one shows local variables, and with them speech.
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if pretty
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            lambda _logger, _method, event: {**event, **always},
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if pretty else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
