"""HTTP for people who log in to the dashboard: a cookie for a key or for a one-time code."""

from collections.abc import Iterable

from aiohttp import web

from lingua_scheduler.console.answers import json_response
from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.logins import CODE_MS
from lingua_scheduler.domain.access.principals import Denied, Principal, PrincipalKind, unauthenticated
from lingua_scheduler.domain.access.scopes import ANYTHING, OPEN, Scope
from lingua_scheduler.protocol.http_logins import LoggedIn, LoggedOut, LoginCode, LoginOffers, LoginRequest
from lingua_scheduler.services.access.doorkeeper import Doorkeeper
from lingua_scheduler.services.access.logins import Logins
from lingua_scheduler.services.access.visits import Shown, Via, Visit
from lingua_sdk.domain.errors import ErrorCode, HttpCode

_TAG = "access"
# Browsers take a cookie with this start only with Secure.
SECURE_PREFIX = "__Host-"
IN_THE_CLEAR = (
    "login is only possible over https, or on the computer of the scheduler; a proxy that ends TLS must be in "
    "server.trusted_proxies and send X-Forwarded-Proto"
)


class LoginOperations:
    """`provider` is the name of the identity provider; empty if there is none."""

    def __init__(self, logins: Logins, doorkeeper: Doorkeeper, login_ms: int, provider: str = "") -> None:
        self._logins = logins
        self._doorkeeper = doorkeeper
        self._login_ms = login_ms
        self._offers = LoginOffers(oidc=provider)

    @property
    def operations(self) -> Iterable[Operation]:
        clear = KnownProblem(
            403, HttpCode.PERMISSION_DENIED.value, "The key is no operator key, or the login is not over https"
        )
        refused = KnownProblem(
            401, HttpCode.UNAUTHENTICATED.value, "The key is not valid, or the code was used or is too old"
        )
        expired = KnownProblem(401, HttpCode.TOKEN_EXPIRED.value, "The key has expired")
        with_key = KnownProblem(403, HttpCode.PERMISSION_DENIED.value, "The credential is not an operator key")
        return (
            Operation(
                method="POST",
                path="/v1/login",
                needs=OPEN,
                tag=_TAG,
                summary="Log in to the dashboard: sets a cookie",
                description=(
                    "With an operator key, or with a code of `POST /v1/login/codes`. The login ends with the key, "
                    "after `auth.login_ms`, or when it was not used for `auth.login_idle_ms`. The cookie counts for "
                    "HTTP only, not for WebSockets."
                ),
                handle=self._log_in,
                body=LoginRequest,
                answer=LoggedIn,
                problems=(clear, refused, expired),
            ),
            Operation(
                method="POST",
                path="/v1/logout",
                needs=OPEN,
                tag=_TAG,
                summary="Log out of the dashboard: the cookie no longer counts, and open streams of the login end",
                handle=self._log_out,
                answer=LoggedOut,
            ),
            Operation(
                method="POST",
                path="/v1/login/codes",
                needs=(Scope.FLEET_READ,),
                tag=_TAG,
                summary="Make a code to log in with, for one use within a minute",
                description="`lingua dashboard` makes one and prints a link that holds it.",
                handle=self._make_code,
                answer=LoginCode,
                problems=(with_key,),
            ),
            Operation(
                method="GET",
                path="/v1/login/offers",
                needs=OPEN,
                tag=_TAG,
                summary="How people may log in to the dashboard, besides a key",
                handle=self._offer,
                answer=LoginOffers,
            ),
        )

    async def _offer(self, _: Call[None, None]) -> LoginOffers:
        return self._offers

    async def _log_in(self, call: Call[LoginRequest, None]) -> web.Response:
        if not call.login_cookie.name:
            raise Problem(403, HttpCode.PERMISSION_DENIED, IN_THE_CLEAR)
        if bool(call.body.code) == bool(call.body.key):
            raise Problem(400, ErrorCode.INVALID_MESSAGE, 'send either "key" or "code"')
        found = await self._found(call)
        if isinstance(found, Denied):
            raise Problem(found.status, found.code, found.detail, retry_after_s=found.retry_after_s)
        if found.kind is not PrincipalKind.OPERATOR:
            detail = "only operators log in; this is a key for programs"
            raise Problem(403, HttpCode.PERMISSION_DENIED, detail)
        secret = await self._logins.begin(found.key_id)
        if call.login_cookie.secret:
            # It is about to be overwritten, and no request could end it then.
            await self._logins.end(call.login_cookie.secret)
        response = json_response(LoggedIn(key_id=found.key_id, expires_ms=self._doorkeeper.now_ms() + self._login_ms))
        set_cookie(response, call.login_cookie.name, secret, self._login_ms // 1000)
        return response

    async def _found(self, call: Call[LoginRequest, None]) -> Principal | Denied:
        visit = Visit(call.caller.address, None, is_local=False)
        if call.body.key:
            return self._doorkeeper.admit(Shown(call.body.key.strip(), Via.HEADER), visit, ANYTHING)
        key_id = await self._logins.take_code(call.body.code)
        return unauthenticated("unknown code") if key_id is None else self._doorkeeper.by_key_id(key_id, visit)

    async def _log_out(self, call: Call[None, None]) -> web.Response:
        response = json_response(LoggedOut())
        if call.login_cookie.secret:
            await self._logins.end(call.login_cookie.secret)
            set_cookie(response, call.login_cookie.name, "", 0)
        return response

    async def _make_code(self, call: Call[None, None]) -> LoginCode:
        principal = call.principal
        if principal.kind is PrincipalKind.LOCAL:
            return LoginCode(code="", expires_ms=0)
        # Else a login could be renewed for ever without the key.
        if principal.kind is not PrincipalKind.OPERATOR or principal.login_id or principal.is_person:
            raise Problem(403, HttpCode.PERMISSION_DENIED, "a login code is made with an operator key")
        expires_ms = self._doorkeeper.now_ms() + CODE_MS
        return LoginCode(code=await self._logins.make_code(principal.key_id), expires_ms=expires_ms)


def set_cookie(response: web.Response, name: str, secret: str, max_age_s: int) -> None:
    is_secure = name.startswith(SECURE_PREFIX)
    response.set_cookie(name, secret, max_age=max_age_s, path="/", secure=is_secure, httponly=True, samesite="Strict")
