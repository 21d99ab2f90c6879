"""Options that several commands share, and how commands end on an error."""

import os
import re
from pathlib import Path
from typing import IO, Any, NoReturn

import click

from lingua_scheduler.cli.wording import plain_lines
from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.configuration.loading import Loaded, load

DEFAULT_ADDRESS = "ws://127.0.0.1:5010"


_SPAN = re.compile(r"(\d{1,9})\s*(s|m|min|h|d)")
_UNIT_MS = {"s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Exit:
    """Exit codes; documented in docs/commands.md."""

    FOUND = 1
    SETTINGS = 2
    REDIS = 3
    PORT = 4
    SCHEDULER = 5
    CRITICAL = 6
    ENGINES = 7
    NOT_ALLOWED = 8
    INTERRUPTED = 130


class Failure(click.ClickException):
    """Ends a command on an error: one clear sentence, and an exit code for scripts."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click's own subclasses do the same

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - the shape click asks for
        click.secho(f"lingua: {plain_lines(self.message)}", fg="red", err=True)


def fail(message: str, code: int) -> NoReturn:
    raise Failure(message, code)


def span_of(text: str) -> int | None:
    """`30m` as milliseconds; None for what is no duration."""
    found = _SPAN.fullmatch(text.strip())
    return None if found is None else int(found[1]) * _UNIT_MS[found[2]]


def duration_ms(_context: object, _option: object, text: str | None) -> int | None:
    """For click: `30m` as milliseconds."""
    if text is None or (span_ms := span_of(text)) is not None:
        return None if text is None else span_ms
    raise click.BadParameter(f"{text!r} is not a duration such as 30s, 10m, 2h or 3d")


def load_settings(
    config: Path | None,
    flags: dict[str, Any],
    overrides: tuple[str, ...],
    *,
    tells_hints: bool = False,
    is_worker: bool = False,
) -> Loaded:
    """What to change in the file is told by the command that runs the scheduler; which file was found, by all."""
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals:
            fail(f"--set {override} has no value; write --set section.key=value", Exit.SETTINGS)
        flags[name] = value
    try:
        loaded = load(config_path=config, environment=os.environ, flags=flags, working_dir=Path.cwd())
    except SettingsError as error:
        fail(str(error), Exit.SETTINGS)
    notices = (loaded.notice,) if loaded.notice and not is_worker else ()
    for hint in (*notices, *(loaded.hints if tells_hints else ())):
        click.secho(f"lingua: hint: {plain_lines(hint)}", fg="yellow", err=True)
    return loaded
