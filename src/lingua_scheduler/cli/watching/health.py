"""`lingua health`: for programs that restart a scheduler. It imports little, because it runs every few seconds."""

import json
import math
import os
import socket
import time
from typing import NamedTuple, NoReturn
from urllib.parse import urlsplit

import click

from lingua_sdk.address import BadAddress, page_url

# As documented in docs/commands.md, and in `Exit`, whose module takes longer to import than all of this.
SETTINGS, SCHEDULER = 2, 5
MAX_ANSWER_BYTES = 65_536
ADDRESS = "http://127.0.0.1:5010"
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class HealthAnswer(NamedTuple):
    status: int
    body: str


class NoAnswer(Exception):
    """There is none, or it is not HTTP; the message says what came instead."""


@click.command()
@click.option("--url", default="", envvar="LINGUA_URL", help="URL of the instance.  [default: as its settings say]")
@click.option("--ready", "is_for_traffic", is_flag=True, help="Ask whether it takes work: not while Redis is away.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 60),
    default=5.0,
    show_default=True,
    help="Maximum seconds to wait for the answer.",
)
def health(url: str, is_for_traffic: bool, timeout_s: float) -> None:
    """Check that one instance is alive.

    For health checks of containers. The exit code is 0 if it answers. An alarm or an unavailable Redis does not change
    that, because a restart would not help; with --ready they count: ask so before you send it traffic. It needs no key.

    \b
    lingua health                      is the process alive? (restart it if not)
    lingua health --ready              does it take work? (send no traffic if not)
    lingua health --url https://127.0.0.1:8443
    HEALTHCHECK CMD ["lingua", "health"]

    Without --url and LINGUA_URL it asks the address that LINGUA_CONFIG and LINGUA_SERVER_... variables give to lingua
    serve, else 127.0.0.1:5010. Certificates are not verified: nothing secret is sent.

    Exit codes: 0 yes, 2 invalid settings or options, 5 no, or no answer in time. For people: lingua status.
    """
    if math.isnan(timeout_s):
        _end("--timeout must be a number of seconds", SETTINGS)
    address = url or _own_address()
    try:
        place = page_url(address, "/health/ready" if is_for_traffic else "/health")
        answer = ask(place, time.monotonic() + timeout_s)
    except BadAddress as error:
        _end(str(error), SETTINGS)
    except (NoAnswer, OSError) as error:
        # A timeout has no number, and no words of the system.
        reason = getattr(error, "strerror", None) or str(error)
        _end(f"no healthy scheduler at {address} ({reason}); start one with: lingua serve", SCHEDULER)
    if answer.status != 200:
        _end(f"the scheduler at {address} says {answer.status}: {_reasons(answer.body)}", SCHEDULER)
    click.echo("ready" if is_for_traffic else "alive")


def ask(url: str, deadline_s: float) -> HealthAnswer:
    """What is answered before the deadline; by hand, because a library for HTTP takes longer to import than to ask."""
    parts = urlsplit(url)
    name, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    request = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\nConnection: close\r\n\r\n"
    answer = b""
    plain = socket.create_connection((name, port), _left(deadline_s))
    with _wrapped(plain, name) if is_tls else plain as line:
        line.sendall(request.encode())
        while len(answer) < MAX_ANSWER_BYTES:
            line.settimeout(_left(deadline_s))
            chunk = line.recv(MAX_ANSWER_BYTES)
            if not chunk:
                break
            answer += chunk
    head, _, body = answer.decode(errors="replace").partition("\r\n\r\n")
    protocol, _, rest = head.partition(" ")
    if not protocol.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise NoAnswer("it does not speak HTTP" if answer else "it closed the connection without an answer")
    return HealthAnswer(int(rest[:3]), body)


def _left(deadline_s: float) -> float:
    left = deadline_s - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _wrapped(plain: socket.socket, name: str) -> socket.socket:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with plain:  # empty when it is wrapped
        return context.wrap_socket(plain, server_hostname=name)


def _own_address() -> str:
    """Where a scheduler with the settings of this environment listens; flags of its command line are not known."""
    if not any(name == "LINGUA_CONFIG" or name.startswith("LINGUA_SERVER_") for name in os.environ):
        return ADDRESS
    from lingua_scheduler.configuration.errors import SettingsError
    from lingua_scheduler.configuration.loading import load

    try:
        server = load(config_path=None, environment=os.environ, flags={}).settings.server
    except SettingsError as error:
        _end(str(error), SETTINGS)
    if server.internal_port:
        host, port, scheme = server.internal_host, server.internal_port, "http"
    else:
        host, port, scheme = server.host, server.port, "https" if server.tls_cert_file else "http"
    host = ANY_ADDRESS.get(host, host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _reasons(body: str) -> str:
    """Why it is not ready, or does not answer; in its own words, if it is a scheduler."""
    try:
        told = json.loads(body)
        return "; ".join(map(str, told["reasons"])) if "reasons" in told else str(told["detail"])
    except (ValueError, LookupError, TypeError):
        return body[:200].strip() or "no reason"


def _end(message: str, code: int) -> NoReturn:
    click.secho("lingua: " + "".join(c if c.isprintable() or c == "\n" else " " for c in message), fg="red", err=True)
    raise SystemExit(code)
