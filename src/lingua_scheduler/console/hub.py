"""Fetches a model hub's list over HTTP."""

from lingua_scheduler.console.outside import NotFetched, fetched
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.services.nodes.model_hub import HubAway


class Hub:
    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations

    async def fetch(self, url: str, max_bytes: int) -> bytes:
        """The body of a 200. The caller sets the time limit."""
        if complaint := self._destinations.complaint(url):
            raise HubAway(f"invalid catalogue.url: {complaint}")
        try:
            return await fetched("catalogue", self._destinations, url, max_bytes)
        except NotFetched as error:
            raise HubAway(str(error)) from error
