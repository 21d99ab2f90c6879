"""Answers to input that is not HTTP. It may contain a credential, so neither the response nor the log repeats it."""

from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from lingua_scheduler.telemetry import metrics

_CUT = metrics.by(metrics.CONNECTIONS_CUT, "malformed")
_DETAIL = "the request is not valid HTTP\n"


class DiscreetHandler(web.RequestHandler):
    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages:
            forget_frames(getattr(self._messages[-1][0], "exc", None))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """aiohttp would answer with the line that it could not read."""
        return super().handle_error(request, status, exc, _DETAIL if isinstance(exc, HttpProcessingError) else message)

    def log_exception(self, *told: Any, **more: Any) -> None:
        """Input that is no HTTP is counted; a peer that disconnected, perhaps in its handshake, is no error at all."""
        if isinstance(error := more.get("exc_info"), HttpProcessingError):
            _CUT["malformed"].inc()
        elif not (isinstance(error, ConnectionError) and (self.transport is None or self.transport.is_closing())):
            super().log_exception(*told, **more)


def forget_frames(error: BaseException | None) -> None:
    """The frames in which it was raised hold what was read, the connection, and the error: a cycle that only a full
    garbage collection frees. A flood of such requests would fill the memory before one is due."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def forget_missing_route(request: web.BaseRequest) -> None:
    """aiohttp makes a route of each request to an unknown path or with a wrong method, and the route holds itself."""
    match = request._match_info if isinstance(request, web.Request) else None
    if match is not None and match.http_exception is not None:
        forget_frames(match.http_exception)
        del match.route._handler
