"""Refuses a start after which no caller could come in."""

import shlex

from lingua_scheduler.domain.guards.origins import is_loopback
from lingua_scheduler.setting_sections.access import AuthSettings


class NoKeys(Exception):
    """No caller could come in: credentials are required, and none is known."""


def require_keys(settings: AuthSettings, host: str, *, has_none: bool, data_dir: str = "") -> None:
    """Raises NoKeys. Without any key a credential is still required. `data_dir` is named if it is not the default."""
    if not has_none or settings.mode == "off" or (settings.mode == "auto" and is_loopback(host)):
        return
    if settings.oidc.roles and (settings.oidc.issuer or settings.proxy_user_header):
        # People come in without a key, and can make one.
        return
    why = "auth.mode is required" if settings.mode == "required" else f"server.host is {host}"
    command = "lingua keys create --admin" + (f" --data-dir {shlex.quote(data_dir)}" if data_dir else "")
    raise NoKeys(f"{why} and no key exists: {command}, or --set auth.mode=off to let every caller in")
