"""What goes wrong behind a test: tasks that died, and what was logged as an error, here or in a child process."""

import gc
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import structlog

from lingua_scheduler.telemetry import logs
from tests.support.leaks import LEAKS

# That Redis is away is the one surprise there is a plan for: these are said then, and chores fail.
_PLANNED = ("redis.down",)
_AWAY = ("RedisAway", "NotDone", "WritesRefused")
_ERRORS = ("error", "exception", "critical")
# Said to the operator when something outside fails: a process whose peers are killed may say so.
_ALARMS = (
    "instance.superseded",
    "letter.dead",
    "restart.aborted",
    "worker.failed",
    "worker.keeps_dying",
    "workers.missing",
)


class Surprises:
    """Of the running test: events by name, each with what was said of it."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    @property
    def is_any(self) -> bool:
        return bool(self._seen)

    def add(self, event: str, about: str) -> None:
        with self._lock:
            self._seen.append((event, about))

    def look_at(self, level: str, event: str, fields: dict[str, Any]) -> None:
        is_chore = event == "chore.failed" and not str(fields.get("error", "")).startswith(_AWAY)
        if is_chore or (level in _ERRORS and event not in _PLANNED) or event.endswith(".surprised"):
            self.add(event, str(fields))

    def look_at_log(self, text: str) -> None:
        """The log of a child process, in JSON; other lines are passed over."""
        for line in text.splitlines():
            if '"event"' in line:
                try:
                    told = msgspec.json.decode(line, type=dict[str, Any])
                except msgspec.MsgspecError:
                    continue
                level, event = str(told.pop("level", "")), str(told.pop("event", ""))
                if event not in _ALARMS:
                    self.look_at(level, event, told)

    def take(self) -> list[tuple[str, str]]:
        with self._lock:
            seen, self._seen = self._seen, []
        return seen


SURPRISES = Surprises()

_Bound: Any = structlog.make_filtering_bound_logger(logging.NOTSET)


class _Watched(_Bound):  # type: ignore[misc]
    """As structlog is unless configured, but nothing said as an error is overheard, wherever it goes."""

    def _process_event(self, method_name: str, event: str | None, event_kw: dict[str, Any]) -> Any:
        SURPRISES.look_at(method_name, event or "", event_kw)
        if LEAKS.is_watching:
            said = {**self._context, **logs.add_ids(None, "", event_kw)}
            # As logs show a failure: without its message.
            LEAKS.wrote("log", f"{event} { {name: said[name] for name in said.keys() - {'exc_info'}} }")
        return super()._process_event(method_name, event, event_kw)


class _Libraries(logging.Handler):
    """What schedulers would write of a library's record: the static part of its message."""

    def emit(self, record: logging.LogRecord) -> None:
        LEAKS.wrote("log of a library", str(record.msg).partition("\n")[0])


class _Loops(logging.Handler):
    """asyncio tells here of exceptions that nobody retrieved, and of callbacks that failed."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        SURPRISES.add("loop.failed", f"{record.getMessage()} {error!r}")


@contextmanager
def watching() -> Iterator[None]:
    SURPRISES.take()
    kept, handler = structlog.get_config(), _Loops(logging.ERROR)
    structlog.configure(wrapper_class=_Watched)
    logging.getLogger("asyncio").addHandler(handler)
    libraries = _Libraries(logging.WARNING)
    logging.getLogger().addHandler(libraries)
    try:
        yield
    finally:
        # Tasks that nobody asked for their exception tell when they are collected.
        gc.collect(1)
        logging.getLogger("asyncio").removeHandler(handler)
        logging.getLogger().removeHandler(libraries)
        structlog.configure(**kept)
