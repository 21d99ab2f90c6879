"""Where data lies: the embedded server's folder, and files that may lie in it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.settings import RedisSettings, Settings

APP_DIR = "lingua-scheduler"
_NOTHING: Mapping[str, str] = MappingProxyType({})


def default_data_dir(environment: Mapping[str, str] = _NOTHING, platform: str = sys.platform) -> Path:
    """The per-user data directory. `load` has already applied XDG_DATA_HOME to the settings."""
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / APP_DIR
    return Path(xdg_data_home(environment, platform) or Path.home() / ".local" / "share", APP_DIR)


def resolved_data_dir(redis: RedisSettings) -> Path:
    try:
        return Path(redis.data_dir).expanduser() if redis.data_dir else default_data_dir()
    except RuntimeError:
        raise SettingsError("no home directory is known; set redis.data_dir to an absolute path") from None


def catalogue_path(settings: Settings) -> Path | None:
    """Path of the catalogue's copy; None if there is none, or no directory for it."""
    return _data_path(settings.catalogue.file, settings.redis)


def credentials_path(settings: Settings) -> Path | None:
    """Path of the copy of all credentials; None if there is none, or no directory for it."""
    return _data_path(settings.auth.backup_file, settings.redis)


def cluster_key_path(settings: Settings) -> Path | None:
    """Path of the cluster key; None if there is none, or no directory for it."""
    return _data_path(settings.privacy.cluster_key_file, settings.redis)


def _data_path(name: str, redis: RedisSettings) -> Path | None:
    try:
        path = Path(name).expanduser()
        if not name or path.is_absolute():
            return path if name else None
        return resolved_data_dir(redis) / path
    except (RuntimeError, SettingsError):
        return None


def xdg_data_home(environment: Mapping[str, str], platform: str) -> str:
    data_home = environment.get("XDG_DATA_HOME", "")
    # The XDG specification says to ignore a relative path.
    return data_home if platform != "darwin" and data_home.startswith("/") else ""
