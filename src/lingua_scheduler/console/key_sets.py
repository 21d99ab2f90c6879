"""Fetches the public keys of issuers (JWKS) over HTTPS."""

from lingua_scheduler.console.outside import NotFetched, fetched
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.services.access.jwks import JwksAway


class KeySets:
    """Who can change such an answer on its way can sign tokens: without TLS only the allowed networks are called."""

    def __init__(self, destinations: Destinations) -> None:
        self._encrypted = destinations
        self._plain = destinations.without_public()

    async def fetch(self, url: str, max_bytes: int) -> bytes:
        """The body of a 200. The caller sets the time limit."""
        destinations = self._encrypted if url.lower().startswith("https:") else self._plain
        try:
            return await fetched("jwks", destinations, url, max_bytes)
        except NotFetched as error:
            raise JwksAway(str(error)) from error
