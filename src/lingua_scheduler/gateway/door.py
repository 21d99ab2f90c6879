"""Admission of requests, before anything is read or upgraded. Cheapest check first: the Host header, the origin of the
page, the limits of the caller's address, the credential."""

from collections.abc import Callable
from typing import NamedTuple

from aiohttp import hdrs, web

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import ANONYMOUS, Denied, Principal
from lingua_scheduler.domain.access.scopes import ANYTHING, OPEN, Needs
from lingua_scheduler.domain.errors import ErrorCode, HttpCode
from lingua_scheduler.domain.guards.addresses import NOBODY, AddressBook, Caller
from lingua_scheduler.domain.guards.origins import HostRule, OriginRule, is_loopback, read_host
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.gateway.presented import TwoCredentials, UnansweredProtocol, presented
from lingua_scheduler.services.access.doorkeeper import Doorkeeper, Visit
from lingua_scheduler.services.nodes.toll import Toll
from lingua_scheduler.settings import ServerSettings
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

SOCKETS = ("/ws/session", "/ws/node")
# Long-lived requests, whose number is limited per address.
KNOCKS = (*SOCKETS, "/v1/node/register")
# What a page of another site must not hold open, even if it cannot read the response.
STREAMS = ("/v1/watch",)
_SAFE = (hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS)
_FETCH_SITE = "Sec-Fetch-Site"
_FORWARDED = hdrs.X_FORWARDED_FOR
_MAX_SHOWN_CHARS = 200
_RETRY_AFTER_S = 5

_REFUSED = metrics.by(
    metrics.DOOR_REFUSALS,
    "host",
    "origin",
    "fetch_site",
    "sockets",
    "handshakes",
    "credentials",
    "undeclared",
    "unauthenticated",
    "not_permitted",
    "failures",
)
_REASON_OF = {401: "unauthenticated", 403: "not_permitted", 429: "failures"}
_HELD = web.RequestKey("place_held", str)
_PRINCIPAL = web.RequestKey("principal", Principal)
# Added by proxies: the caller behind one may be anywhere.
_PROXY_HEADERS = (hdrs.FORWARDED, hdrs.X_FORWARDED_FOR, hdrs.VIA)

# What a route needs, by method and path; None if it is not declared.
NeedsOf = Callable[[str, str], Needs | None]


class RejectedRequest(NamedTuple):
    """A rejected request: how it is answered."""

    status: int
    code: str
    detail: str
    retry_after_s: int | None = None


class Door:
    def __init__(
        self,
        settings: ServerSettings,
        addresses: AddressBook,
        doorkeeper: Doorkeeper,
        needs_of: NeedsOf,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._doorkeeper = doorkeeper
        self._needs_of = needs_of
        self._hosts = HostRule(settings.allowed_hosts, settings.host)
        self.listens_on([settings.host])
        self._origins = OriginRule(settings.allowed_origins)
        self._addresses = addresses
        self._has_told_of_own = self._has_told_of_other = False

    def listens_on(self, addresses: list[str]) -> None:
        """While listening only on loopback, only loopback names are accepted."""
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
        """Charges the CPU time of reading a registration to the caller's address."""
        return Toll(self._addresses, self.caller(request).meter, self._clock)

    def judge(self, request: web.Request) -> RejectedRequest | None:
        """None if the request is admitted; call `leave` when it has ended."""
        headers, caller = request.headers, self.caller(request)
        host = headers.get(hdrs.HOST)
        if not self._hosts.admits(host, _local_address(request)):
            detail = (
                f"unknown host {_shown(host)}; if it names this scheduler, add it to the setting server.allowed_hosts"
            )
            return _refuse("host", 421, HttpCode.MISDIRECTED, detail, caller, host=_shown(host))
        resource = request.match_info.route.resource
        path = resource.canonical if resource is not None else ""
        if path in SOCKETS or path in STREAMS or request.method not in _SAFE:
            refused = self._judge_page(request, caller)
            if refused is not None:
                return refused
        refused = self._judge_address(request, path, caller)
        if refused is None:
            refused = self._judge_credential(request, path, caller)
            if refused is not None:
                # `leave` is only called for a request that was admitted.
                self.leave(request)
        return refused

    def principal(self, request: web.BaseRequest) -> Principal:
        """Who sends a request that was admitted."""
        found: Principal = request.get(_PRINCIPAL, ANONYMOUS)
        return found

    def leave(self, request: web.Request) -> None:
        if meter := request.get(_HELD):
            request[_HELD] = ""
            self._addresses.leave(meter)

    def admits_page(self, request: web.Request) -> bool:
        """Whether the page that sends it may use the scheduler; programs always may."""
        host, site = request.headers.get(hdrs.HOST), request.headers.get(_FETCH_SITE)
        return self._origins.admits(_origin(request), host, site, is_loopback(self.caller(request).address))

    def _judge_page(self, request: web.Request, caller: Caller) -> RejectedRequest | None:
        if self.admits_page(request):
            return None
        origin, site = _origin(request), request.headers.get(_FETCH_SITE)
        if origin is None:
            detail = (
                f"requests from pages of other sites are not allowed ({_FETCH_SITE}: {site}); see "
                "server.allowed_origins"
            )
            return _refuse("fetch_site", 403, HttpCode.ORIGIN_NOT_ALLOWED, detail, caller)
        shown = _shown(origin)
        # A local file, or a frame without an origin: they cannot be told apart, so none can be allowed.
        step = "open the page from a web server" if shown == "null" else "add it to the setting server.allowed_origins"
        detail = f"pages of {shown} are not allowed to use this scheduler; to allow them, {step}"
        return _refuse("origin", 403, HttpCode.ORIGIN_NOT_ALLOWED, detail, caller, origin=shown)

    def _judge_address(self, request: web.Request, path: str, caller: Caller) -> RejectedRequest | None:
        connection = request.protocol
        if isinstance(connection, Connection) and connection.is_one_too_many:
            return self._too_many(caller)
        if path not in KNOCKS:
            return None
        if not self._addresses.knock(caller.meter, self._clock()):
            detail = f"{caller.address} connects too often (server.handshakes_per_address_s); try again later"
            return _refuse("handshakes", 429, HttpCode.RATE_LIMITED, detail, caller, retry_after_s=_RETRY_AFTER_S)
        if path in SOCKETS and isinstance(connection, Connection) and caller != connection.caller:
            # The connection is the proxy's; its caller is counted by its sockets.
            if self._addresses.enter(caller.meter) > self._addresses.max_sockets:
                self._addresses.leave(caller.meter)
                return self._too_many(caller)
            request[_HELD] = caller.meter
        return None

    def _judge_credential(self, request: web.Request, path: str, caller: Caller) -> RejectedRequest | None:
        needs = self._needs(request, path)
        if needs is None:
            detail = f"{path} does not declare what its callers need, so no caller may use it"
            return _refuse("undeclared", 403, HttpCode.PERMISSION_DENIED, detail, caller)
        try:
            shown = presented(request, is_socket=path in SOCKETS) if needs != OPEN else None
        except TwoCredentials:
            detail = "the request has two credentials that differ; send one"
            return _refuse("credentials", 400, ErrorCode.INVALID_MESSAGE, detail, caller)
        except UnansweredProtocol as error:
            return _refuse("credentials", 400, ErrorCode.INVALID_MESSAGE, str(error), caller)
        visit = Visit(caller.address, _origin(request), self._is_local(request))
        found = self._doorkeeper.admit(shown, visit, needs)
        if isinstance(found, Denied):
            # Logged already, with the cause.
            _REFUSED[_REASON_OF[found.status]].inc()
            return RejectedRequest(found.status, found.code, found.detail, found.retry_after_s)
        request[_PRINCIPAL] = found
        return None

    def _needs(self, request: web.Request, path: str) -> Needs | None:
        if path:
            return self._needs_of(request.method, path)
        # Nothing is served there. An unknown path needs no credential, but the list of methods of a known one does.
        return OPEN if isinstance(request.match_info.http_exception, web.HTTPNotFound) else ANYTHING

    def _is_local(self, request: web.Request) -> bool:
        """From this computer, to a loopback address, and not through a proxy: its callers may be anywhere."""
        connection, headers = request.protocol, request.headers
        if not self._hosts.is_local or not isinstance(connection, Connection):
            return False
        if not is_loopback(connection.caller.address) or any(name in headers for name in _PROXY_HEADERS):
            return False
        host = headers.get(hdrs.HOST)
        if host is not None and ((named := read_host(host)) is None or not is_loopback(named.host)):
            return False
        return _origin(request) is None or self.admits_page(request)

    def _too_many(self, caller: Caller) -> RejectedRequest:
        most = self._addresses.max_sockets
        detail = f"{caller.address} has {most} connections (server.max_sockets_per_address); close some"
        return _refuse("sockets", 429, HttpCode.RATE_LIMITED, detail, caller, retry_after_s=_RETRY_AFTER_S)

    def _tell_of_proxy(self, peer: Caller) -> None:
        """Log once per kind: a header from an unknown sender must not suppress the warning about our own proxy."""
        if peer.meter:
            if not self._has_told_of_other:
                self._has_told_of_other = True
                _log.info("proxy.ignored", address=peer.address, setting="server.trusted_proxies")
        elif not self._has_told_of_own:
            self._has_told_of_own = True
            # Callers behind it have no limits.
            _log.warning("proxy.not_trusted", address=peer.address, setting="server.trusted_proxies")


def _refuse(
    reason: str,
    status: int,
    code: str,
    detail: str,
    caller: Caller,
    *,
    retry_after_s: int | None = None,
    **told: str,
) -> RejectedRequest:
    _REFUSED[reason].inc()
    _log.warning("door.refused", reason=reason, address=caller.address, **told)
    return RejectedRequest(status, code, detail, retry_after_s)


def _origin(request: web.Request) -> str | None:
    """Several of them, which no browser sends, are none that could be allowed."""
    origins = request.headers.getall(hdrs.ORIGIN, ())
    return ", ".join(origins) if origins else None


def _shown(header: str | None) -> str:
    return (header or "")[:_MAX_SHOWN_CHARS]


def _local_address(request: web.Request) -> str:
    connection = request.protocol
    return connection.local_address if isinstance(connection, Connection) else ""
