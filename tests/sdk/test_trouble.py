"""Why there is no connection, in words."""

import errno
import ssl
from pathlib import Path

import pytest

from lingua_sdk.tls import ClientTlsError
from lingua_sdk.trouble import NotTheProtocol, UnknownHost, UnwantedStatus, reason_of, retry_after_s, trouble_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (
            OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] …"),
            "Connection refused",
        ),
        (ConnectionResetError("the answer is cut off"), "the answer is cut off"),
        (ClientTlsError("ca.crt cannot be used: it is not PEM"), "ca.crt cannot be used: it is not PEM"),
        (TimeoutError(), "it is silent"),
        (OSError(), "OSError"),
    ],
)
def test_reasons(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
    assert trouble_of(error).is_absent


def test_a_reason_of_windows_is_in_its_own_words() -> None:
    error = ConnectionRefusedError(22, "The remote computer refused the network connection")
    error.winerror = 1225  # type: ignore[attr-defined]
    assert reason_of(error) == "The remote computer refused the network connection"


@pytest.mark.parametrize("error", [NotTheProtocol("x"), UnwantedStatus(404), ssl.SSLError(1, "WRONG_VERSION_NUMBER")])
def test_what_is_no_scheduler(error: Exception) -> None:
    assert trouble_of(error).reason == "it does not speak the protocol of the URL"
    assert not trouble_of(error).is_absent


def test_names_and_certificates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert trouble_of(UnknownHost("h")) == ("the host name h is unknown", "correct it", False)
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_message = "self-signed certificate"
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert "(self-signed certificate)" in trouble_of(error).reason
    assert "name the file of its authority" in trouble_of(error).advice
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert "none.pem, which cannot be read (No such file" in trouble_of(error).advice


def test_only_a_refusal_asks_for_a_pause() -> None:
    assert retry_after_s(UnwantedStatus(503, "3")) == 3.0
    assert retry_after_s(TimeoutError()) == 0.0
