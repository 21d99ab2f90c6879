"""The key that commands show to a scheduler: of the environment, or kept per address by `lingua login`."""

import json
import os
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import click

from lingua_scheduler.cli.options import Exit, fail
from lingua_sdk.access import KEY_FILE_VARIABLE, KEY_VARIABLE, MAX_KEY_BYTES, AccessDenied, read_key_file
from lingua_sdk.address import origin_of, page_url
from lingua_sdk.private_files import write_private

_HEADER = "# Keys of lingua login, by address of the scheduler. To have this file is to have the keys.\n"
# What users other than its owner may do with it.
_OTHERS = 0o077


class KeySource:
    """A token for nodes, clients and pages: looks for the key again at each connect. Nothing here prints the key."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __call__(self) -> str:
        return key_for(self._url)


def shown_to(url: str) -> KeySource:
    """What commands show to the scheduler at this address; says once what is wrong with the files."""
    try:
        key_for(url, warns=True)
    except AccessDenied as error:
        fail(f"{error.detail}; {error.advice}", Exit.SETTINGS)
    return KeySource(url)


def key_for(url: str, *, warns: bool = False) -> str:
    """Empty if there is none. A variable that is set and empty means none, too. Raises AccessDenied."""
    if (text := os.environ.get(KEY_VARIABLE)) is not None:
        return text.strip()
    if path := os.environ.get(KEY_FILE_VARIABLE):
        if warns:
            _warn_of_others(Path(path).expanduser())
        return read_key_file(Path(path))
    # What is in the address is for a proxy, and only one of them can be sent.
    if _has_password(url):
        return ""
    if warns:
        _warn_of_others(credentials_path())
    return read_credentials().get(place_of(url), "")


def source_of(url: str) -> str:
    """Where the key for this address comes from, in words; empty if there is none."""
    if os.environ.get(KEY_VARIABLE) is not None:
        return f"the variable {KEY_VARIABLE}" if os.environ[KEY_VARIABLE].strip() else ""
    if path := os.environ.get(KEY_FILE_VARIABLE):
        return f"{path} ({KEY_FILE_VARIABLE})"
    return str(credentials_path()) if key_for(url) else ""


def entered_key() -> str:
    """From standard input; a person is asked, and does not see it."""
    if sys.stdin.isatty():
        return str(click.prompt("key", hide_input=True, err=True)).strip()
    return sys.stdin.read(MAX_KEY_BYTES).strip()


def place_of(url: str) -> str:
    """The address under which a key is kept. A key for https:// is never sent over http://. Raises BadAddress."""
    return origin_of(url)


def credentials_path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says to ignore a relative path.
    try:
        folder = Path(home) if home.startswith("/") else Path.home() / ".config"
    except RuntimeError:
        folder = Path("/nonexistent")
    return folder / "lingua" / "credentials.toml"


def read_credentials() -> dict[str, str]:
    """Address → key. Raises AccessDenied."""
    path = credentials_path()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from None
    except ValueError:
        # What TOML says of it may quote a key.
        raise _unreadable(path, "it is not TOML") from None
    found = {place: table.get("key") for place, table in tables.items() if isinstance(table, dict)}
    return {place: key for place, key in found.items() if isinstance(key, str)}


def write_credentials(keys: dict[str, str]) -> Path:
    """Whole, readable for its owner alone, and in one step: a crash leaves the file of before. Raises OSError."""
    path = credentials_path()
    tables = "".join(f"\n[{json.dumps(place)}]\nkey = {json.dumps(key)}\n" for place, key in sorted(keys.items()))
    write_private(path, (_HEADER + tables).encode())
    return path


def _has_password(url: str) -> bool:
    return urlsplit(page_url(url, "")).username is not None


def _unreadable(path: Path, why: str) -> AccessDenied:
    return AccessDenied("UNAUTHENTICATED", f"{path} cannot be read: {why}", "correct it, or remove it and log in again")


def _warn_of_others(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & _OTHERS:
        words = f"others may read the key in {path}; do: chmod 600 {path}"
        click.secho(f"lingua: warning: {words}", fg="yellow", err=True)
