"""CORS: web pages of allowed origins may call the operations that are meant for apps, and read the answers."""

from collections.abc import Callable

from aiohttp import hdrs, web

# Paths of those operations, with the methods they take.
APP_METHODS: web.AppKey[dict[str, list[str]]] = web.AppKey("app_methods", dict[str, list[str]])

_MAX_AGE_S = "600"
_SENT = "Accept, Authorization, Content-Type, Traceparent, X-Request-Id"
_READ = "Content-Disposition, Retry-After, WWW-Authenticate, X-Request-Id"


def add_preflight(app: web.Application, path: str, method: str) -> None:
    """Browsers ask before they send anything but a plain form."""
    methods = app.setdefault(APP_METHODS, {}).setdefault(path, [])
    if not methods:
        app.router.add_route(hdrs.METH_OPTIONS, path, _preflight)
    methods.append(method)


def allow_pages(app: web.Application, admits: Callable[[web.Request], bool]) -> None:
    """`admits` says whether the page that sends a request may use the scheduler."""

    async def mark(request: web.Request, response: web.StreamResponse) -> None:
        if _methods(request):
            # Also where no page asks: a cache must not give its answer to one.
            response.headers.add(hdrs.VARY, hdrs.ORIGIN)
            origin = request.headers.get(hdrs.ORIGIN)
            if origin is not None and admits(request):
                response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
                response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = _READ

    app.on_response_prepare.append(mark)


def _methods(request: web.Request) -> list[str]:
    resource = request.match_info.route.resource
    return request.app.get(APP_METHODS, {}).get(resource.canonical, []) if resource is not None else []


async def _preflight(request: web.Request) -> web.Response:
    methods = ", ".join((*_methods(request), hdrs.METH_OPTIONS))
    headers = {
        hdrs.ALLOW: methods,
        hdrs.ACCESS_CONTROL_ALLOW_METHODS: methods,
        hdrs.ACCESS_CONTROL_ALLOW_HEADERS: _SENT,
        hdrs.ACCESS_CONTROL_MAX_AGE: _MAX_AGE_S,
    }
    return web.Response(status=204, headers=headers)
