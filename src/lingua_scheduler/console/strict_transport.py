"""HSTS: browsers that have met the scheduler's own TLS do not fall back to plain HTTP."""

from aiohttp import hdrs, web

from lingua_scheduler.domain.guards.origins import is_loopback, read_host

HEADER = "Strict-Transport-Security"
# A year, as is usual. Subdomains are other servers.
VALUE = "max-age=31536000"


async def require_tls(request: web.Request, response: web.StreamResponse) -> None:
    """A signal of the app. A loopback name is also that of every other program on the caller's computer."""
    host = read_host(request.headers.get(hdrs.HOST, ""))
    if request.secure and host is not None and not is_loopback(host.host):
        response.headers[HEADER] = VALUE
