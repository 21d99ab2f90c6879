"""Errors become JSON, and a caller who has left gets none."""

from unittest.mock import Mock

import pytest
from aiohttp import ClientConnectionResetError, web
from aiohttp.test_utils import make_mocked_request

from lingua_scheduler.console.answers import errors_as_json
from tests.support.surprises import SURPRISES


async def reset(_: web.Request) -> web.StreamResponse:
    raise ConnectionResetError("Connection lost")


async def test_a_caller_who_disconnects_is_no_error_of_ours() -> None:
    protocol = Mock()
    request = make_mocked_request("GET", "/ws/session", protocol=protocol)
    protocol.transport = None
    with pytest.raises(ConnectionResetError):
        await errors_as_json(request, reset)
    assert not SURPRISES.is_any


@pytest.mark.expects_surprise("request.failed")
async def test_a_connection_that_breaks_elsewhere_is_one() -> None:
    request = make_mocked_request("GET", "/ws/session", protocol=Mock())
    assert (await errors_as_json(request, reset)).status == 500


class Cut(web.Response):
    """An answer whose caller leaves as it is written."""

    async def prepare(self, request: web.BaseRequest) -> None:
        pass

    async def write_eof(self, data: bytes = b"") -> None:
        raise ClientConnectionResetError("Cannot write to closing transport")


async def test_a_caller_who_leaves_as_the_rest_of_its_body_is_given_up_is_no_error() -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return Cut(status=400)

    body = Mock()
    body.is_eof.return_value = False
    body.readany.side_effect = TimeoutError
    request = make_mocked_request("POST", "/v1/translate", protocol=Mock(), payload=body)
    assert (await errors_as_json(request, refuse)).status == 400
    assert not SURPRISES.is_any
