from typing import Any

import pytest

from lingua_scheduler.services.access.first_keys import NoKeys, require_keys
from lingua_scheduler.setting_sections.access import AuthSettings, OidcSettings


@pytest.mark.parametrize(
    ("settings", "host", "words"),
    [
        ({}, "0.0.0.0", "server.host is 0.0.0.0 and no key exists: lingua keys create --admin, or --set auth.mode=off"),
        ({"mode": "required"}, "127.0.0.1", "auth.mode is required and no key exists"),
    ],
)
def test_a_start_that_nobody_could_use_is_refused(settings: Any, host: str, words: str) -> None:
    with pytest.raises(NoKeys, match=words):
        require_keys(AuthSettings(**settings), host, has_none=True)
    require_keys(AuthSettings(**settings), host, has_none=False)


def test_the_command_that_helps_names_the_data_directory_if_one_was_given() -> None:
    with pytest.raises(NoKeys, match=r"lingua keys create --admin --data-dir '/srv/my data', or --set"):
        require_keys(AuthSettings(), "0.0.0.0", has_none=True, data_dir="/srv/my data")


def test_a_start_on_loopback_or_for_everybody_needs_no_key() -> None:
    require_keys(AuthSettings(), "127.0.0.1", has_none=True)
    require_keys(AuthSettings(), "::1", has_none=True)
    require_keys(AuthSettings(mode="off"), "0.0.0.0", has_none=True)


def test_people_who_come_without_a_key_are_enough() -> None:
    roles = {"ops": "admin@*"}
    by_provider = AuthSettings(oidc=OidcSettings(issuer="https://id.example", roles=roles))
    by_proxy = AuthSettings(proxy_user_header="X-Forwarded-User", oidc=OidcSettings(roles=roles))
    for settings in (by_provider, by_proxy):
        require_keys(settings, "0.0.0.0", has_none=True)
    with pytest.raises(NoKeys):
        require_keys(AuthSettings(oidc=OidcSettings(roles=roles)), "0.0.0.0", has_none=True)
