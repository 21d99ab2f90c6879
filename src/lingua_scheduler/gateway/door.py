"""The door: whether a request is served, judged before anything is read or upgraded. Cheapest first: the name it
calls us by, the page it comes from, how much its address has already."""

from time import monotonic
from typing import NamedTuple

from aiohttp import hdrs, web

from lingua_scheduler.domain.errors import HttpCode
from lingua_scheduler.domain.guards.addresses import NOBODY, AddressBook, Caller
from lingua_scheduler.domain.guards.origins import HostRule, OriginRule, is_loopback
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.services.nodes.toll import Toll
from lingua_scheduler.settings import ServerSettings
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

SOCKETS = ("/ws/session", "/ws/node")
# Each of these takes a place for long, so their number is limited for each address.
KNOCKS = (*SOCKETS, "/v1/node/register")
# What a page of somebody else must not hold open, though it can read nothing of it.
STREAMS = ("/v1/watch",)
_SAFE = (hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS)
_FETCH_SITE = "Sec-Fetch-Site"
_FORWARDED = hdrs.X_FORWARDED_FOR
_MAX_SHOWN_CHARS = 200
_RETRY_AFTER_S = 5

_REFUSED = metrics.by(metrics.DOOR_REFUSALS, "host", "origin", "fetch_site", "sockets", "handshakes")
_HELD = web.RequestKey("place_held", str)


class Refused(NamedTuple):
    """How a request is turned away."""

    status: int
    code: HttpCode
    detail: str
    retry_after_s: int | None = None


class Door:
    def __init__(self, settings: ServerSettings, addresses: AddressBook) -> None:
        self._hosts = HostRule(settings.allowed_hosts, settings.host)
        self.listens_on([settings.host])
        self._origins = OriginRule(settings.allowed_origins)
        self._addresses = addresses
        self._has_told_of_own = self._has_told_of_other = False

    def listens_on(self, addresses: list[str]) -> None:
        """Where we can only be reached from this machine, only names of this machine are ours."""
        self._hosts.is_local = all(map(is_loopback, addresses))

    def caller(self, request: web.BaseRequest) -> Caller:
        connection = request.protocol
        if not isinstance(connection, Connection):
            return NOBODY
        forwarded = request.headers.getall(_FORWARDED, ())
        if not forwarded:
            return connection.caller
        peer = connection.caller.address
        if not self._addresses.is_proxy(peer):
            self._tell_of_proxy(connection.caller)
            return connection.caller
        return self._addresses.caller(peer, forwarded)

    def toll(self, request: web.BaseRequest) -> Toll:
        """What its address pays for what it costs to read a node that is not registered yet."""
        return Toll(self._addresses, self.caller(request).meter)

    def judge(self, request: web.Request) -> Refused | None:
        """None when it may come in; call `leave` when it has ended."""
        headers, caller = request.headers, self.caller(request)
        host = headers.get(hdrs.HOST)
        if not self._hosts.admits(host, _local_address(request)):
            detail = (
                f"{_shown(host)} is no name of this scheduler; if it is, add it to the setting server.allowed_hosts"
            )
            return _refuse("host", 421, HttpCode.MISDIRECTED, detail, caller, host=_shown(host))
        resource = request.match_info.route.resource
        path = resource.canonical if resource is not None else ""
        if path in SOCKETS or path in STREAMS or request.method not in _SAFE:
            refused = self._judge_page(request, host, caller)
            if refused is not None:
                return refused
        return self._judge_address(request, path, caller)

    def leave(self, request: web.Request) -> None:
        if meter := request.get(_HELD):
            self._addresses.leave(meter)

    def _judge_page(self, request: web.Request, host: str | None, caller: Caller) -> Refused | None:
        # Several of them, which no browser sends, are none that could be allowed.
        origins, site = request.headers.getall(hdrs.ORIGIN, ()), request.headers.get(_FETCH_SITE)
        origin = ", ".join(origins) if origins else None
        if self._origins.admits(origin, host, site, is_loopback(caller.address)):
            return None
        if origin is None:
            detail = f"pages of other sites may not do this ({_FETCH_SITE}: {site}); see server.allowed_origins"
            return _refuse("fetch_site", 403, HttpCode.ORIGIN_NOT_ALLOWED, detail, caller)
        shown = _shown(origin)
        # A page of a file, or in a frame without an origin: nobody can tell which, so none can be allowed.
        step = "open the page from a web server" if shown == "null" else "add it to the setting server.allowed_origins"
        detail = f"pages of {shown} may not use this scheduler; if they should, {step}"
        return _refuse("origin", 403, HttpCode.ORIGIN_NOT_ALLOWED, detail, caller, origin=shown)

    def _judge_address(self, request: web.Request, path: str, caller: Caller) -> Refused | None:
        connection = request.protocol
        if isinstance(connection, Connection) and connection.is_one_too_many:
            return self._too_many(caller)
        if path not in KNOCKS:
            return None
        if not self._addresses.knock(caller.meter, monotonic()):
            detail = f"{caller.address} connects too often; the setting server.handshakes_per_address_s limits it"
            return _refuse("handshakes", 429, HttpCode.RATE_LIMITED, detail, caller, retry_after_s=_RETRY_AFTER_S)
        if path in SOCKETS and isinstance(connection, Connection) and caller != connection.caller:
            # The connection is the proxy's; its caller is counted by its sockets.
            if self._addresses.enter(caller.meter) > self._addresses.max_sockets:
                self._addresses.leave(caller.meter)
                return self._too_many(caller)
            request[_HELD] = caller.meter
        return None

    def _too_many(self, caller: Caller) -> Refused:
        most = self._addresses.max_sockets
        detail = f"{caller.address} has {most} connections; the setting server.max_sockets_per_address limits it"
        return _refuse("sockets", 429, HttpCode.RATE_LIMITED, detail, caller, retry_after_s=_RETRY_AFTER_S)

    def _tell_of_proxy(self, peer: Caller) -> None:
        """Once of each kind: no stranger who sends the header first keeps back the word about our own proxy."""
        if peer.meter:
            if not self._has_told_of_other:
                self._has_told_of_other = True
                _log.info("proxy.ignored", address=peer.address, setting="server.trusted_proxies")
        elif not self._has_told_of_own:
            self._has_told_of_own = True
            # Nobody who comes through it is limited.
            _log.warning("proxy.not_trusted", address=peer.address, setting="server.trusted_proxies")


def _refuse(
    reason: str,
    status: int,
    code: HttpCode,
    detail: str,
    caller: Caller,
    *,
    retry_after_s: int | None = None,
    **told: str,
) -> Refused:
    _REFUSED[reason].inc()
    _log.warning("door.refused", reason=reason, address=caller.address, **told)
    return Refused(status, code, detail, retry_after_s)


def _shown(header: str | None) -> str:
    return (header or "")[:_MAX_SHOWN_CHARS]


def _local_address(request: web.Request) -> str:
    connection = request.protocol
    return connection.local_address if isinstance(connection, Connection) else ""
