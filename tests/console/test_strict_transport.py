"""HSTS: over the scheduler's own TLS alone, and never for a loopback name."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from lingua_scheduler.console.strict_transport import HEADER, require_tls


@pytest.mark.parametrize(
    ("is_secure", "host", "is_sent"),
    [
        (True, "translate.example", True),
        (True, "translate.example:5010", True),
        (False, "translate.example", False),
        (True, "localhost:5010", False),
        (True, "127.0.0.1:5010", False),
        (True, "", False),
    ],
)
async def test_when_a_browser_is_told_to_keep_to_tls(is_secure: bool, host: str, is_sent: bool) -> None:
    request: Any = SimpleNamespace(secure=is_secure, headers={"Host": host} if host else {})
    response = web.Response()
    await require_tls(cast("web.Request", request), response)
    assert response.headers.get(HEADER) == ("max-age=31536000" if is_sent else None)
