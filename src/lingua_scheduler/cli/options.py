"""Options that several commands share, and how all of them end when something is wrong."""

import os
from pathlib import Path
from typing import Any, NoReturn

import click

from lingua_scheduler.settings import Loaded, SettingsError, load

DEFAULT_ADDRESS = "ws://127.0.0.1:5010"


class Exit:
    """Exit codes; documented in docs/commands.md."""

    SETTINGS = 2
    REDIS = 3
    PORT = 4
    SCHEDULER = 5
    INTERRUPTED = 130


def fail(message: str, code: int) -> NoReturn:
    """One clear sentence, and a code for scripts."""
    click.secho(f"lingua: {message}", fg="red", err=True)
    raise SystemExit(code)


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
