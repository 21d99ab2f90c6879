"""HTTP for browsers: login to the dashboard through an identity provider. It ends in the cookie of any other login."""

import html
from collections.abc import Mapping

from aiohttp import hdrs, web

from lingua_scheduler.console.answers import CALLER, REQUEST_ID, Problem, RequestJudge, problem_response
from lingua_scheduler.console.logins import IN_THE_CLEAR, SECURE_PREFIX, set_cookie
from lingua_scheduler.domain.access.audit import AuditAction
from lingua_scheduler.domain.access.oidc_flows import FLOW_MS, OidcRefused, ProviderAway
from lingua_scheduler.domain.access.people import Person, ProvenIdentity
from lingua_scheduler.domain.guards.origins import read_host
from lingua_scheduler.services.access.auditing import Auditor
from lingua_scheduler.services.access.doorkeeper import Doorkeeper
from lingua_scheduler.services.access.logins import Logins
from lingua_scheduler.services.access.oidc import OidcLogins, Returned
from lingua_scheduler.services.access.people import NO_ROLE
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.errors import ErrorCode, HttpCode

_log = logs.get()

START = "/v1/login/oidc"
CALLBACK = f"{START}/callback"
# As seen from each of the two, so that a proxy may add a prefix.
_DASHBOARD = {START: "../../dashboard", CALLBACK: "../../../dashboard"}
_OFF = "no identity provider is configured here; log in with an operator key, or set auth.oidc.issuer"
_AWAY = "the identity provider does not answer as it should; try again, or log in with an operator key"
_REFUSED = "this login does not count; begin it again from the dashboard, in one window of one browser"
_NO_REDIS = "Redis is unavailable, so logins cannot begin; try again shortly"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class OidcPages:
    """`oidc` is None if no provider is configured."""

    def __init__(
        self, oidc: OidcLogins | None, logins: Logins, doorkeeper: Doorkeeper, auditor: Auditor, door: RequestJudge
    ) -> None:
        self._oidc = oidc
        self._logins = logins
        self._doorkeeper = doorkeeper
        self._auditor = auditor
        self._door = door

    def add_to(self, app: web.Application) -> None:
        app.router.add_get(START, self._start, allow_head=False)
        app.router.add_get(CALLBACK, self._callback, allow_head=False)

    async def _start(self, request: web.Request) -> web.Response:
        try:
            cookie = self._cookie(request)
            url, secret = await self._configured.begin(self._redirect_uri(request, cookie))
        except ProviderAway as error:
            _log.warning("oidc.away", reason=str(error))
            return _told(request, Problem(503, HttpCode.SERVICE_UNAVAILABLE, _AWAY))
        except RedisAway:
            return _told(request, Problem(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, _NO_REDIS))
        except Problem as problem:
            return _told(request, problem)
        response = _redirect(url)
        _set_flow(response, cookie, secret, FLOW_MS // 1000)
        return response

    async def _callback(self, request: web.Request) -> web.Response:
        cookie = ""
        try:
            cookie = self._cookie(request)
            response = await self._finished(request, cookie)
        except OidcRefused as error:
            response = self._refused(request, str(error), Problem(401, HttpCode.UNAUTHENTICATED, _REFUSED))
        except ProviderAway as error:
            _log.warning("oidc.away", reason=str(error))
            response = _told(request, Problem(503, HttpCode.SERVICE_UNAVAILABLE, _AWAY))
        except RedisAway:
            response = _told(request, Problem(503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, _NO_REDIS))
        except Problem as problem:
            response = _told(request, problem)
        if cookie and _flow_name(cookie) in request.cookies:
            _set_flow(response, cookie, "", 0)
        return response

    async def _finished(self, request: web.Request, cookie: str) -> web.Response:
        secret = request.cookies.get(_flow_name(cookie), "")
        identity = await self._configured.finish(secret, _returned(request.query), self._redirect_uri(request, cookie))
        person = self._doorkeeper.people.person(identity)
        if person is None:
            return self._refused(request, "no role", Problem(403, HttpCode.PERMISSION_DENIED, NO_ROLE))
        secret = await self._logins.begin(person)
        try:
            await self._note(request, secret, person, identity)
        except BaseException:
            # What the audit log does not know of does not happen.
            await self._logins.end(secret)
            raise
        if before := request.cookies.get(cookie):
            # It is about to be overwritten, and no request could end it then.
            await self._logins.end(before)
        response = _redirect(_DASHBOARD[CALLBACK])
        set_cookie(response, cookie, secret, self._logins.login_ms // 1000)
        return response

    async def _note(self, request: web.Request, secret: str, person: Person, identity: ProvenIdentity) -> None:
        login = self._logins.find(secret)
        principal = None if login is None else self._doorkeeper.people.by_login(login)
        if login is None or principal is None:
            raise OidcRefused("the login has ended already")
        values = {"login": login.id, "group": person.group, "tenant": principal.tenant, "name": identity.name}
        await self._auditor.note(
            principal,
            request[CALLER].address,
            AuditAction.LOGGED_IN,
            person.subject,
            values=values,
            request_id=request[REQUEST_ID],
        )

    @property
    def _configured(self) -> OidcLogins:
        if self._oidc is None:
            raise Problem(404, HttpCode.NOT_FOUND, _OFF)
        return self._oidc

    def _cookie(self, request: web.Request) -> str:
        """Name of the cookie of a login."""
        cookie = self._door.login_cookie(request)
        if self._oidc is not None and not cookie:
            raise Problem(403, HttpCode.PERMISSION_DENIED, IN_THE_CLEAR)
        return cookie

    def _redirect_uri(self, request: web.Request, cookie: str) -> str:
        """Where the provider sends the browser back. It knows which addresses it may send to."""
        if self._configured.callback_url:
            return self._configured.callback_url
        host = request.headers.get(hdrs.HOST, "")
        if read_host(host) is None:
            raise Problem(400, ErrorCode.INVALID_MESSAGE, "the Host header is missing or malformed")
        return f"{'https' if cookie.startswith(SECURE_PREFIX) else 'http'}://{host}{CALLBACK}"

    def _refused(self, request: web.Request, reason: str, problem: Problem) -> web.Response:
        address = request[CALLER].address
        _log.warning("login.refused", reason=reason, address=address)
        self._auditor.denied(address)
        return _told(request, problem)


def _returned(query: Mapping[str, str]) -> Returned:
    """Providers add parameters of their own, which do not matter."""
    return Returned(query.get("state", ""), query.get("code", ""), query.get("error", ""), query.get("iss", ""))


def _flow_name(cookie: str) -> str:
    return f"{cookie}-oidc"


def _set_flow(response: web.Response, cookie: str, secret: str, max_age_s: int) -> None:
    """Unlike the cookie of a login it must be sent when another site, the provider, sends the browser back."""
    is_secure = cookie.startswith(SECURE_PREFIX)
    response.set_cookie(
        _flow_name(cookie), secret, max_age=max_age_s, path="/", secure=is_secure, httponly=True, samesite="Lax"
    )


def _redirect(url: str) -> web.Response:
    return web.Response(status=303, headers={**_HEADERS, hdrs.LOCATION: url})


def _told(request: web.Request, problem: Problem) -> web.Response:
    """A page for people, JSON for programs."""
    if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
        response = problem_response(problem)
        response.headers.update(_HEADERS)
        return response
    back = _DASHBOARD[START if request.path.endswith(START) else CALLBACK]
    detail = html.escape(f"{problem.detail[:1].upper()}{problem.detail[1:]}.")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Not logged in · Lingua Scheduler</title>'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"></head>'
        f'<body><main><h1>Not logged in</h1><p>{detail}</p><p><a href="{back}">To the dashboard</a></p></main></body>'
        "</html>"
    )
    return web.Response(status=problem.status, text=page, content_type="text/html", headers=_HEADERS)
