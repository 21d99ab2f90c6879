"""Loads settings: file, environment and flags are handed in, in rising order; each value remembers its origin."""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lingua_scheduler.configuration import earlier
from lingua_scheduler.configuration.checks import check_together
from lingua_scheduler.configuration.constants import CONSTANTS, hint_of, variable_of
from lingua_scheduler.configuration.data_dirs import APP_DIR, xdg_data_home
from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.configuration.fields import KNOWN, SECTIONS, fields, shown_value
from lingua_scheduler.configuration.redis_password import with_password
from lingua_scheduler.settings import Settings

FILE_NAME = "config.toml"

# Variables that commands read themselves: the file of settings, and the scheduler to talk to.
CONFIG_VARIABLE, URL_VARIABLE = "LINGUA_CONFIG", "LINGUA_URL"
# Of callers: a key, or a file with one.
KEY_VARIABLES = ("LINGUA_KEY", "LINGUA_KEY_FILE")
NO_SETTINGS = frozenset({CONFIG_VARIABLE, URL_VARIABLE, *KEY_VARIABLES})


class Loaded(NamedTuple):
    settings: Settings
    origins: dict[str, str]  # dotted name -> "default", "file /x.toml", "environment LINGUA_…" or "flag"
    # For the person who configures the scheduler: what is called otherwise by now, and what has no effect any more.
    hints: tuple[str, ...] = ()
    file: Path | None = None
    # About a file that was not named but found.
    notice: str = ""


class _Given(NamedTuple):
    name: str
    value: object
    origin: str


def load(
    *,
    config_path: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, object],
    working_dir: Path | None = None,
) -> Loaded:
    """Merge defaults, file, environment and flags. Mistakes raise one SettingsError that names them all.

    If no file is named, `config.toml` of the working directory is read, provided that it is ours; a hint says so.
    """
    values = {field.name: field.default for field in fields()}
    origins = dict.fromkeys(values, "default")
    hints: list[str] = []
    named = config_path or environment.get(CONFIG_VARIABLE)
    path, notice = (Path(named), "") if named else _found(working_dir)
    mistakes = []
    for name, value, origin in _given(path, environment, flags, hints):
        if name in CONSTANTS:
            hints.append(hint_of(name, origin))
            continue
        try:
            values[name] = _checked(name, value, origin)
        except SettingsError as mistake:
            mistakes.append(str(mistake))
        origins[name] = origin
    if mistakes:
        raise SettingsError("\n".join(mistakes))
    if not values["redis.data_dir"] and (data_home := xdg_data_home(environment, sys.platform)):
        values["redis.data_dir"] = str(Path(data_home, APP_DIR))
        origins["redis.data_dir"] = "environment XDG_DATA_HOME"
    check_together(values, origins)
    where = origins["redis.password_file"]
    values["redis.url"] = with_password(str(values["redis.url"]), str(values["redis.password_file"]), where)
    tables: dict[str, Any] = {}
    for name, value in values.items():
        *sections, key = name.split(".")
        table = tables
        for section in sections:
            table = table.setdefault(section, {})
        table[key] = value
    return Loaded(msgspec.convert(tables, Settings), origins, tuple(hints), path, notice)


def _found(working_dir: Path | None) -> tuple[Path | None, str]:
    """`config.toml` of the working directory, which earlier schedulers read, unless it belongs to another program."""
    path = working_dir / FILE_NAME if working_dir is not None else None
    try:
        if path is None or not path.is_file():
            return None, ""
    except PermissionError:  # root's own folder, where it runs a command as the user of a service
        return None, ""
    foreign = sorted(_read(path).keys() - set(Settings.__struct_fields__) - earlier.SECTIONS)
    if foreign:
        return None, (
            f'{path} is not read: it looks like a file of another program ("{foreign[0]}" is no section of ours); '
            "name your file with --config"
        )
    return path, f"settings are read from {path}; name another file with --config"


def _given(
    path: Path | None, environment: Mapping[str, str], flags: Mapping[str, object], hints: list[str]
) -> Iterator[_Given]:
    """Every given setting, lowest precedence first."""
    if path is not None:
        yield from _of_file(path, hints)
    names = {field.variable: field.name for field in fields()} | {variable_of(name): name for name in CONSTANTS}
    for variable, text in environment.items():
        if variable.startswith("LINGUA_") and variable not in NO_SETTINGS:
            name = names.get(variable, variable)
            yield _Given(name, _parsed(name, text), f"environment {variable}")
    for name, value in flags.items():
        if value is not None:
            yield _Given(name, _parsed(name, value), "flag")


def _of_file(path: Path, hints: list[str]) -> Iterator[_Given]:
    """Sections of earlier schedulers first, so that a setting under its present name wins."""
    tables, origin = _read(path), f"file {path}"
    older = {section: tables.pop(section) for section in earlier.SECTIONS & tables.keys()}
    for found in earlier.translated(older):
        match found:
            case earlier.Translated(name, value, key, _):
                hints.append(f"{key} ({origin}) is {name} now; {found.step}")
                yield _Given(name, value, f"{origin}, {key}")
            case earlier.Unused(key, reason):
                hints.append(f"{key} ({origin}) has no effect any more: {reason}; remove it")
            case key:
                yield _Given(key, None, origin)
    for section, table in tables.items():
        if isinstance(table, dict) and (table or section in Settings.__struct_fields__):
            yield from _of_table(section, table, origin)
        else:
            yield _Given(section, table, origin)  # no setting has a bare name, so this is reported as unknown


def _of_table(section: str, table: Mapping[str, Any], origin: str) -> Iterator[_Given]:
    for key, value in table.items():
        name = f"{section}.{key}"
        if name in SECTIONS and isinstance(value, dict):
            yield from _of_table(name, value, origin)
        else:
            yield _Given(name, value, origin)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}; name a readable file") from None
    except ValueError as error:  # not TOML, or not even UTF-8
        raise SettingsError(f"{path} is not valid TOML: {error}; correct it there") from None


def _parsed(name: str, value: object) -> object:
    """The text converted to the type of its setting. Invalid text is returned as it is, and the check rejects it."""
    try:
        return KNOWN[name].parse(value) if isinstance(value, str) else value
    except (ValueError, KeyError):
        return value


def _checked(name: str, value: object, origin: str) -> object:
    if name not in KNOWN:
        raise _unknown(name, origin)
    try:
        return msgspec.convert(value, KNOWN[name].annotation)
    except msgspec.ValidationError:
        expected = KNOWN[name].expected
        raise SettingsError(f"{name} = {shown_value(value)} ({origin}): expected {expected}") from None


def _unknown(name: str, origin: str) -> SettingsError:
    source, _, path = origin.partition(" ")
    is_variable = source == "environment"
    near = {"config": "LINGUA_CONFIG"} if is_variable else {s: f"[{s}]" for s in Settings.__struct_fields__}
    for field in fields():
        label = field.variable if is_variable else field.name
        # The bare key too: the setting may have been written in the wrong section, or in none.
        near |= {field.name.rpartition(".")[2]: label, field.name.replace(".", "_"): label}
    spelled = name.removeprefix("LINGUA_").casefold()
    key = spelled.rpartition(".")[2]
    found = [key] if key in near else get_close_matches(spelled.replace(".", "_"), near, n=1)
    step = f'did you mean "{near[found[0]]}"?' if found else "see docs/settings.md for the list"
    where = path if source == "file" else "the environment" if is_variable else "the flags"
    return SettingsError(f'unknown setting "{name}" in {where}; {step}')
