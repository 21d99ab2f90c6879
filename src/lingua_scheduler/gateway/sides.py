"""The public and the internal listener: on which of them a request came, and which host names each accepts."""

from collections.abc import Iterable

from aiohttp import web

from lingua_scheduler.domain.access.sides import Side
from lingua_scheduler.domain.guards.origins import HostRule, is_loopback
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.setting_sections.server import ServerSettings


class Sides:
    def __init__(self, settings: ServerSettings) -> None:
        self._public_side = Side.PUBLIC if settings.internal_port else Side.WHOLE
        self._public = HostRule(settings.allowed_hosts, settings.host)
        self._internal = HostRule(settings.allowed_hosts, settings.internal_host)
        self._has_internal = bool(settings.internal_port)
        self.listen_on([settings.host], [settings.internal_host])

    def listen_on(self, public: Iterable[str], internal: Iterable[str]) -> None:
        """The addresses. A listener that is only on loopback accepts only loopback names."""
        self._public.is_local = all(map(is_loopback, public))
        self._internal.is_local = all(map(is_loopback, internal))

    @property
    def is_local(self) -> bool:
        """Whether no other computer can reach the scheduler."""
        return self._public.is_local and (self._internal.is_local or not self._has_internal)

    def of(self, request: web.BaseRequest) -> Side:
        connection = request.protocol
        if isinstance(connection, Connection) and connection.is_internal:
            return Side.INTERNAL
        return self._public_side

    def admit_host(self, request: web.BaseRequest, host: str | None) -> bool:
        connection = request.protocol
        if not isinstance(connection, Connection):
            return self._public.admits(host, "")
        rule = self._internal if connection.is_internal else self._public
        return rule.admits(host, connection.local_address)
