"""Settings that must fit each other, and lists whose items must mean something."""

from collections.abc import Callable, Mapping
from typing import Any

from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.configuration.fields import shown_value
from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.guards.origins import ANY, read_host, read_origin
from lingua_scheduler.domain.watching.demand import is_listable

_AROUND_AUDIO_BYTES = 8_192


def check_together(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """The first mistake found is a SettingsError."""
    _check_order("nodes.default_max_jobs", "nodes.max_jobs", values, origins)
    _check_order("job.timeout_base_ms", "job.timeout_max_ms", values, origins)
    _check_order("instances.beat_ms", "instances.dead_ms", values, origins)
    _check_order("inbox.handle_timeout_ms", "inbox.retry_ms", values, origins)
    _check_order("requests.claim_ms", "requests.keep_ms", values, origins)
    _check_order("watch.watched_interval_ms", "watch.interval_ms", values, origins)
    _check_bodies(values, origins)
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
    "pools.wanted": (is_listable, "a language pair, e.g. en:pt or en:pt:text, or the word history"),
}
