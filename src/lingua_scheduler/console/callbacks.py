"""Posts messages to nodes that gave a `callback_url`."""

import aiohttp

from lingua_scheduler.console.outside import REFUSED, client_session, refusal_in
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.telemetry import logs
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.shapes import Message

_log = logs.get()

_HEADERS = {"Content-Type": "application/json"}


class Courier:
    """The caller sets the time limit and how many go at once."""

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations
        self._http: aiohttp.ClientSession | None = None

    async def carry(self, url: str, message: Message) -> bool:
        """Whether it was taken (2xx). What the address answers is not read, and it cannot send us elsewhere."""
        try:
            async with self._session().post(
                url, data=codec.encode(message), headers=_HEADERS, allow_redirects=False
            ) as response:
                return 200 <= response.status < 300
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if reason := refusal_in(error):
                REFUSED["callback"].inc()
                _log.warning("callback.refused", reason=reason[:300])
            return False

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            # Made late because it needs a running loop. It has no limit of connections: every node has its own.
            self._http = client_session(self._destinations)
        return self._http
