"""Admission of requests, before anything is read or upgraded. Cheapest check first: the Host header, the origin of the
page, the limits of the caller's address, the credential."""

from collections.abc import Callable
from typing import NamedTuple

from aiohttp import hdrs, web

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import ANONYMOUS, Denied, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import ANYTHING, OPEN, Needs
from lingua_scheduler.domain.access.sides import Side, served
from lingua_scheduler.domain.guards.addresses import NOBODY, AddressBook, Caller
from lingua_scheduler.domain.guards.origins import OriginRule, is_loopback
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.gateway.login_cookies import FETCH_SITE, is_forwarded, is_from_here, is_own_page, name_for
from lingua_scheduler.gateway.peer_certificates import PeerCertificates
from lingua_scheduler.gateway.presented import TwoCredentials, UnansweredProtocol, presented
from lingua_scheduler.gateway.proxy_users import ProxyUsers
from lingua_scheduler.gateway.sides import Sides
from lingua_scheduler.services.access.doorkeeper import Doorkeeper
from lingua_scheduler.services.access.visits import Visit
from lingua_scheduler.services.nodes.toll import Toll
from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.errors import ErrorCode, HttpCode

_log = logs.get()

SOCKETS = ("/ws/session", "/ws/node")
_LOGINS = ("/v1/login", "/v1/logout", "/v1/login/oidc", "/v1/login/oidc/callback")
# Connections that last, what costs a question to Redis without a credential, and what any operator may add to Redis:
# limited per address and second.
KNOCKS = (*SOCKETS, "/v1/node/register", *_LOGINS, "/v1/login/codes")
# What a page of another site must not hold open, even if it cannot read the response.
STREAMS = ("/v1/watch",)
_SAFE = (hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS)
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
    "elsewhere",
    "unauthenticated",
    "not_permitted",
    "failures",
)
_REASON_OF = {400: "credentials", 401: "unauthenticated", 403: "not_permitted", 429: "failures"}
_HELD = web.RequestKey("place_held", str)
_PRINCIPAL = web.RequestKey("principal", Principal)

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
        users: ProxyUsers,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._users = users
        self._doorkeeper = doorkeeper
        self._needs_of = needs_of
        self.sides = Sides(settings)
        self._origins = OriginRule(settings.allowed_origins)
        self._addresses = addresses
        self._has_told_of_own = self._has_told_of_other = False
        # None: no certificates of callers are read.
        self.certificates: PeerCertificates | None = None

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

    async def judge(self, request: web.Request) -> RejectedRequest | None:
        """None if the request is admitted; call `leave` when it has ended."""
        headers, caller = request.headers, self.caller(request)
        host = headers.get(hdrs.HOST)
        if not self.sides.admit_host(request, host):
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
        if request.method not in _SAFE and self._users.acts(request) and not is_own_page(request):
            detail = "only pages of this scheduler may change something with a login"
            return _refuse("origin", 403, HttpCode.ORIGIN_NOT_ALLOWED, detail, caller)
        refused = self._judge_address(request, path, caller)
        if refused is None:
            refused = await self._judge_route(request, path, caller)
            if refused is not None:
                # `leave` is only called for a request that was admitted.
                self.leave(request)
        return refused

    def principal(self, request: web.BaseRequest) -> Principal:
        """Who sends a request that was admitted."""
        found: Principal = request.get(_PRINCIPAL, ANONYMOUS)
        return found

    def login_cookie(self, request: web.BaseRequest) -> str:
        """Name of the cookie that may carry a login; empty if it would cross a network that others can read."""
        return name_for(request, self._addresses)

    def renewed(self, principal: Principal, token: str, address: str, needs: Needs) -> Principal | Denied:
        """Who is at an open socket, by the newer token that it sent."""
        return self._doorkeeper.renew(principal, token, Visit(address, None, is_local=False), needs)

    def leave(self, request: web.Request) -> None:
        if meter := request.get(_HELD):
            request[_HELD] = ""
            self._addresses.leave(meter)

    def admits_page(self, request: web.Request) -> bool:
        """Whether the page that sends it may use the scheduler; programs always may."""
        host, site = request.headers.get(hdrs.HOST), request.headers.get(FETCH_SITE)
        return self._origins.admits(_origin(request), host, site, is_loopback(self.caller(request).address))

    def _judge_page(self, request: web.Request, caller: Caller) -> RejectedRequest | None:
        if self.admits_page(request):
            return None
        origin, site = _origin(request), request.headers.get(FETCH_SITE)
        if origin is None:
            detail = (
                f"requests from pages of other sites are not allowed ({FETCH_SITE}: {site}); see server.allowed_origins"
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
            return self._too_often(caller)
        if path in SOCKETS and isinstance(connection, Connection) and caller != connection.caller:
            # The connection is the proxy's; its caller is counted by its sockets.
            if self._addresses.enter(caller.meter) > self._addresses.max_sockets:
                self._addresses.leave(caller.meter)
                return self._too_many(caller)
            request[_HELD] = caller.meter
        return None

    async def _judge_route(self, request: web.Request, path: str, caller: Caller) -> RejectedRequest | None:
        needs = self._needs(request, path)
        if needs is None:
            detail = f"{path} does not declare what its callers need, so no caller may use it"
            return _refuse("undeclared", 403, HttpCode.PERMISSION_DENIED, detail, caller)
        side = self.sides.of(request)
        here = served(side, path, needs)
        # Only a caller who could use it learns that it is served elsewhere.
        refused = await self._judge_credential(request, path, caller, here or needs)
        if refused is not None:
            return refused
        if not here:
            other = "public port" if side is Side.INTERNAL else "internal port (server.internal_port)"
            return _refuse("elsewhere", 404, HttpCode.NOT_FOUND, f"{path} is served at the {other} only", caller)
        if side is Side.PUBLIC and self.principal(request).kind is PrincipalKind.OPERATOR:
            detail = "keys of operators count at the internal port only (server.internal_port)"
            return _refuse("elsewhere", 403, HttpCode.PERMISSION_DENIED, detail, caller)
        return None

    async def _judge_credential(
        self, request: web.Request, path: str, caller: Caller, needs: Needs
    ) -> RejectedRequest | None:
        try:
            shown = (
                presented(request, is_socket=path in SOCKETS, cookie=self._cookie(request)) if needs != OPEN else None
            )
        except TwoCredentials:
            detail = "the request has two credentials that differ; send one"
            return _refuse("credentials", 400, ErrorCode.INVALID_MESSAGE, detail, caller)
        except UnansweredProtocol as error:
            return _refuse("credentials", 400, ErrorCode.INVALID_MESSAGE, str(error), caller)
        user = self._users.find(request) if path not in SOCKETS else None
        certificate = self.certificates.find(request) if self.certificates is not None else None
        is_local, is_behind = self._is_local(request), self.sides.is_local and is_forwarded(request)
        visit = Visit(caller.address, _origin(request), is_local, user, certificate, is_behind)
        if shown is not None and self._doorkeeper.has_forgotten(shown):
            # A question to Redis, which costs more than all of the above.
            if not self._addresses.knock(caller.meter, self._clock()):
                return self._too_often(caller)
            await self._doorkeeper.recall(shown)
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
        if not self.sides.is_local or not is_from_here(request) or self._users.is_named(request):
            return False
        return _origin(request) is None or self.admits_page(request)

    def _cookie(self, request: web.Request) -> str:
        return self.login_cookie(request) if hdrs.COOKIE in request.headers else ""

    def _too_often(self, caller: Caller) -> RejectedRequest:
        detail = f"{caller.address} connects too often (server.handshakes_per_address_s); try again later"
        return _refuse("handshakes", 429, HttpCode.RATE_LIMITED, detail, caller, retry_after_s=_RETRY_AFTER_S)

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
