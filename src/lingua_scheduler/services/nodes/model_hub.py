"""The list of services of a model hub: polled in the background; the last known list is served meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from lingua_scheduler.domain.nodes.model_hub import OfferedService, UnreadableCatalogue, read_catalogue
from lingua_scheduler.setting_sections.nodes import CatalogueSettings
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.figures import replace_file
from lingua_sdk.domain.backoff import Backoff

_log = logs.get()

# After this many failures the delay doubles each time, up to ten minutes (exponential back-off).
FAILURES_BORNE = 3
LONGEST_PAUSE_S = 600.0
# Maximum time for the hub to answer, and maximum size of its response.
ANSWER_WITHIN_S = 5.0
MAX_BYTES = 1_048_576

# Fetches a URL, up to a number of bytes; raises HubAway.
Fetch = Callable[[str, int], Awaitable[bytes]]


class HubAway(Exception):
    """The hub does not answer, or not as it should: one sentence."""


class Catalogue:
    """`path` is the copy for when the hub is away, None: there is none."""

    def __init__(self, settings: CatalogueSettings, path: Path | None, fetch: Fetch) -> None:
        self._settings = settings
        self._path = path
        self._fetch = fetch
        self.services: list[OfferedService] = []
        # Rises with every change.
        self.serial = 0
        self.failures = 0

    async def run(self) -> None:
        """Load the copy, then poll the hub for ever, if one is configured."""
        await self.read_copy()
        while self._settings.url:
            await self.refresh()
            await asyncio.sleep(self.pause_s)

    @property
    def pause_s(self) -> float:
        interval_s = self._settings.interval_ms / 1000
        backoff = Backoff(interval_s, max(interval_s, LONGEST_PAUSE_S))
        return backoff.pause_s(1 + max(0, self.failures - FAILURES_BORNE + 1))

    async def refresh(self) -> None:
        """Ask once. A failure leaves everything as it was."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                body = await self._fetch(self._settings.url, MAX_BYTES)
            services = read_catalogue(body)
        except (HubAway, UnreadableCatalogue, TimeoutError) as error:
            self.failures += 1
            if self.failures in (1, FAILURES_BORNE):
                reason = str(error) or "the hub did not answer in time"
                _log.warning("catalogue.away", failures=self.failures, reason=reason, pause_s=self.pause_s)
            return
        self.failures = 0
        if self._take(services):
            await self._write_copy()

    async def read_copy(self) -> None:
        if self._path is None:
            return
        try:
            body = await asyncio.to_thread(_read, self._path, MAX_BYTES)
            self._take(read_catalogue(body))
        except FileNotFoundError:
            pass
        except (OSError, UnreadableCatalogue) as error:
            _log.warning("catalogue.copy_unread", path=str(self._path), error=str(error))

    def _take(self, services: list[OfferedService]) -> bool:
        if services == self.services:
            return False
        self.services = services
        self.serial += 1
        _log.info("catalogue.changed", services=len(services))
        return True

    async def _write_copy(self) -> None:
        if self._path is None:
            return
        body = msgspec.json.encode({"services": self.services})
        try:
            await asyncio.to_thread(_write, self._path, body)
        except OSError as error:
            _log.warning("catalogue.copy_unwritten", path=str(self._path), error=str(error))


def _read(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most)


def _write(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, body)
