"""The password of Redis from a file of its own, as secrets are mounted: it is put into the address."""

import re
from pathlib import Path
from urllib.parse import quote

from lingua_scheduler.configuration.errors import SettingsError

MAX_BYTES = 4_096
_PARTS = re.compile(r"([\w+]+://)(?:([^@/]*)@)?(.*)", re.DOTALL)


def with_password(url: str, file: str, origin: str) -> str:
    """A password that the address has already stays. An empty file holds none: there is one where it is optional."""
    parts = _PARTS.fullmatch(url)
    if not file or parts is None or ":" in (parts[2] or "") or "password=" in url:
        return url
    password = _read(Path(file).expanduser(), origin)
    return f"{parts[1]}{parts[2] or ''}:{quote(password, safe='')}@{parts[3]}" if password else url


def _read(path: Path, origin: str) -> str:
    try:
        with path.open("rb") as file:
            body = file.read(MAX_BYTES + 1)
        password = body.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(f"redis.password_file ({origin}): {path} cannot be read: {reason}") from None
    except UnicodeDecodeError:
        password = "\0"
    if len(body) > MAX_BYTES or (password and not password.isprintable()):
        raise SettingsError(f"redis.password_file ({origin}): {path} does not hold one password on one line")
    return password
