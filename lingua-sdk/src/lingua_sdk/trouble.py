"""What goes wrong on the way to a scheduler: as exceptions, and in words for people."""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

# What connecting and calling raise, besides AccessDenied and Refused. All of it is an OSError.
Failures = (OSError, TimeoutError)

# A server that asks for a longer pause is asked again all the same.
MAX_RETRY_AFTER_S = 60.0
HAPPY_EYEBALLS_S = 0.25
# asyncio puts the failures of several addresses of one name into one message.
_NUMBER = re.compile(r"\[Errno (\d+)\]")


class UnknownHost(OSError):
    """The name of the host has no address."""

    def __init__(self, host: str) -> None:
        super().__init__(f"the host name {host} is unknown")
        self.host = host


class UnwantedStatus(ConnectionError):
    """The server answered a request for a WebSocket, or for a stream, with another HTTP status."""

    def __init__(self, status: int, retry_after: str = "") -> None:
        super().__init__(f"the server answered HTTP {status}")
        self.status = status
        self.retry_after = retry_after


class NotTheProtocol(ConnectionError):
    """The server speaks neither HTTP nor WebSocket, or hung up instead of answering."""


class Trouble(NamedTuple):
    """Why there is no connection, and what to do about it."""

    reason: str
    advice: str
    # No server is there; otherwise one is, or the name is wrong.
    is_absent: bool = False


def trouble_of(error: Exception) -> Trouble:
    match error:
        case UnknownHost():
            return Trouble(str(error), "correct it")
        case ssl.SSLCertVerificationError():
            return Trouble(f"its certificate is not trusted ({error.verify_message})", _advice_on_trust())
        case ssl.SSLError() | NotTheProtocol() | UnwantedStatus():
            return Trouble(
                "it does not speak the protocol of the URL", "check the port, and http against https, ws against wss"
            )
    return Trouble(reason_of(error), "start one with: lingua serve", is_absent=True)


def _advice_on_trust() -> str:
    named = os.environ.get("SSL_CERT_FILE", "")
    try:
        if named:
            Path(named).open("rb").close()
    except OSError as error:
        # Python ignores a file that it cannot read, and trusts no authority then.
        return f"SSL_CERT_FILE names {named}, which cannot be read ({error.strerror}); name the file of its authority"
    return "name the file of its authority in SSL_CERT_FILE, or use the name that stands in the certificate"


def reason_of(error: Exception) -> str:
    """A short reason why the connection failed."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        if getattr(error, "winerror", None):
            return error.strerror or str(error)
        found = _NUMBER.search(str(error))
        if number := error.errno or int(found[1] if found else 0):
            return os.strerror(number)
    return "it is silent" if isinstance(error, TimeoutError) else str(error) or type(error).__name__


def retry_after_s(error: Exception) -> float:
    """How long the server wants to be left alone; 0 if it does not say."""
    text = error.retry_after if isinstance(error, UnwantedStatus) else ""
    return min(float(text), MAX_RETRY_AFTER_S) if text.isascii() and text.isdigit() else 0.0


def dialling_options() -> dict[str, Any]:
    """For asyncio's connections: of a host with addresses of both families, the second is soon tried too."""
    # uvloop does not know the option.
    is_asyncio = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)
    return {"happy_eyeballs_delay": HAPPY_EYEBALLS_S} if is_asyncio else {}


@contextmanager
def naming_the_host(host: str) -> Iterator[None]:
    """What is raised when a name has no address does not say which name."""
    try:
        yield
    except (socket.gaierror, UnicodeError):
        raise UnknownHost(host) from None
