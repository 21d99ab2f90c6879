"""Who calls, by address, and how much one address may have of us."""

from collections import Counter
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from lingua_scheduler.domain.guards.rates import Bucket, Budget

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# An IPv6 customer has at least this much for itself.
_IPV6_PREFIX = 64
# With more addresses than this remembered, those that have been quiet are forgotten.
_MAX_REMEMBERED = 10_000
# One address may knock for this many seconds at its full rate at once.
_BURST_S = 5
# So much CPU an address that was quiet may cost before it has to rest: several nodes with thousands of pairs.
COST_BURST_S = 0.25


class Caller(NamedTuple):
    """`meter` is what the limits of its address are counted under; empty when they do not apply to it."""

    address: str
    meter: str


NOBODY = Caller("", "")


def read_address(text: str) -> Address | None:
    """Also with a port behind it, as some proxies write it; an IPv4 address in IPv6 clothes is an IPv4 address."""
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
    """Raises ValueError for what is no network."""
    return tuple(ip_network(text, strict=False) for text in texts)


def meter_of(address: Address) -> str:
    """One customer, one meter."""
    if isinstance(address, IPv6Address):
        return str(ip_network((int(address), _IPV6_PREFIX), strict=False))
    return str(address)


class AddressBook:
    """Tells callers apart, and counts what each address has. Addresses in `unmetered` have no limits of their own."""

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
        """Whether what this peer says about its callers is believed."""
        address = read_address(peer) if self._trusted else None
        return address is not None and _is_in(address, self._trusted)

    def caller(self, peer: str, forwarded: Sequence[str] = ()) -> Caller:
        """The rightmost address of X-Forwarded-For that is not one of our proxies; from anybody else it is ignored."""
        address = read_address(peer)
        if address is None:
            return Caller(peer, "")
        chain = [part for header in forwarded for part in header.split(",")]
        while chain and _is_in(address, self._trusted):
            before = read_address(chain.pop())
            if before is None:
                # Whoever wrote this is the last we know of.
                break
            address = before
        is_free = _is_in(address, self._unmetered) or _is_in(address, self._trusted)
        return Caller(str(address), "" if is_free else meter_of(address))

    def knock(self, meter: str, now_s: float) -> bool:
        """A handshake; False when it is one too many of its address for this moment."""
        if not meter:
            return True
        budget = self._knocks.get(meter)
        if budget is None:
            if len(self._knocks) >= _MAX_REMEMBERED:
                self._forget_quiet(now_s)
            budget = self._knocks[meter] = Budget(self._knocks_per_s, _BURST_S * self._knocks_per_s)
        return budget.take(now_s)

    def enter(self, meter: str) -> int:
        """One more place is taken; which number it is among those of its address. 0: nobody counts."""
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
        """What somebody cost who may leave and come again, and whose connection then owes nothing."""
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
        """How long until what the address has cost is paid off."""
        bucket = self._costs.get(meter)
        return 0.0 if bucket is None else bucket.take(0, now_s)

    def _forget_quiet(self, now_s: float) -> None:
        busy = {meter: budget for meter, budget in self._knocks.items() if not budget.is_whole(now_s)}
        # With so many busy ones a look at all of them for each newcomer would cost more than their handshakes.
        self._knocks = busy if len(busy) < _MAX_REMEMBERED // 2 else {}


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)
