"""Bodies about logins."""

import msgspec
import pytest

from lingua_scheduler.protocol.http_logins import LoginRequest


def test_a_traceback_does_not_show_what_somebody_logs_in_with() -> None:
    assert "secret" not in repr(LoginRequest(key="secret"))


@pytest.mark.parametrize("body", [b'{"key":1}', b'{"keys":"a"}', b'{"code":"%s"}' % (b"x" * 257)])
def test_what_is_misspelled_or_too_long_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=LoginRequest)
