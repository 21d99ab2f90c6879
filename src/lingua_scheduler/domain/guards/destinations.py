"""SSRF protection: which addresses given by callers the scheduler may connect to.

Without it, anyone who can register a node could make the scheduler send requests into its own network.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from lingua_scheduler.domain.guards.addresses import Network

SETTING = "server.allow_calls_to"
# Other ways to write an IPv4 address as an IPv6 one: NAT64, 6to4 and Teredo gateways would unwrap them.
_WRAPPED = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")))
_WELL_KNOWN_PORTS = frozenset({80, 443})
_FIRST_FREE_PORT = 1024


class Destinations:
    """Allows the allowed networks and, unless `public` is false, public addresses."""

    def __init__(self, allowed: Iterable[Network] = (), *, public: bool = True) -> None:
        self._allowed = tuple(allowed)
        self._public = public

    def without_public(self) -> "Destinations":
        """The allowed networks alone, for what must not cross the internet unencrypted."""
        return Destinations(self._allowed, public=False)

    def permits(self, address: str) -> bool:
        """Whether a connection to this IP address is allowed. Ask for the resolved address that is connected to."""
        found = ip_address(address)
        mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
        if self._is_allowed(mapped or found):
            return True
        if mapped is not None or any(found in network for network in _WRAPPED if found.version == network.version):
            return False
        return self._public and found.is_global and not found.is_multicast

    def complaint(self, url: str) -> str | None:
        """What is wrong with a URL, before connecting to it. A host name is checked when it is resolved."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:  # brackets that do not close, a port that is none
            return "not a valid URL"
        if parts.scheme not in ("http", "https") or not host or not (url.isascii() and url.isprintable()):
            return "expected http://host/path or https://host/path"
        if parts.username is not None or parts.password is not None:
            return "expected an address without a user or a password"
        if port is not None and port not in _WELL_KNOWN_PORTS and port < _FIRST_FREE_PORT:
            return "expected port 80, 443, or one from 1024 on"
        return self._complaint_about_host(host.rstrip("."))

    def refusal(self, host: str) -> str:
        """Why a call to a host is not permitted."""
        kind = "is a loopback, private or reserved address" if self._public else "must be called with https"
        return f"{host[:64]} {kind}; to permit calls to it, add it to {SETTING}"

    def _complaint_about_host(self, host: str) -> str | None:
        if host == "localhost" or host.endswith(".localhost"):
            is_permitted = self._is_allowed(IPv4Address("127.0.0.1")) or self._is_allowed(IPv6Address("::1"))
            return None if is_permitted else self.refusal(host)
        try:
            return None if self.permits(host) else self.refusal(host)
        except ValueError:
            pass
        last = host.rpartition(".")[2]
        if last.isdigit() or last.startswith("0x"):
            # 127.1, 0x7f000001 and 2130706433 are 127.0.0.1 to the system.
            return f"{host[:64]} is neither a host name nor an address in its usual form"
        return None

    def _is_allowed(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._allowed if network.version == address.version)
