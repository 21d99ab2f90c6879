"""Finds the credential in a request: in the Authorization header, the WebSocket sub-protocol, the query or a cookie."""

from aiohttp import hdrs, web

from lingua_scheduler.services.access.visits import Shown, Via

# What a browser offers, which can send no other header with a handshake: `lingua.v1, lingua.auth.<token>`.
PROTOCOL = "lingua.v1"
_CARRIER = "lingua.auth."
_BEARER = "bearer"
_PARAMETER = "access_token"


class TwoCredentials(Exception):
    """Which of them counts must not depend on who looks."""


class UnansweredProtocol(Exception):
    """The server must answer with one of the offered sub-protocols, and never with one that is a credential."""


def presented(request: web.Request, *, is_socket: bool, cookie: str) -> Shown | None:
    """Raises TwoCredentials if there are two that differ, and UnansweredProtocol. `cookie` is the name of the one that
    counts; browsers send it by themselves, so it only counts where nothing else is shown, and never for a socket."""
    found: list[Shown] = []
    headers = request.headers
    if hdrs.AUTHORIZATION in headers:
        for header in headers.getall(hdrs.AUTHORIZATION):
            scheme, _, text = header.partition(" ")
            # Another scheme is between the caller and a proxy.
            if scheme.lower() == _BEARER:
                found.append(Shown(text.strip(), Via.HEADER))
    if is_socket and hdrs.SEC_WEBSOCKET_PROTOCOL in headers:
        found += _in_protocols(headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL))
    # The name may be percent-encoded, so the text of the query does not tell.
    if request.query_string:
        found += [Shown(text, Via.QUERY) for text in request.query.getall(_PARAMETER, ())]
    if not found:
        secret = request.cookies.get(cookie) if cookie and not is_socket else None
        return Shown(secret, Via.COOKIE) if secret else None
    if len({shown.text for shown in found}) > 1:
        raise TwoCredentials
    # The last one is the most exposed place.
    return found[-1]


def _in_protocols(values: list[str]) -> list[Shown]:
    offered = [word.strip() for value in values for word in value.split(",")]
    found = [Shown(word.removeprefix(_CARRIER), Via.SUBPROTOCOL) for word in offered if word.startswith(_CARRIER)]
    if found and PROTOCOL not in offered:
        raise UnansweredProtocol(f"offer the sub-protocol {PROTOCOL} beside the one that carries the token")
    return found
