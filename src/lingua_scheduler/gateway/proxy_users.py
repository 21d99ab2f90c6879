"""Operators who have logged in at a proxy in front of the scheduler, such as oauth2-proxy, which names them."""

from aiohttp import hdrs, web

from lingua_scheduler.domain.access.people import MAX_GROUPS, ForwardedUser
from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.gateway.login_cookies import has_login
from lingua_scheduler.setting_sections.access import AuthSettings


class ProxyUsers:
    """Only the peer of the connection itself is asked: any caller can send such a header, or say that a proxy did."""

    def __init__(self, settings: AuthSettings, addresses: AddressBook) -> None:
        self._header = settings.proxy_user_header
        self._groups_header = settings.proxy_groups_header
        self._addresses = addresses

    def find(self, request: web.BaseRequest) -> ForwardedUser | None:
        if not self.is_named(request):
            return None
        connection = request.protocol
        if not isinstance(connection, Connection) or not self._addresses.is_proxy(connection.caller.address):
            return None
        names = request.headers.getall(self._header)
        if len(names) != 1 or not names[0].strip():
            # A caller may have added one, and the proxy did not remove it.
            return None
        return ForwardedUser(names[0].strip(), self._groups(request))

    def is_named(self, request: web.BaseRequest) -> bool:
        """Whether it looks as if it came through such a proxy, trusted or not."""
        return bool(self._header) and self._header in request.headers

    def acts(self, request: web.BaseRequest) -> bool:
        """Whether a browser may have added what identifies its user, a login or this header, by itself."""
        if has_login(request):
            return True
        return self.is_named(request) and hdrs.AUTHORIZATION not in request.headers and self.find(request) is not None

    def _groups(self, request: web.BaseRequest) -> tuple[str, ...]:
        values = request.headers.getall(self._groups_header, ()) if self._groups_header else ()
        if len(values) != 1:
            return ()
        return tuple(group for part in values[0].split(",")[:MAX_GROUPS] if (group := part.strip()))
