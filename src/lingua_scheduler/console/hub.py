"""Fetches a model hub's list over HTTP."""

import aiohttp

from lingua_scheduler.console.outside import REFUSED, client_session, refusal_in
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.services.nodes.model_hub import HubAway

_PIECE_BYTES = 65_536
# An answer that is compressed could be far larger than it looks.
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


class Hub:
    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations

    async def fetch(self, url: str, max_bytes: int) -> bytes:
        """The body of a 200. The caller sets the time limit; more than `max_bytes` are not read, redirects neither."""
        if complaint := self._destinations.complaint(url):
            raise HubAway(f"invalid catalogue.url: {complaint}")
        try:
            async with (
                client_session(self._destinations) as http,
                http.get(url, allow_redirects=False, headers=_HEADERS) as response,
            ):
                if response.status != 200:
                    raise HubAway(f"the hub answered with status {response.status}")
                body = bytearray()
                async for piece in response.content.iter_chunked(_PIECE_BYTES):
                    body += piece
                    if len(body) > max_bytes:
                        raise HubAway(f"the hub's response is larger than {max_bytes} bytes")
                return bytes(body)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if reason := refusal_in(error):
                REFUSED["catalogue"].inc()
                raise HubAway(reason) from error
            raise HubAway(f"{type(error).__name__}: {error}") from error
