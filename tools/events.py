"""Every event the scheduler may write into its log, read from the source."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error"}
LOGGERS = ("_log", "log")
# The embedded server tells of itself through a callback, and whoever holds it writes that down.
CALLBACK = "_emit"


class Event(NamedTuple):
    # Empty where it is no constant.
    name: str
    level: str
    fields: tuple[str, ...]
    path: str
    line: int


@cache
def events(source: Path) -> list[Event]:
    """All of them, by name; one that several places write is there several times."""
    return sorted(event for path in source.rglob("*.py") for event in _of_file(path, source))


def _of_file(path: Path, source: Path) -> Iterator[Event]:
    where = path.relative_to(source).as_posix()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        level = _level(node.func)
        if level is None:
            continue
        name = _constant(node.args[0]) if node.args else ""
        if node.func.attr == CALLBACK:
            level = "warning" if "died" in name or "failed" in name else "info"
        fields = tuple(keyword.arg or "…" for keyword in node.keywords)
        if node.func.attr == "exception":
            fields += ("exc_info",)
        yield Event(name, level, fields, where, node.lineno)


def _level(function: ast.Attribute) -> str | None:
    """None when this is no call of a logger."""
    if function.attr == CALLBACK:
        return "info"
    called = function.value
    is_logger = isinstance(called, ast.Name) and called.id in LOGGERS
    is_fresh = isinstance(called, ast.Call) and ast.unparse(called.func) in ("get", "logs.get")
    return LEVELS.get(function.attr) if is_logger or is_fresh else None


def _constant(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
