"""Settings that must fit each other, and lists whose items must mean something."""

from collections.abc import Callable, Mapping
from typing import Any

from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.configuration.fields import shown_value
from lingua_scheduler.domain.access.credentials import is_tenant
from lingua_scheduler.domain.access.role_tables import read_grant
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.guards.origins import ANY, read_host, read_origin
from lingua_scheduler.domain.guards.provider_urls import is_safe_url
from lingua_scheduler.domain.rooms.relays import is_relay_url
from lingua_scheduler.domain.watching.demand import is_listable
from lingua_sdk.domain.languages import is_code

_AROUND_AUDIO_BYTES = 8_192
_ROLES = "auth.oidc.roles"
# The first has no use without the second.
_TOGETHER = (
    ("auth.oidc.issuer", "auth.oidc.client_id"),
    ("auth.oidc.issuer", _ROLES),
    ("auth.proxy_user_header", _ROLES),
    ("auth.proxy_user_header", "auth.proxy_groups_header"),
    ("auth.proxy_user_header", "server.trusted_proxies"),
    ("server.tls_cert_file", "server.tls_key_file"),
    ("server.tls_key_file", "server.tls_cert_file"),
    ("server.tls_client_ca_file", "server.tls_cert_file"),
    ("server.client_cert_header", "server.trusted_proxies"),
)


def check_together(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """The first mistake found is a SettingsError."""
    _check_order("nodes.default_max_jobs", "nodes.max_jobs", values, origins)
    _check_order("job.timeout_base_ms", "job.timeout_max_ms", values, origins)
    _check_order("instances.beat_ms", "instances.dead_ms", values, origins)
    _check_order("inbox.handle_timeout_ms", "inbox.retry_ms", values, origins)
    _check_order("requests.claim_ms", "requests.keep_ms", values, origins)
    _check_order("watch.watched_interval_ms", "watch.interval_ms", values, origins)
    _check_bodies(values, origins)
    _check_ports(values, origins)
    _check_people(values, origins)
    _check_pairs(values, origins)
    for name, (is_fine, expected) in _ITEMS.items():
        _check_items(name, is_fine, expected, values, origins)


def _check_order(low: str, high: str, values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    if values[low] > values[high]:
        raise SettingsError(
            f"{low} = {values[low]} ({origins[low]}) is above {high} = {values[high]} ({origins[high]}); "
            "lower the first or raise the second"
        )


def _check_bodies(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """The largest utterance must fit into an HTTP body: as base64, plus the other fields."""
    audio, body = "sessions.max_utterance_bytes", "server.max_body_bytes"
    needed = values[audio] * 4 // 3 + _AROUND_AUDIO_BYTES
    if values[body] < needed:
        raise SettingsError(
            f"{body} = {values[body]} ({origins[body]}) is too small for an utterance of {audio} = {values[audio]} "
            f"({origins[audio]}) as base64; set it to at least {needed}"
        )


def _check_ports(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Also where the hosts differ: one of them may stand for every address."""
    public, internal = "server.port", "server.internal_port"
    if values[internal] and values[internal] == values[public]:
        raise SettingsError(
            f"{internal} = {values[internal]} ({origins[internal]}) is also {public} ({origins[public]}); "
            "choose another, or 0 for none"
        )


def _check_people(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """How operators without a key log in."""
    for name in ("auth.oidc.issuer", "auth.oidc.callback_url"):
        if values[name] and not is_safe_url(values[name]):
            expected = "an https address without user, query and fragment; http only on loopback"
            raise SettingsError(f"{name} = {shown_value(values[name])} ({origins[name]}): expected {expected}")
    for group, text in values[_ROLES].items():
        if read_grant(text) is None:
            expected = f"role@tenant or role@*, with one of the roles {', '.join(Role)}"
            told = f"{shown_value(group)} = {shown_value(text)} ({origins[_ROLES]})"
            raise SettingsError(f"{_ROLES} holds {told}: expected {expected}")
    scopes = "auth.oidc.scopes"
    if values["auth.oidc.issuer"] and "openid" not in values[scopes]:
        raise SettingsError(f"{scopes} ({origins[scopes]}) lacks openid; add it")


def _check_pairs(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    for name, other in _TOGETHER:
        if values[name] and not values[other]:
            raise SettingsError(f"{name} is set ({origins[name]}) and {other} is empty; set both or none")


def _check_items(
    name: str,
    is_fine: Callable[[str], bool],
    expected: str,
    values: Mapping[str, Any],
    sources: Mapping[str, str],
) -> None:
    for text in values[name]:
        if not is_fine(text):
            # Most shells take the quotes of a TOML list away.
            step = """; write a,b or '["a", "b"]'""" if text.startswith("[") or text.endswith("]") else ""
            raise SettingsError(f"{name} holds {shown_value(text)} ({sources[name]}): expected {expected}{step}")


def _is_network(text: str) -> bool:
    try:
        return bool(read_networks((text,)))
    except ValueError:
        return False


def _is_origin(text: str) -> bool:
    return text == ANY or read_origin(text) is not None


def _is_host(text: str) -> bool:
    found = read_host(text)
    return text == ANY or (found is not None and found.port is None)


_NETWORK = "an address or a network, e.g. 10.0.0.5 or 10.0.0.0/8"
_ITEMS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "server.allowed_origins": (_is_origin, "an origin with its scheme, e.g. https://app.example, or *"),
    "server.allowed_hosts": (_is_host, "a host name or address without scheme and port, or *"),
    "server.trusted_proxies": (_is_network, _NETWORK),
    "server.allow_calls_to": (_is_network, _NETWORK),
    "server.unmetered_addresses": (_is_network, _NETWORK),
    "rooms.turn_urls": (is_relay_url, "a STUN or TURN server, e.g. turn:turn.example:3478"),
    "pools.pivot_langs": (is_code, "a language code, e.g. en"),
    "pools.private_only": (is_tenant, "a tenant: lower-case letters, digits and -, at most 63"),
    "pools.wanted": (is_listable, "a language pair, e.g. en:pt or en:pt:text, or the word history"),
}
