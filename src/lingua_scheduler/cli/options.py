"""Options that several commands share, and how all of them end when something is wrong."""

import os
from pathlib import Path
from typing import IO, Any, NoReturn

import click

from lingua_scheduler.cli.wording import plain_lines
from lingua_scheduler.settings import Loaded, SettingsError, load

DEFAULT_ADDRESS = "ws://127.0.0.1:5010"


class Exit:
    """Exit codes; documented in docs/commands.md."""

    SETTINGS = 2
    REDIS = 3
    PORT = 4
    SCHEDULER = 5
    CRITICAL = 6
    ENGINES = 7
    INTERRUPTED = 130


class Failure(click.ClickException):
    """How a command ends when something is wrong: one clear sentence, and a code for scripts."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click's own subclasses do the same

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - the shape click asks for
        click.secho(f"lingua: {plain_lines(self.message)}", fg="red", err=True)


def fail(message: str, code: int) -> NoReturn:
    raise Failure(message, code)


def load_settings(config: Path | None, flags: dict[str, Any], overrides: tuple[str, ...]) -> Loaded:
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals:
            fail(f"--set {override} needs a value: --set section.key=value", Exit.SETTINGS)
        flags[name] = value
    try:
        return load(config_path=config, environment=os.environ, flags=flags)
    except SettingsError as error:
        fail(str(error), Exit.SETTINGS)
