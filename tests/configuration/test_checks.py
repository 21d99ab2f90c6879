"""Settings about TLS, and about people who log in without a key. Others are in test_loading.py."""

from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.configuration.loading import load

FILE = """
[auth]
login_ms = 1000

[auth.oidc]
issuer = "https://id.example/realms/staff"
client_id = "lingua"

[auth.oidc.roles]
lingua-admins = "admin@*"
"lingua ops" = "operator@acme"
"""
RIGHT: dict[str, Any] = {
    "auth.oidc.issuer": "https://id.example",
    "auth.oidc.client_id": "lingua",
    "auth.oidc.roles": {"ops": "admin@*"},
}
PROXIED: dict[str, Any] = {
    "auth.proxy_user_header": "X-Forwarded-User",
    "auth.oidc.roles": {"ops": "admin@*"},
    "server.trusted_proxies": ("10.0.0.5",),
}


def test_a_section_within_a_section_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    found = load(config_path=path, environment={"LINGUA_AUTH_OIDC_GROUPS_CLAIM": "roles"}, flags={})
    oidc = found.settings.auth.oidc
    assert (oidc.issuer, oidc.groups_claim, found.settings.auth.login_ms) == (
        "https://id.example/realms/staff",
        "roles",
        1000,
    )
    assert list(oidc.roles.items()) == [("lingua-admins", "admin@*"), ("lingua ops", "operator@acme")]
    assert found.origins["auth.oidc.issuer"] == f"file {path}"


def test_a_mistake_in_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[auth.oidc]\nisuer = 'x'\n")
    with pytest.raises(SettingsError, match=r'unknown setting "auth.oidc.isuer".*did you mean "auth.oidc.issuer"'):
        load(config_path=path, environment={}, flags={})
    path.write_text("[auth]\noidc = 5\n")
    with pytest.raises(SettingsError, match=r"auth\.oidc"):
        load(config_path=path, environment={}, flags={})
    path.write_text("[auth.oidc]\nroles = ['a']\n")
    with pytest.raises(SettingsError, match="expected a table of strings"):
        load(config_path=path, environment={}, flags={})


@pytest.mark.parametrize("text", ["ops=admin@*, eyes = viewer@acme", '{ops = "admin@*", eyes = "viewer@acme"}'])
def test_a_table_may_be_in_the_environment(text: str) -> None:
    found = load(config_path=None, environment={"LINGUA_AUTH_OIDC_ROLES": text}, flags={})
    assert found.settings.auth.oidc.roles == {"ops": "admin@*", "eyes": "viewer@acme"}


def test_what_is_no_table_is_refused() -> None:
    for text in ("ops", "{ops", "ops=admin@*,eyes"):
        with pytest.raises(SettingsError, match="expected a table of strings"):
            load(config_path=None, environment={"LINGUA_AUTH_OIDC_ROLES": text}, flags={})


@pytest.mark.parametrize("right", [RIGHT, PROXIED, RIGHT | {"auth.oidc.issuer": "http://localhost:9400"}])
def test_all_that_belongs_together_is_accepted(right: dict[str, Any]) -> None:
    load(config_path=None, environment={}, flags=right)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (RIGHT | {"auth.oidc.issuer": "http://id.example"}, "expected an https address"),
        (RIGHT | {"auth.oidc.callback_url": "lingua.example"}, "expected an https address"),
        (RIGHT | {"auth.oidc.client_id": ""}, "auth.oidc.client_id is empty"),
        (RIGHT | {"auth.oidc.roles": {}}, "auth.oidc.roles is empty"),
        (RIGHT | {"auth.oidc.roles": {"ops": "root@*"}}, '"ops" = "root@\\*".*expected role@tenant'),
        (RIGHT | {"auth.oidc.scopes": ("profile",)}, "lacks openid"),
        (PROXIED | {"auth.oidc.roles": {}}, "auth.oidc.roles is empty"),
        (PROXIED | {"server.trusted_proxies": ()}, "server.trusted_proxies is empty"),
        (PROXIED | {"auth.proxy_groups_header": ""}, "auth.proxy_groups_header is empty"),
        (PROXIED | {"auth.proxy_user_header": "X Forwarded"}, "expected the name of a header"),
    ],
)
def test_what_cannot_work_is_refused(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load(config_path=None, environment={}, flags=flags)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"server.tls_cert_file": "a"}, r"server\.tls_cert_file is set .* and server\.tls_key_file is empty"),
        ({"server.tls_key_file": "a"}, r"server\.tls_key_file is set .* and server\.tls_cert_file is empty"),
        (
            {"server.tls_client_ca_file": "a"},
            r"server\.tls_client_ca_file is set .* and server\.tls_cert_file is empty",
        ),
        ({"server.client_cert_header": True}, r"server\.client_cert_header is set .* server\.trusted_proxies is empty"),
        ({"server.tls_client_domain": "Prod/x"}, r"server\.tls_client_domain.*lower-case letters"),
        ({"server.tls_client_domain": ""}, r"server\.tls_client_domain"),
    ],
)
def test_settings_of_tls_must_fit_each_other(given: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        load(config_path=None, environment={}, flags=given)
