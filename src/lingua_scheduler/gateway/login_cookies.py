"""The cookie of a login to the dashboard: where it may travel, and who may change something with it."""

from aiohttp import hdrs, web

from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.domain.guards.origins import is_loopback, is_same_origin, read_host
from lingua_scheduler.gateway.connections import Connection

# Browsers take and send the first one only over https, and only for the host that set it. The second one is for http
# on their own computer, where it crosses no network.
SECURE_COOKIE, LOCAL_COOKIE = "__Host-lingua", "lingua"
FETCH_SITE = "Sec-Fetch-Site"
# Added by proxies: the caller behind one may be anywhere.
_PROXY_HEADERS = (hdrs.FORWARDED, hdrs.X_FORWARDED_FOR, hdrs.VIA)


def is_own_page(request: web.BaseRequest) -> bool:
    """Whether a page of this very scheduler sends it. A browser's own word comes first; older ones only say Origin."""
    site = request.headers.get(FETCH_SITE)
    if site is not None:
        return site.strip().lower() == "same-origin"
    origins, host = request.headers.getall(hdrs.ORIGIN, ()), request.headers.get(hdrs.HOST)
    return len(origins) == 1 and host is not None and is_same_origin(origins[0], host)


def has_login(request: web.BaseRequest) -> bool:
    return hdrs.COOKIE in request.headers and not request.cookies.keys().isdisjoint((SECURE_COOKIE, LOCAL_COOKIE))


def is_forwarded(request: web.BaseRequest) -> bool:
    return any(name in request.headers for name in _PROXY_HEADERS)


def is_from_here(request: web.BaseRequest) -> bool:
    """From this computer, to a loopback name, and not through a proxy: its callers may be anywhere."""
    connection, headers = request.protocol, request.headers
    if not isinstance(connection, Connection) or not is_loopback(connection.caller.address):
        return False
    if is_forwarded(request):
        return False
    host = headers.get(hdrs.HOST)
    return host is None or ((named := read_host(host)) is not None and is_loopback(named.host))


def name_for(request: web.BaseRequest, addresses: AddressBook) -> str:
    """Name of the cookie that may carry a login; empty if it would cross a network that others can read."""
    if request.secure or _is_forwarded_securely(request, addresses):
        return SECURE_COOKIE
    return LOCAL_COOKIE if is_from_here(request) else ""


def _is_forwarded_securely(request: web.BaseRequest, addresses: AddressBook) -> bool:
    connection, schemes = request.protocol, request.headers.getall(hdrs.X_FORWARDED_PROTO, ())
    if not schemes or not isinstance(connection, Connection):
        return False
    is_https = all(scheme.strip().lower() == "https" for scheme in ",".join(schemes).split(","))
    return is_https and addresses.is_proxy(connection.caller.address)
