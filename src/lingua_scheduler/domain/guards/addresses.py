"""Callers by address, and the limits per address."""

from collections import Counter
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from lingua_scheduler.domain.guards.rates import Bucket, Budget

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The smallest IPv6 network that is given to one customer.
_IPV6_PREFIX = 64
# Above this many known addresses, idle ones are forgotten.
_MAX_REMEMBERED = 10_000
# Burst of handshakes per address: this many seconds' worth.
_BURST_S = 5
# CPU burst per address before it is delayed: enough for several nodes with thousands of pairs.
COST_BURST_S = 0.25


class Caller(NamedTuple):
    """`meter` is the key under which the limits of its address are counted; empty if it has no limits."""

    address: str
    meter: str


NOBODY = Caller("", "")


def read_address(text: str) -> Address | None:
    """Parse an address, with or without a port. An IPv4-mapped IPv6 address is returned as IPv4."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Raises ValueError for an invalid network."""
    return tuple(ip_network(text, strict=False) for text in texts)


def meter_of(address: Address) -> str:
    """One customer, one meter."""
    if isinstance(address, IPv6Address):
        return str(ip_network((int(address), _IPV6_PREFIX), strict=False))
    return str(address)


class AddressBook:
    """Identifies callers, and counts what each address uses. Addresses in `unmetered` have no limits."""

    def __init__(
        self, trusted: Iterable[str], unmetered: Iterable[str], max_sockets: int, knocks_per_s: int, cpu_share: float
    ) -> None:
        self._trusted = read_networks(trusted)
        self._unmetered = read_networks(unmetered)
        self._knocks_per_s = knocks_per_s
        self._knocks: dict[str, Budget] = {}
        self._places: Counter[str] = Counter()
        self._cpu_share = cpu_share
        self._costs: dict[str, Bucket] = {}
        self.max_sockets = max_sockets

    def is_proxy(self, peer: str) -> bool:
        """Whether this peer is a trusted proxy."""
        address = read_address(peer) if self._trusted else None
        return address is not None and _is_in(address, self._trusted)

    def caller(self, peer: str, forwarded: Sequence[str] = ()) -> Caller:
        """The rightmost address of X-Forwarded-For that is not a trusted proxy. Ignored if the peer is not trusted."""
        address = read_address(peer)
        if address is None:
            return Caller(peer, "")
        chain = [part for header in forwarded for part in header.split(",")]
        while chain and _is_in(address, self._trusted):
            before = read_address(chain.pop())
            if before is None:
                # The proxy that wrote this is the last address we can trust.
                break
            address = before
        is_free = _is_in(address, self._unmetered) or _is_in(address, self._trusted)
        return Caller(str(address), "" if is_free else meter_of(address))

    def knock(self, meter: str, now_s: float) -> bool:
        """Count a handshake; False if its address exceeds the rate."""
        if not meter:
            return True
        budget = self._knocks.get(meter)
        if budget is None:
            if len(self._knocks) >= _MAX_REMEMBERED:
                self._forget_quiet(now_s)
            budget = self._knocks[meter] = Budget(self._knocks_per_s, _BURST_S * self._knocks_per_s)
        return budget.take(now_s)

    def enter(self, meter: str) -> int:
        """Count a connection. Returns the number of its address's connections; 0 if they are not counted."""
        if not meter:
            return 0
        self._places[meter] += 1
        return self._places[meter]

    def leave(self, meter: str) -> None:
        if meter:
            self._places[meter] -= 1
            if self._places[meter] <= 0:
                del self._places[meter]

    def charge(self, meter: str, cpu_s: float, now_s: float) -> None:
        """Charge CPU time to the address. A peer that reconnects still owes it, unlike a limit per connection."""
        if not meter:
            return
        bucket = self._costs.get(meter)
        if bucket is None:
            if len(self._costs) >= _MAX_REMEMBERED:
                owing = {name: known for name, known in self._costs.items() if known.take(0, now_s)}
                self._costs = owing if len(owing) < _MAX_REMEMBERED // 2 else {}
            bucket = self._costs[meter] = Bucket(self._cpu_share, COST_BURST_S)
        bucket.take(cpu_s, now_s)

    def rest_s(self, meter: str, now_s: float) -> float:
        """Seconds until the address's CPU debt is paid off."""
        bucket = self._costs.get(meter)
        return 0.0 if bucket is None else bucket.take(0, now_s)

    def _forget_quiet(self, now_s: float) -> None:
        busy = {meter: budget for meter, budget in self._knocks.items() if not budget.is_whole(now_s)}
        # With this many busy addresses, scanning them for each new one would cost more than their handshakes.
        self._knocks = busy if len(busy) < _MAX_REMEMBERED // 2 else {}


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)
