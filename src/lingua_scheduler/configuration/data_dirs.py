"""Where data lies: the embedded server's folder, and files that may lie in it."""

import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.setting_sections.redis import RedisSettings
from lingua_scheduler.settings import Settings

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
    """Path of the copy of all credentials; None if there is none, or no directory for it.

    In the data directory each Redis has its own copy, or the keys of one would be written into another."""
    redis, path = settings.redis, _data_path(settings.auth.backup_file, settings.redis)
    if path is None or Path(settings.auth.backup_file).expanduser().is_absolute() or not redis.url:
        return path
    where = f"{re.sub('//[^/]*@', '//', redis.url)} {redis.key_prefix}"
    return path.with_stem(f"{path.stem}-{hashlib.sha256(where.encode()).hexdigest()[:12]}")


def audit_anchor_path(settings: Settings) -> Path | None:
    """Path of the last signed head of the audit log: beside the copy of all credentials, as long as there is one."""
    path = credentials_path(settings)
    return None if path is None else path.with_suffix(".audit-anchor")


def cluster_key_path(settings: Settings) -> Path | None:
    """Path of the cluster key; None if there is none, or no directory for it."""
    return _data_path(settings.privacy.cluster_key_file, settings.redis)


def audit_key_path(settings: Settings) -> Path | None:
    """Path of the audit log's own keys; None if they are derived from the cluster key."""
    return _data_path(settings.audit.key_file, settings.redis)


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
